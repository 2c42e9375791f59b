"""The names of converted files: only the ending changes, the sort order stays, and no two are equal."""

from __future__ import annotations

import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fastpipe.core.packed import PACKED_EXTENSION
from fastpipe.errors import DatasetError
from fastpipe.index.extensions import IMG_EXTENSIONS
from fastpipe.packing.items import BY_CONTENT

IMAGES = tuple(ending for ending in IMG_EXTENSIONS if ending != PACKED_EXTENSION)
"""The endings of images that may be packed."""


class Ending(NamedTuple):
    """The ending that a conversion gives to files."""

    new: str  # the ending, with its dot
    # lower-case endings that `new` replaces; if a name has one of them before its last ending, the last one is dropped
    old: tuple[str, ...] = ()

    def short(self, name: str) -> str:
        """``cat.jpg`` to ``cat.fpj``; when unpacking, ``cat.jpg.fpj`` to ``cat.jpg``, and ``cat.fpj`` to ``cat.*``."""
        stem, last = posixpath.splitext(name)
        if not stem.lower().endswith(IMAGES):
            return stem + self.new
        if self.old:
            return stem
        # Unpacked, cat.png.fpj is cat.png: of cat.png.jpg it has to be cat.png.jpg.fpj.
        return self.long(name) if last.lower() in IMAGES else stem + self.new

    def long(self, name: str) -> str:
        """``cat.jpg`` to ``cat.jpg.fpj``."""
        return name + self.new


PACKED = Ending(PACKED_EXTENSION)
UNPACKED = Ending(BY_CONTENT, IMAGES)


def in_a_folder(names: Sequence[str], ending: Ending) -> list[str]:
    """Chooses names for a folder's files in case they are converted; `names` may be in any order.

    If another name in the folder begins with the same stem and a dot (``cat.jpg`` beside ``cat.png``), the new ending
    is added to the whole name. So no two names are equal, and they sort as before, whichever files are converted. A
    name that is the beginning of another one gets ``""``, as a changed name would sort differently.
    """
    ordered = sorted(names)
    taken = set(names)

    def begins(at: int, start: str) -> bool:
        return at < len(ordered) and ordered[at].startswith(start)

    endings = []
    for name in names:
        start, short = posixpath.splitext(name)[0] + ".", ending.short(name)
        shared = begins(bisect_left(ordered, start) + 1, start)
        if begins(bisect_right(ordered, name), name):
            endings.append("")
        elif shared or (short in taken and short != name):  # cat.jpg.fpj beside cat.jpg
            endings.append(ending.long(name))
        else:
            endings.append(short)
    return endings


def in_a_sample(name: str, others: Iterable[str], ending: Ending) -> str:
    """The name of a sample's converted image: the short one, unless another member has or may get that name."""
    taken = set[str]()
    for other in others:
        if other != name:
            taken.update((other, ending.short(other)) if other.lower().endswith(IMG_EXTENSIONS) else (other,))
    short = ending.short(name)
    return ending.long(name) if short in taken else short


def sample_key(name: str, whole: bool) -> str:
    """The key of the sample that a file becomes in shards; a key must not have a dot.

    Args:
        name: the file's name with its folder.
        whole: keep the ending in the key, as ``cat_jpg``.
    """
    folder, slash, base = name.rpartition("/")
    if not whole:
        base = posixpath.splitext(base)[0]
        if name.lower().endswith(PACKED_EXTENSION) and base.lower().endswith(IMAGES):
            base = posixpath.splitext(base)[0]
    return folder + slash + base.replace(".", "_")


def checked(name: str, source: str) -> str:
    """Returns a name; raises DatasetError if it leads out of the target."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\\" in name or ":" in parts[0]:
        raise DatasetError(f"{source} holds a file named {name!r}, which would lie outside of the target.")
    return name
