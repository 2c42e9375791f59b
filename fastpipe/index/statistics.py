"""Statistics of an index's files: `index_statistics`."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np

from fastpipe.index.image_index import ImageIndex
from fastpipe.index.table import Array


def index_statistics(index: ImageIndex) -> dict[str, Any]:
    """Counts and sizes as values that JSON can hold.

    Args:
        index: the files; without sizes, what follows from them is left out.

    Returns:
        ``"root"``, ``"files"``, ``"classes"`` (files a class) and ``"endings"`` (files an ending, lower-case). With
        sizes: ``"bytes"`` (total, smallest, median, largest, in bytes), ``"empty"`` and ``"unreachable"`` files.
    """
    table = index.table
    endings: Counter[str] = Counter()
    for paths, _ in table.blocks():
        endings.update(os.path.splitext(path)[1][1:].lower() for path in paths)
    found: dict[str, Any] = {
        "root": index.root,
        "files": len(index),
        "classes": dict(zip(index.classes, index.counts().tolist(), strict=True)),
        "endings": dict(endings.most_common()),
    }
    if table.sizes is not None:
        sizes = table.sizes[table.sizes >= 0]
        found["bytes"] = {"total": int(sizes.sum()), **_spread(sizes)}
        found["empty"] = int((sizes == 0).sum())
        found["unreachable"] = len(index) - len(sizes)
    return found


def _spread(values: Array) -> dict[str, int]:
    if not len(values):
        return {"smallest": 0, "median": 0, "largest": 0}
    return {"smallest": int(values.min()), "median": int(np.median(values)), "largest": int(values.max())}
