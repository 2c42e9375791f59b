"""The names of converted files: as they were but for the ending, in the same order, and no two alike."""

from __future__ import annotations

import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fastpipe.core.packed import PACKED_EXTENSION
from fastpipe.errors import DatasetError
from fastpipe.index.listing import IMG_EXTENSIONS
from fastpipe.packing.items import BY_CONTENT

IMAGES = tuple(ending for ending in IMG_EXTENSIONS if ending != PACKED_EXTENSION)
"""The endings of images that may be packed."""


class Ending(NamedTuple):
    """The ending that files get."""

    new: str  # the ending, with its dot
    # the endings, lower-case, that a name loses for it; where one stands before it already, that is all
    old: tuple[str, ...] = ()

    def short(self, name: str) -> str:
        """``cat.jpg`` → ``cat.fpj``; back, ``cat.jpg.fpj`` → ``cat.jpg``, and ``cat.fpj`` → ``cat.*``."""
        stem = posixpath.splitext(name)[0]
        return stem if self.old and stem.lower().endswith(self.old) else stem + self.new

    def long(self, name: str) -> str:
        """``cat.jpg`` → ``cat.jpg.fpj``."""
        return name + self.new


PACKED = Ending(PACKED_EXTENSION)
UNPACKED = Ending(BY_CONTENT, IMAGES)


def in_a_folder(names: Sequence[str], ending: Ending) -> list[str]:
    """The names that the files of a folder get where they are converted, given in any order.

    Where another name of the folder begins with the same stem and a dot (``cat.jpg`` beside ``cat.png``), the whole
    name stays before the new ending. So no two are alike, and the names sort as they did, whichever of them are
    converted. A name that another one begins with whole gets ``""``: it can't change without changing places.
    """
    ordered = sorted(names)
    taken = set(names)

    def begins(at: int, start: str) -> bool:
        return at < len(ordered) and ordered[at].startswith(start)

    found = []
    for name in names:
        start, short = posixpath.splitext(name)[0] + ".", ending.short(name)
        shared = begins(bisect_left(ordered, start) + 1, start)
        if begins(bisect_right(ordered, name), name):
            found.append("")
        elif shared or (short in taken and short != name):  # cat.jpg.fpj beside cat.jpg
            found.append(ending.long(name))
        else:
            found.append(short)
    return found


def in_a_sample(name: str, others: Iterable[str], ending: Ending) -> str:
    """The name of a sample's image that is converted: short, unless another member is or may be called that."""
    taken = set[str]()
    for other in others:
        if other != name:
            taken.update((other, ending.short(other)) if other.lower().endswith(IMG_EXTENSIONS) else (other,))
    short = ending.short(name)
    return ending.long(name) if short in taken else short


def sample_key(name: str, whole: bool) -> str:
    """The key of the sample that a file becomes in shards, where a name ends at its first dot.

    Args:
        name: of the file, with its folder.
        whole: also keep its ending, as ``cat_jpg``.
    """
    folder, slash, base = name.rpartition("/")
    if not whole:
        base = posixpath.splitext(base)[0]
        if name.lower().endswith(PACKED_EXTENSION) and base.lower().endswith(IMAGES):
            base = posixpath.splitext(base)[0]
    return folder + slash + base.replace(".", "_")


def checked(name: str, source: str) -> str:
    """A name, unless it leads out of the target: then DatasetError."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\\" in name or ":" in parts[0]:
        raise DatasetError(f"{source} holds a file named {name!r}, which would lie outside of the target.")
    return name
