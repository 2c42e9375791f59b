"""Files to pack: the place of each in the source, and its name in the target."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

BY_CONTENT = ".*"
"""Stands for a name's ending until the file is read: then it is the original's, or that of the file's format."""

_UNKNOWN_SIZE = 1 << 17  # bytes assumed in the plan for a file of unknown size


class Item(NamedTuple):
    """A file of the source, and its names in the target."""

    key: str  # its unique name in the source
    path: str  # the path for `fastpipe.readers.read_file`; ``""`` for a folder
    kept: str  # its name in the target if it is kept as it is; a folder's ends in ``/``
    converted: str = ""  # its name in the target if it is converted; ``""`` if it is never converted
    size: int = -1  # bytes; -1 if unknown
    beside: tuple[tuple[str, bytes], ...] = ()  # names and bytes of files written after it, such as its label
    begins: bool = True  # whether it begins a sample, so that another shard may begin with it
    group: str = ""  # the relative path of the container that holds it; ``""`` for none
    # an archive member's time of the last modification, in ns since 1970; None if unknown
    modified_ns: int | None = None

    @property
    def planned(self) -> int:
        """The number of bytes assumed in the plan."""
        return self.size if self.size >= 0 else _UNKNOWN_SIZE


def in_blocks(items: Iterable[Item], count: int) -> Iterator[tuple[Item, ...]]:
    """Yields files in blocks of `count`; the last block may be shorter."""
    left = iter(items)
    while block := tuple(itertools.islice(left, count)):
        yield block
