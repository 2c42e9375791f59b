"""The files that are packed: where each is, and what it is called in the target."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

BY_CONTENT = ".*"
"""The ending of a name whose own ending is known from the file: its original's, or its format's."""

_UNKNOWN_SIZE = 1 << 17  # bytes that a file whose size nobody knows is planned with


class Item(NamedTuple):
    """A file of the source, and its names in the target."""

    key: str  # its name in the source, which no other one has
    path: str  # of its bytes, as `fastpipe.readers.read_file` takes it; ``""`` for a folder, which has none
    kept: str  # its name in the target if it is kept as it is; a folder's ends in ``/``
    converted: str = ""  # its name in the target if it is converted; ``""`` where it is kept in any case
    size: int = -1  # bytes; -1 where nobody knows
    beside: tuple[tuple[str, bytes], ...] = ()  # names and bytes of what is written after it, such as its label
    begins: bool = True  # whether it begins a sample, so that another shard may begin with it
    group: str = ""  # the container that holds it, relative to the others; ``""`` for none
    # of an archive's member, when it was last modified, in ns since 1970; None where nobody knows
    modified_ns: int | None = None

    @property
    def planned(self) -> int:
        """The bytes that it is planned with."""
        return self.size if self.size >= 0 else _UNKNOWN_SIZE


def in_blocks(items: Iterable[Item], count: int) -> Iterator[tuple[Item, ...]]:
    """Yields files in blocks of `count`, the last one of what is left."""
    left = iter(items)
    while block := tuple(itertools.islice(left, count)):
        yield block
