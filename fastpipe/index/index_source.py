"""`IndexSource`: files to index, listed part by part; an unchanged part isn't listed again."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from fastpipe.index.cluster import Cluster
from fastpipe.index.pieces import Parts
from fastpipe.index.table import Listing
from fastpipe.sources import ByteSource
from fastpipe.sources.threads import map_in_threads, map_patiently

__all__ = ["DEFAULT_OPTIONS", "BuildOptions", "IndexSource"]

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options for building an index."""

    sizes: bool = False  # get each file's size
    refresh: bool = False  # list everything again, whatever is kept
    progress: bool = True  # show a progress bar in a terminal if it takes long
    cluster: Cluster | None = None  # workers that list and read; None for this process

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
    ) -> Iterator[tuple[int, Result]]:
        """Calls a function for each item on the cluster, in threads, or (None) as `map_patiently` does."""
        if self.cluster is not None:
            return self.cluster.map(function, items)
        return map_patiently(function, items) if threads is None else map_in_threads(function, items, threads)


DEFAULT_OPTIONS = BuildOptions()


@dataclass(frozen=True, kw_only=True)
class IndexSource(abc.ABC):
    """Files that an index can be made of: in class folders, in containers, or in a list."""

    root: str  # the folder or URL that the index's paths start from
    extensions: tuple[str, ...] = ()  # lower-case endings of the files that count
    options: BuildOptions = DEFAULT_OPTIONS  # how the index is made
    bytes_from: ByteSource | None = None  # the source of the files; None for this machine's file system

    kind: ClassVar[str] = "folders"
    """The subfolder of the cache folder for indexes of this kind."""

    @property
    def identity(self) -> dict[str, object]:
        """Values that identify this source's index, representable in JSON: ``root``, ``extensions`` and more."""
        root = os.path.abspath(self.root) if self.bytes_from is None else self.root
        store = {} if self.bytes_from is None else {"store": self.bytes_from.identity}
        return {"root": root, "extensions": list(self.extensions), **store}

    @abc.abstractmethod
    def find_unchanged(self, kept: Listing, confirmed_ns: int) -> tuple[Parts, str]:
        """Compares a kept listing with the files now.

        Args:
            kept: the kept listing.
            confirmed_ns: the time at which it was last found to be up to date, in ns.

        Returns:
            The parts that `list_files` may take over, and why the listing is out of date; ``""`` if it isn't.
        """

    @abc.abstractmethod
    def list_files(self, known: Parts) -> Listing:
        """Lists all files as they are now; takes `known` parts over without listing them."""
