"""Comparisons of packed data sets."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

import numpy as np

from fastpipe import readers
from fastpipe.packing.record import NAME


def contents(place: Path) -> dict[str, bytes]:
    """All files of a target but its record, by name."""
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    return {path.relative_to(place.parent).as_posix(): path.read_bytes() for path in files if NAME not in path.name}


def stems(dataset: Any) -> list[str]:
    """The names of a data set's files in their folders, as far as packing doesn't change them."""
    return [posixpath.splitext(posixpath.basename(str(path)))[0].split(".")[0] for path, _ in dataset.samples]


def assert_same(dataset: Any, other: Any, names: bool = True, classes: bool = True) -> None:
    """The same samples in the same order: classes, targets, names and every pixel."""
    assert len(dataset) == len(other) > 0
    assert list(dataset.targets) == list(other.targets)
    if classes:
        assert list(dataset.classes) == list(other.classes)
    if names:
        assert all(map(str.startswith, stems(dataset), stems(other)))
    for (path, _), (own, _) in zip(dataset.samples, other.samples, strict=True):
        np.testing.assert_array_equal(readers.read_image(path), readers.read_image(own))
