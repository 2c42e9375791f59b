"""An index of samples in containers: listed container by container, and again only where one has changed."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from typing import Any, cast

import numpy as np

from fastpipe.errors import DatasetError
from fastpipe.index import local_scan
from fastpipe.index._progress import SlowBar
from fastpipe.index.cluster import current_cluster
from fastpipe.index.image_index import ImageIndex
from fastpipe.index.metadata import Known, completed
from fastpipe.index.table import Array, Table, joined, numbered, offsets_of, pack_paths
from fastpipe.sources import ByteSource
from fastpipe.types import RemoteFile

_AT_ONCE = 8  # containers of a store


@dataclass(frozen=True, slots=True)
class Listing:
    """The samples of one container, in their order.

    Attributes:
        names: in the container, with ``/`` between the parts.
        labels: class names, or integers as text.
        starts, sizes: where each sample's bytes begin in the container, and how many they are.
        classes: names of classes, also of those without a sample.
        unpacked: the file that holds the bytes where the container itself has them compressed.
    """

    names: list[str]
    labels: list[str]
    starts: list[int]
    sizes: list[int]
    classes: tuple[str, ...] = ()
    unpacked: str | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """A container's rows; `taken_over` are their positions in the old table, -1 for those that were listed now."""

    paths: bytes
    labels: list[str]
    starts: Array
    sizes: Array
    taken_over: Array
    classes: tuple[str, ...] = ()
    unpacked: str | None = None


@dataclass(frozen=True)
class ContainerSource:
    """What the samples of containers are; a subclass says how one is listed.

    Attributes:
        root: what paths start from.
        paths: of the containers, in their order; all of this machine, or all `Stored` in one source.
        extensions: of the files that count.
        headers: whether each sample's header is wanted.
        refresh: list all anew.
        progress: whether a terminal gets a bar if it takes long.
    """

    root: str
    paths: tuple[str, ...]
    extensions: tuple[str, ...]
    headers: bool
    refresh: bool
    progress: bool

    integers = True
    """Whether labels that are all integers are the targets as they stand."""

    @property
    def bytes_from(self) -> ByteSource | None:
        """What has the containers; None for this machine's file system."""
        first = next(iter(self.paths), None)
        return cast(ByteSource, first.source) if isinstance(first, RemoteFile) else None

    @property
    def value_names(self) -> Callable[[list[str], list[int]], tuple[list[str], list[int]]] | None:
        """From classes and their values to better names of the same values; None where labels name themselves."""
        return None

    @property
    def identity(self) -> dict[str, Any]:
        own = {"extensions": list(self.extensions), **self.about}
        if self.bytes_from is not None:
            return {"root": self.root, **own, "store": self.bytes_from.identity}
        return {"root": os.path.abspath(self.root), **own}

    @property
    def about(self) -> dict[str, Any]:
        """What else the listing depends on."""
        return {}

    def listing(self, path: str) -> Listing:
        """The samples of a container; raises DatasetError where it can't be used."""
        raise NotImplementedError

    def look(self, index: ImageIndex) -> tuple[dict[str, int] | None, str]:
        """The containers that are unchanged, each with its number in the index, and why the index won't do."""
        starts = index.table.container_starts
        if starts is None:
            return None, "what was there is of a folder"
        known = {path: number for number, path in enumerate(index.containers[: len(starts) - 1])}
        unchanged = {
            path: known[name]
            for path in self.paths
            if (name := _name_in_index(path)) in known and _is_unchanged(index, known[name], path)
        }
        if len(unchanged) < len(self.paths) or len(self.paths) != len(known):
            return unchanged, f"{len(self.paths) - len(unchanged)} of {len(self.paths)} containers may have changed"
        if self.headers and index.table.heights is None:
            return unchanged, "headers were not in it"
        return None, ""

    def build(self, old: ImageIndex | None, unchanged: dict[str, int] | None, reason: str) -> ImageIndex:
        """A new index; what is unchanged is taken over from the old one."""
        parts, states = [], []
        with SlowBar("listing containers", self.progress) as bar, ThreadPoolExecutor(_AT_ONCE) as pool:
            bar.expect(len(self.paths))
            by_others = self._listed_by_others([path for path in self.paths if not (unchanged and path in unchanged)])

            def part(path: str) -> tuple[tuple[int, int, int], _Part]:
                if path in by_others:
                    state, listing = by_others[path]
                    return state, self._part(path, listing)
                state = settled_state(path)  # before listing: what changes meanwhile shows the next time
                if old is not None and unchanged and path in unchanged:
                    return state, _taken_over(old, unchanged[path], self.value_names is not None)
                return state, self._part(path, self.listing(path))

            # Of a store several at once: there it takes time to hear of the next member.
            for state, one in (map if self.bytes_from is None else pool.map)(part, self.paths):
                states.append(state)
                parts.append(one)
                bar.advance()
        packed = joined(part.paths for part in parts)
        texts = [label for part in parts for label in part.labels]
        labels, classes, values = numbered(texts, self.integers, (name for part in parts for name in part.classes))
        if self.value_names is not None:
            classes, values = self.value_names(classes, values)
        counts = [len(part.labels) for part in parts]
        unpacked = [part.unpacked for part in parts if part.unpacked is not None]
        if unpacked and current_cluster() is not None:
            raise DatasetError(
                f"the images of {self.paths[0]} are compressed as a column, so they are unpacked on this machine, "
                "where a cluster's workers don't see them: leave the scheduler out."
            )
        places = list(itertools.accumulate((part.unpacked is not None for part in parts), initial=len(parts)))
        holders = [
            number if part.unpacked is None else place
            for number, (part, place) in enumerate(zip(parts, places[:-1], strict=True))
        ]
        table = Table(
            packed,
            offsets_of(packed),
            labels,
            sizes=_joined([part.sizes for part in parts]),
            containers=np.repeat(np.array(holders, np.int32), counts),
            starts=_joined([part.starts for part in parts]),
            container_paths=joined([pack_paths([*map(self._relative, self.paths), *unpacked])]),
            container_states=np.array([*states, *map(state_of, unpacked)], np.int64).reshape(-1, 3),
            container_starts=np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
        )
        taken_over = _joined([part.taken_over for part in parts])
        known = None if old is None else Known(old.table, old.formats, taken_over)
        made = ImageIndex(table, root=self.root, classes=classes, class_values=values, source=self.bytes_from)
        table, formats = completed(table, made.paths, known, False, self.headers, progress=self.progress)
        return ImageIndex(
            table,
            root=self.root,
            classes=classes,
            class_values=values,
            formats=formats,
            origin=f"built: {reason}",
            source=self.bytes_from,
        )

    def _relative(self, path: str) -> str:
        if isinstance(path, RemoteFile):
            return path.key
        return os.path.relpath(path, self.root).replace(os.sep, "/") if self.root else path.replace(os.sep, "/")

    def _listed_by_others(self, paths: list[str]) -> dict[str, tuple[tuple[int, int, int], Listing]]:
        """What is in containers, from the workers of a cluster where there is one; and the states from before."""
        cluster = current_cluster()
        if cluster is None or len(paths) < 2:
            return {}
        states = [settled_state(path) for path in paths]
        # A task needn't carry the names of all the others.
        answers = dict(cluster.map(_listing_of, ((replace(self, paths=(path,)), path) for path in paths)))
        return {path: (states[number], Listing(*answers[number])) for number, path in enumerate(paths)}

    def _part(self, path: str, listing: Listing) -> _Part:
        start = self.name_of(path)
        names = [start + name for name in listing.names]
        return _Part(
            pack_paths(names) if names else b"",
            listing.labels,
            np.array(listing.starts, np.int64),
            np.array(listing.sizes, np.int64),
            np.full(len(names), -1, np.int64),
            listing.classes,
            listing.unpacked,
        )

    def name_of(self, path: str) -> str:
        """What stands before the names of a container's samples, behind the root."""
        return self._relative(path) + "/"


