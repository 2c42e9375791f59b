"""An index of samples in containers: listed container by container, and again only where one has changed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from typing_extensions import Self

from fastpipe.errors import DatasetError
from fastpipe.index.file_states import State, settled_state, state_of
from fastpipe.index.glob import Paths, expand_paths, paths_digest
from fastpipe.index.index_source import BuildOptions, IndexSource, Listing
from fastpipe.index.indexed_files import IndexedFiles
from fastpipe.index.parts import KnownParts, Part, merge
from fastpipe.index.table import Table, joined, number_labels, pack_paths
from fastpipe.progress_bar import SlowBar
from fastpipe.sources import ByteSource, Cache
from fastpipe.sources.threads import map_in_threads
from fastpipe.types import RemoteFile

_AT_ONCE = 8  # containers of a store: there it takes time to hear of the next member


class ContainerListing(NamedTuple):
    """The samples of one container, in their order; JSON can hold it.

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
    classes: Sequence[str] = ()
    unpacked: str | None = None

    def add(self, name: str, label: str, start: int, size: int) -> None:
        """Adds a sample."""
        self.names.append(name)
        self.labels.append(label)
        self.starts.append(start)
        self.sizes.append(size)


def label_text(label: object, called: str) -> str:
    """A label as a text; raises DatasetError where it is neither an integer nor a name."""
    if isinstance(label, bool) or not isinstance(label, (int, str)) or label == "":
        raise DatasetError(f"{called} is {label!r:.60}: neither an integer nor a name.")
    return str(label)


