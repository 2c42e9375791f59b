"""Statistics of an index's files: `index_statistics`."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np

from fastpipe.index.image_index import ImageIndex
from fastpipe.index.table import FLAGS, Array


def index_statistics(index: ImageIndex) -> dict[str, Any]:
    """Counts and sizes as values that JSON can hold.

    Args:
        index: the files; without sizes or headers, what follows from them is left out.

    Returns:
        ``"root"``, ``"files"``, ``"classes"`` (files a class) and ``"endings"`` (files an ending, lower-case). With
        sizes: ``"bytes"`` (total, smallest, median, largest, in bytes), ``"empty"`` and ``"unreachable"`` files. With
        headers: ``"formats"`` (files a format, by content), ``"height"`` and ``"width"`` (smallest, median, largest,
        in pixels), ``"progressive"``, ``"cmyk"``, ``"animated"``, ``"unreadable"`` files, and ``"orientations"``
        (files of each EXIF orientation but 1).
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
    flags, formats, orientations = table.flags, table.formats, table.orientations
    if flags is not None and formats is not None and orientations is not None:
        readable = flags & FLAGS["unreadable"] == 0
        counts = np.bincount(formats[readable], minlength=len(index.formats)).tolist()
        by_format = Counter({name: count for name, count in zip(index.formats, counts, strict=True) if count})
        found["formats"] = dict(by_format.most_common())
        for name, pixels in (("height", table.heights), ("width", table.widths)):
            assert pixels is not None
            found[name] = _spread(pixels[readable])
        for name, bit in FLAGS.items():
            found[name] = int(np.count_nonzero(flags & bit))
        turned = np.bincount(orientations, minlength=9).tolist()
        found["orientations"] = {str(number): turned[number] for number in range(2, 9) if turned[number]}
    return found


def _spread(values: Array) -> dict[str, int]:
    if not len(values):
        return {"smallest": 0, "median": 0, "largest": 0}
    return {"smallest": int(values.min()), "median": int(np.median(values)), "largest": int(values.max())}