def _listing_of(asked: tuple[ContainerSource, str]) -> list[Any]:
    """In a worker of a cluster."""
    source, path = asked
    return list(astuple(source.listing(path)))


def common_folder(paths: Sequence[str]) -> str:
    """The folder that all of these whole paths lie below; ``""`` for none, as on two drives. Of a store its name."""
    if paths and isinstance(paths[0], RemoteFile):
        return cast(ByteSource, paths[0].source).name
    try:
        return os.path.commonpath([os.path.dirname(path) for path in paths])
    except ValueError:
        return ""


def _name_in_index(path: str) -> str:
    return path.key if isinstance(path, RemoteFile) else os.path.normpath(path)


def state_of(path: str) -> tuple[int, int, int]:
    if isinstance(path, RemoteFile):
        return path.length, path.version, 0
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def settled_state(path: str) -> tuple[int, int, int]:
    """Times tick: a file that changed just now may change again without its times moving."""
    if isinstance(path, RemoteFile):
        return state_of(path)
    now = time.time_ns()
    size, mtime, ctime = state_of(path)
    settled = mtime > 0 and max(mtime, ctime) <= now - local_scan._SETTLED_NS
    return size, mtime if settled else local_scan.NEVER_EQUAL, ctime


def _rows(table: Table, number: int) -> tuple[int, int]:
    assert table.container_starts is not None
    start, stop = table.container_starts[number : number + 2].tolist()
    return start, stop


def _holder(table: Table, number: int) -> int:
    """The container that holds the bytes of a container's samples: itself, or what it was unpacked to."""
    assert table.containers is not None
    start, stop = _rows(table, number)
    return int(table.containers[start]) if start < stop else number


def _is_unchanged(index: ImageIndex, number: int, path: str) -> bool:
    states = index.table.container_states
    assert states is not None
    if isinstance(path, RemoteFile):
        return path.version != 0 and state_of(path) == tuple(states[number].tolist())
    try:
        return all(
            state_of(index.containers[one]) == tuple(states[one].tolist())
            for one in {number, _holder(index.table, number)}
        )
    except OSError:  # what was unpacked is gone
        return False


def _taken_over(old: ImageIndex, number: int, integers: bool) -> _Part:
    table = old.table
    assert table.starts is not None
    assert table.sizes is not None
    start, stop = _rows(table, number)
    holder = _holder(table, number)
    names = {value: str(value) if integers else name for value, name in zip(old.class_values, old.classes, strict=True)}
    return _Part(
        table.paths[table.offsets[start] : table.offsets[stop]].tobytes(),
        [names[value] for value in table.labels[start:stop].tolist()],
        np.asarray(table.starts[start:stop]),
        np.asarray(table.sizes[start:stop]),
        np.arange(start, stop),
        unpacked=None if holder == number else old.containers[holder],
    )


def _joined(arrays: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0, np.int64), *arrays])
