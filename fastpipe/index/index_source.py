"""`IndexSource`: something that an index can be made of, listed part by part, and again only where it changed."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from fastpipe.index.cluster import Cluster
from fastpipe.index.parts import Parts
from fastpipe.index.table import Listing
from fastpipe.sources import ByteSource
from fastpipe.sources.threads import map_in_threads

__all__ = ["DEFAULT_OPTIONS", "BuildOptions", "IndexSource"]

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options of making an index."""

    sizes: bool = False  # whether each file's size is wanted
    refresh: bool = False  # whether everything is to be looked at again, whatever is kept
    progress: bool = True  # whether a terminal gets a bar if it takes long
    cluster: Cluster | None = None  # its workers list and read; None for this process

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], threads: int
    ) -> Iterator[tuple[int, Result]]:
        """Calls a function for each item: on the cluster, or by threads as `map_in_threads` does."""
        return self.cluster.map(function, items) if self.cluster else map_in_threads(function, items, threads)


DEFAULT_OPTIONS = BuildOptions()


@dataclass(frozen=True, kw_only=True)
class IndexSource(abc.ABC):
    """Something that an index can be made of: class folders, containers, a list."""

    root: str  # the folder or URL that the index's paths start from
    extensions: tuple[str, ...] = ()  # lower-case endings of the files that count
    options: BuildOptions = DEFAULT_OPTIONS  # how the index is made
    bytes_from: ByteSource | None = None  # the source of the files; None for this machine's file system

    kind: ClassVar[str] = "folders"
    """The folder in the cache folder that has its index."""

    @property
    def identity(self) -> dict[str, object]:
        """The values that tell this source's index from others: ``root``, ``extensions`` and more, as JSON has them."""
        root = os.path.abspath(self.root) if self.bytes_from is None else self.root
        store = {} if self.bytes_from is None else {"store": self.bytes_from.identity}
        return {"root": root, "extensions": list(self.extensions), **store}

    @abc.abstractmethod
    def find_unchanged(self, kept: Listing, confirmed_ns: int) -> tuple[Parts, str]:
        """Compares a kept listing with what is there now.

        Args:
            kept: the listing.
            confirmed_ns: when it was last found to hold.

        Returns:
            What `list_files` may take over, and why the listing won't do; ``""`` if it does.
        """

    @abc.abstractmethod
    def list_files(self, known: Parts) -> Listing:
        """Lists all files as they are now, but for the parts that are known to be as they were."""
