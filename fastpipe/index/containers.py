"""An index of samples in containers: listed container by container, and again only where one has changed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from fastpipe.errors import DatasetError
from fastpipe.index._progress import SlowBar
from fastpipe.index.cluster import current_cluster
from fastpipe.index.file_states import settled_state, state_of
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.merge import Part, merge, new_part, old_part
from fastpipe.index.metadata import with_metadata
from fastpipe.index.table import Table, joined, number_labels, pack_paths
from fastpipe.sources import ByteSource
from fastpipe.types import RemoteFile

_AT_ONCE = 8  # containers of a store


@dataclass(frozen=True, slots=True)
class ContainerListing:
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


class _Container(NamedTuple):
    """A container's samples, listed now or taken over from an older index."""

    files: Part
    labels: list[str]
    classes: tuple[str, ...] = ()
    unpacked: str | None = None


@dataclass(frozen=True)
class ContainerSource:
    """An `IndexSource` of samples in containers; a subclass lists one container.

    Attributes:
        root: what paths start from.
        paths: of the containers, in their order; all of this machine, or all `RemoteFile` in one source.
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
        """The source of the containers; None for this machine's file system."""
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
        """Other arguments that the listing depends on, for `identity`."""
        return {}

    def listing(self, path: str) -> ContainerListing:
        """The samples of a container; raises DatasetError where it can't be used."""
        raise NotImplementedError

    def find_unchanged(self, index: IndexedFiles) -> tuple[dict[str, int] | None, str]:
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

    def build(self, old: IndexedFiles | None, unchanged: dict[str, int] | None, reason: str) -> IndexedFiles:
        """A new index; what is unchanged is taken over from the old one."""
        states, containers = self._containers(old, unchanged or {})
        unpacked = [one.unpacked for one in containers if one.unpacked is not None]
        if unpacked and current_cluster() is not None:
            raise DatasetError(
                f"the images of {self.paths[0]} are compressed as a column, so they are unpacked on this machine, "
                "where a cluster's workers don't see them: leave the scheduler out."
            )
        texts = [label for one in containers for label in one.labels]
        labels, classes, values = number_labels(
            texts, self.integers, (name for one in containers for name in one.classes)
        )
        if self.value_names is not None:
            classes, values = self.value_names(classes, values)
        merged = merge([one.files for one in containers])
        # What was unpacked stands behind the containers themselves.
        places = itertools.count(len(containers))
        holders = [number if one.unpacked is None else next(places) for number, one in enumerate(containers)]
        table = Table(
            merged.paths,
            merged.offsets,
            labels,
            containers=np.repeat(np.array(holders, np.int32), np.diff(merged.starts)),
            container_paths=joined([pack_paths([*map(self._relative, self.paths), *unpacked])]),
            container_states=np.array([*states, *map(state_of, unpacked)], np.int64).reshape(-1, 3),
            container_starts=merged.starts,
            **merged.columns,
        )
        made = IndexedFiles(
            table,
            root=self.root,
            classes=classes,
            class_values=values,
            origin=f"built: {reason}",
            source=self.bytes_from,
        )
        return with_metadata(made, old, merged.old_rows, False, self.headers, progress=self.progress)

    def _containers(
        self, old: IndexedFiles | None, unchanged: dict[str, int]
    ) -> tuple[list[tuple[int, int, int]], list[_Container]]:
        """The states of the containers from before they were listed, and the samples of each."""
        with SlowBar("listing containers", self.progress) as bar, ThreadPoolExecutor(_AT_ONCE) as pool:
            bar.expect(len(self.paths))
            by_others = self._listed_by_others([path for path in self.paths if path not in unchanged])

            def container(path: str) -> tuple[tuple[int, int, int], _Container]:
                if path in by_others:
                    state, listing = by_others[path]
                    return state, self._listed(path, listing)
                state = settled_state(path)  # before listing: what changes meanwhile shows the next time
                if old is not None and path in unchanged:
                    return state, _taken_over(old, unchanged[path], self.value_names is not None)
                return state, self._listed(path, self.listing(path))

            found = []
            # Of a store several at once: there it takes time to hear of the next member.
            for one in (map if self.bytes_from is None else pool.map)(container, self.paths):
                found.append(one)
                bar.advance()
        return [state for state, _ in found], [one for _, one in found]

    def _relative(self, path: str) -> str:
        if isinstance(path, RemoteFile):
            return path.key
        return os.path.relpath(path, self.root).replace(os.sep, "/") if self.root else path.replace(os.sep, "/")

    def _listed_by_others(self, paths: list[str]) -> dict[str, tuple[tuple[int, int, int], ContainerListing]]:
        """Lists containers on the workers of a cluster, if there is one; each with its state from before."""
        cluster = current_cluster()
        if cluster is None or len(paths) < 2:
            return {}
        states = [settled_state(path) for path in paths]
        # A task needn't carry the names of all the others.
        answers = dict(cluster.map(_listing_of, ((replace(self, paths=(path,)), path) for path in paths)))
        return {path: (states[number], ContainerListing(*answers[number])) for number, path in enumerate(paths)}

    def _listed(self, path: str, listing: ContainerListing) -> _Container:
        start = self.name_of(path)
        names = [start + name for name in listing.names]
        files = new_part(pack_paths(names) if names else b"", starts=listing.starts, sizes=listing.sizes)
        return _Container(files, listing.labels, listing.classes, listing.unpacked)

    def name_of(self, path: str) -> str:
        """The prefix of a container's samples, relative to the root."""
        return self._relative(path) + "/"


def _listing_of(asked: tuple[ContainerSource, str]) -> list[Any]:
    """Lists a container in a cluster worker."""
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


def _rows(table: Table, number: int) -> tuple[int, int]:
    assert table.container_starts is not None
    start, stop = table.container_starts[number : number + 2].tolist()
    return start, stop


def _holder(table: Table, number: int) -> int:
    """The container that holds the bytes of a container's samples: itself, or what it was unpacked to."""
    assert table.containers is not None
    start, stop = _rows(table, number)
    return int(table.containers[start]) if start < stop else number


def _is_unchanged(index: IndexedFiles, number: int, path: str) -> bool:
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


def _taken_over(old: IndexedFiles, number: int, integers: bool) -> _Container:
    start, stop = _rows(old.table, number)
    holder = _holder(old.table, number)
    names = {value: str(value) if integers else name for value, name in zip(old.class_values, old.classes, strict=True)}
    return _Container(
        old_part(old.table, start, stop, ("starts", "sizes")),
        [names[value] for value in old.table.labels[start:stop].tolist()],
        unpacked=None if holder == number else old.containers[holder],
    )
