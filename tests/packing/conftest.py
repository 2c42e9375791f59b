"""Folders to pack: small, with what can't be packed among it."""

from __future__ import annotations

import sys
from pathlib import Path

import corpus
import pytest
from PIL import Image

from fastpipe import core

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not core.available():
        pytest.skip(f"no core: {core.why_not()}")
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "cache"))


def content() -> dict[str, bytes]:
    """Odd sizes, gray, a progressive one; PNG, CMYK, a PNG under a JPEG's name; names that clash."""
    jpeg = corpus.jpeg
    sound = {f"cat/{number}.jpg": jpeg(17 + number, 40, "420", number) for number in range(5)}
    gray = Image.fromarray(corpus.photo(9, 31)).convert("L")
    cmyk = Image.fromarray(corpus.photo(16, 16)).convert("CMYK")
    return sound | {
        "cat/a.JPEG": jpeg(8, 8, "444"),
        "cat/a.png": corpus.save(corpus.photo(5, 7), "PNG"),
        "cat/gray.jpg": corpus.save(gray, "JPEG"),
        "cat/one.jpg": jpeg(1, 1),
        "dog/below/deep.jpg": jpeg(33, 20, "422"),
        "dog/cmyk.jpg": corpus.save(cmyk, "JPEG"),
        "dog/no.dots.jpg": jpeg(21, 22),
        "dog/progressive.jpeg": corpus.save(corpus.photo(40, 50), "JPEG", progressive=True),
        "dog/really.jpg": corpus.save(corpus.photo(6, 6), "PNG"),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "train"
    for name, data in content().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root
