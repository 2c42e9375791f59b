"""Photos to lose."""

from __future__ import annotations

from pathlib import Path

import corpus


def write_photos(root: Path) -> Path:
    """24 JPEGs in two classes, ``class0/00.jpg`` to ``class1/23.jpg``."""
    for number in range(24):
        path = root / f"class{number // 12}" / f"{number:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(corpus.jpeg(40 + number, 60, seed=number))
    return root
