"""Statistics of an index's files, and of other files in the same folders."""

from __future__ import annotations

import contextlib
import os
from collections import Counter

import numpy as np

from fastpipe.index.archives import list_members
from fastpipe.index.folder_source import is_folder
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.table import Array, Table


def index_statistics(index: ImageIndex) -> dict[str, object]:
    """Counts and sizes of an index's files, representable in JSON.

    Args:
        index: the index; if it has no sizes, the entries that need them are left out.

    Returns:
        ``"root"``, ``"files"``, ``"classes"`` (files in each class) and ``"endings"`` (files of each lower-case
        ending). With sizes: ``"bytes"`` (total, smallest, median, largest), ``"empty"`` and ``"unreachable"`` (numbers
        of files).
    """
    table = index.table
    statistics: dict[str, object] = {
        "root": index.root,
        "files": len(index),
        "classes": dict(zip(index.classes, index.counts().tolist(), strict=True)),
        "endings": {ending[1:]: count for ending, count in _endings(table).most_common()},
    }
    if table.sizes is not None:
        sizes = table.sizes[table.sizes >= 0]
        statistics["bytes"] = {"total": int(sizes.sum()), **_spread(sizes)}
        statistics["empty"] = int((sizes == 0).sum())
        statistics["unreachable"] = len(index) - len(sizes)
    return statistics


def files_left_out(index: ImageIndex, own: tuple[str, ...] = ()) -> dict[str, int]:
    """For each ending, the number of files in a local index's folders or archive that aren't in the index.

    Args:
        index: the index.
        own: ends of names of files that fastpipe wrote itself, which don't count.
    """
    counts: Counter[str] = Counter()
    for path in index.containers:
        counts.update(_ending(member.name) for member in list_members(path) if member.start >= 0)
    for folder in index.table.folders or ():
        with contextlib.suppress(OSError), os.scandir(index.prefix + folder) as entries:
            counts.update(
                _ending(entry.name) for entry in entries if not (is_folder(entry) or entry.name.endswith(own))
            )
    counts.subtract(_endings(index.table) if counts else ())
    return {ending: count for ending, count in counts.most_common() if count > 0}


def _endings(table: Table) -> Counter[str]:
    """The number of files of each ending: lower-case, with its dot."""
    return Counter(_ending(path) for paths, _ in table.blocks() for path in paths)


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _spread(values: Array) -> dict[str, int]:
    if not len(values):
        return {"smallest": 0, "median": 0, "largest": 0}
    return {"smallest": int(values.min()), "median": int(np.median(values)), "largest": int(values.max())}