@dataclass(frozen=True, kw_only=True)
class ContainerSource(IndexSource):
    """An `IndexSource` of samples in containers; a subclass lists one container.

    Attributes:
        paths: of the containers, in their order; all of this machine, or all `RemoteFile` in one source.
        given: a digest of the paths and patterns that they were given by.
        class_names: of the labels 0, 1, …; None where labels name themselves.
    """

    paths: tuple[str, ...]
    given: str = ""
    class_names: tuple[str, ...] | None = None

    integers = True
    """Whether labels that are all integers are the targets as they stand."""

    @classmethod
    def over(
        cls, given: Paths, what: str, endings: tuple[str, ...], options: BuildOptions, cache: Cache | None, **own: Any
    ) -> Self:
        """The source of the containers that paths and patterns name: see `expand_paths`."""
        if not isinstance(given, (str, os.PathLike, ByteSource)):
            given = list(given)
        paths = expand_paths(given, what, endings, cache)
        first = paths[0]
        store = cast(ByteSource, first.source) if isinstance(first, RemoteFile) else None
        root = common_folder(paths) if store is None else store.name
        return cls(root=root, paths=paths, options=options, bytes_from=store, given=paths_digest(given), **own)

    def listing(self, path: str) -> ContainerListing:
        """The samples of a container; raises DatasetError where it can't be used."""
        raise NotImplementedError

    def find_unchanged(self, index: IndexedFiles) -> tuple[KnownParts | None, str]:
        if index.table.containers is None:
            return None, "what was there is of a folder"
        known = KnownParts(index, ("starts", "sizes"))
        names = {path: self._relative(path) for path in self.paths}
        unchanged = {name for path, name in names.items() if name in known and _is_unchanged(known, name, path)}
        if len(unchanged) < len(self.paths) or len(self.paths) != len(known):
            reason = f"{len(self.paths) - len(unchanged)} of {len(self.paths)} containers may have changed"
            return known.without(known.numbers.keys() - unchanged), reason
        return known, self.options.missing_in(index.table)

    def list_files(self, known: KnownParts | None) -> Listing:
        parts = self._parts(known)
        unpacked = [part.unpacked for part in parts if part.unpacked is not None]
        if unpacked and self.options.cluster is not None:
            raise DatasetError(
                f"the images of {self.paths[0]} are compressed as a column, so they are unpacked on this machine, "
                "where a cluster's workers don't see them: leave the scheduler out."
            )
        texts = [label for part in parts for label in part.labels]
        labels, classes, values = number_labels(texts, self.integers, (name for part in parts for name in part.classes))
        if self.class_names is not None:  # a value without a name keeps its number
            others = [value for value in values if not 0 <= value < len(self.class_names)]
            classes = [*self.class_names, *map(str, others)]
            values = [*range(len(self.class_names)), *others]
        # What was unpacked comes after the containers themselves.
        places = itertools.count(len(parts))
        holders = [number if part.unpacked is None else next(places) for number, part in enumerate(parts)]
        states = [*(part.state for part in parts), *map(state_of, unpacked)]
        arrays, starts, old_rows = merge(parts)
        table = Table(
            labels=labels,
            containers=np.repeat(np.array(holders, np.int32), np.diff(starts)),
            part_paths=joined([pack_paths([*(part.path for part in parts), *unpacked])]),
            part_states=np.array(states, np.int64).reshape(-1, 3),
            part_starts=starts,
            **arrays,
        )
        return Listing(table, classes, values, old_rows)

    def _parts(self, known: KnownParts | None) -> list[Part]:
        """All containers in their order."""
        names = {path: self._relative(path) for path in self.paths}
        # Before they are listed: what changes meanwhile shows the next time.
        states = {path: settled_state(path) for path in self.paths}
        new = [path for path, name in names.items() if known is None or name not in known]
        # A task needn't carry the names of all the others.
        asked = ((replace(self, paths=(path,), options=BuildOptions()), path) for path in new)
        cluster = self.options.cluster
        if cluster is not None and len(new) > 1:
            listings = cluster.map(_listing_of, asked)
        else:
            listings = map_in_threads(_listing_of, asked, _AT_ONCE if self.bytes_from is not None else 0)
        found: dict[str, Part] = {}
        with SlowBar("listing containers", self.options.progress) as bar:
            bar.expect(len(new))
            for number, listing in listings:
                path = new[number]
                found[path] = self._listed(path, states[path], ContainerListing(*listing))
                bar.advance()
        return [
            found[path] if path in found else self._taken_over(cast(KnownParts, known), name, states[path])
            for path, name in names.items()
        ]

    def _relative(self, path: str) -> str:
        if isinstance(path, RemoteFile):
            return path.key
        return os.path.relpath(path, self.root).replace(os.sep, "/") if self.root else path.replace(os.sep, "/")

    def _listed(self, path: str, state: State, listing: ContainerListing) -> Part:
        start = self.name_of(path)
        names, labels, starts, sizes, classes, unpacked = listing
        columns = {"starts": np.array(starts, np.int64), "sizes": np.array(sizes, np.int64)}
        packed = pack_paths([start + name for name in names])
        return Part(self._relative(path), state, packed, columns, labels=labels, classes=classes, unpacked=unpacked)

    def _taken_over(self, known: KnownParts, name: str, state: State) -> Part:
        index, holder = known.index, _holder(known, name)
        # The names may be those of `class_names`: the labels are the values.
        texts = index.classes if self.class_names is None else map(str, index.class_values)
        names = dict(zip(index.class_values, texts, strict=True))
        labels = [names[value] for value in index.labels[known.rows(name)].tolist()]
        unpacked = None if holder == known.numbers[name] else index.containers[holder]
        return replace(known.part(name), state=state, labels=labels, unpacked=unpacked)

    def name_of(self, path: str) -> str:
        """The prefix of a container's samples, relative to the root."""
        return self._relative(path) + "/"


def _listing_of(asked: tuple[ContainerSource, str]) -> ContainerListing:
    source, path = asked
    return source.listing(path)


def common_folder(paths: Sequence[str]) -> str:
    """The folder that all of these whole paths lie below; ``""`` for none, as on two drives."""
    try:
        return os.path.commonpath([os.path.dirname(path) for path in paths])
    except ValueError:
        return ""


def _holder(known: KnownParts, name: str) -> int:
    """The container that holds the bytes of a container's samples: itself, or what it was unpacked to."""
    holders = known.index.table.containers
    assert holders is not None
    rows = known.rows(name)
    return int(holders[rows.start]) if rows.start < rows.stop else known.numbers[name]


def _is_unchanged(known: KnownParts, name: str, path: str) -> bool:
    if isinstance(path, RemoteFile):
        return path.version != 0 and state_of(path) == known.state(name)
    places = {known.numbers[name], _holder(known, name)}
    try:
        return all(state_of(known.index.containers[one]) == tuple(known.states[one].tolist()) for one in places)
    except OSError:  # what was unpacked is gone
        return False
