"""Files made bad in every way that a disk of many files knows."""

from __future__ import annotations

import csv
import os
import random
from pathlib import Path

import corpus

KINDS = ("truncated", "empty", "text", "missing", "unreadable", "mangled")

COUNT = 30
"""Files of `spoiled_index` (tests/conftest.py)."""
BAD = dict(zip((1, 4, 10, 15, 22, 28), KINDS, strict=True))
"""Those of them that went bad after it was made, and how."""
GOOD = [index for index in range(COUNT) if index not in BAD]


def write_photos(root: Path, count: int, classes: int = 3, size: tuple[int, int] = (48, 64), kinds: int = 8) -> None:
    """``count`` JPEGs in class folders, dealt in turn; some of them are the same picture."""
    sizes = ((size[0] + number, size[1] + number // 2) for number in range(min(count, kinds)))
    pictures = [corpus.jpeg(*size, seed=number) for number, size in enumerate(sizes)]
    for number in range(count):
        path = root / f"class{number % classes}" / f"{number:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pictures[number % len(pictures)])


def spoil(path: str | os.PathLike[str], kind: str) -> None:
    """Makes a good file bad; kind is one of `KINDS`."""
    path = Path(path)
    data = path.read_bytes()
    if kind == "truncated":
        path.write_bytes(data[: len(data) * 2 // 3])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("404: not found, says a server that was asked for a picture")
    elif kind == "missing":
        path.unlink()
    elif kind == "unreadable":
        path.chmod(0)
        if os.access(path, os.R_OK):  # the administrator may read everything; nobody reads a folder
            path.unlink()
            path.mkdir()
    else:
        path.write_bytes(_mangled(data))


def _mangled(data: bytes) -> bytes:
    """With some bytes overwritten behind an intact header, so that Pillow refuses the pixels."""
    for seed in range(1000):
        rng = random.Random(seed)
        changed = bytearray(data)
        for _ in range(4):
            place = rng.randrange(20, len(data) // 2)
            changed[place : place + 8] = rng.randbytes(8)
        if corpus.pillow_pixels(bytes(changed)) is None:
            return bytes(changed)
    raise AssertionError("Pillow forgives everything")


def logged(log: Path) -> list[dict[str, str]]:
    """The rows of a bad_files.csv."""
    with open(log, newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.DictReader(file))
