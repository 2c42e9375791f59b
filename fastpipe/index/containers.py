"""Indexes samples in containers; a container is listed again only if it has changed."""

from __future__ import annotations

import abc
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from typing_extensions import Self

from fastpipe.errors import DatasetError
from fastpipe.index import bad_rows
from fastpipe.index.glob import Paths, expand_paths, paths_digest
from fastpipe.index.index_source import DEFAULT_OPTIONS, BuildOptions, IndexSource
from fastpipe.index.pieces import UNSETTLED, Part, Parts, State, listed_parts, merge, parts_of, settled_state, state_of
from fastpipe.index.table import (
    NO_CLASS,
    Array,
    Listing,
    are_floats,
    kind_of_label,
    number_labels,
    pack_paths,
    unpack_paths,
)
from fastpipe.index.unpacked import hold
from fastpipe.progress_bar import SlowBar
from fastpipe.sources import ByteSource, Cache
from fastpipe.types import RemoteFile

_AT_ONCE = 8  # containers of a store listed at once, as each member costs a request


class ContainerListing(NamedTuple):
    """The samples of one container, in order; representable in JSON."""

    names: list[str]  # names in the container, with ``/`` between the parts
    labels: list[str | None]  # class names, or integers as text; None for a sample without one
    # starts and sizes: the offset of each sample's bytes in the container, and their number; or a negative number of
    # `fastpipe.index.bad_rows`, and -1
    starts: list[int]
    sizes: list[int]
    classes: Sequence[str] = ()  # class names, including classes without a sample
    unpacked: str | None = None  # the file that holds the bytes if they are compressed in the container
    problems: Sequence[str] = ()  # the first reason why a sample is bad; empty if none is

    @classmethod
    def empty(cls) -> Self:
        """A listing to which samples are added."""
        return cls([], [], [], [], problems=[])

    def add_bad(self, name: str, label: str | None, place: int, problem: str) -> None:
        """Adds a bad sample; keeps the first one's problem, for an error if no sample is good."""
        self.add(name, label, place)
        if isinstance(self.problems, list) and not self.problems:
            self.problems.append(problem)

    def add(self, name: str, label: str | None, start: int, size: int = -1) -> None:
        """Adds a sample."""
        self.names.append(name)
        self.labels.append(label)
        self.starts.append(start)
        self.sizes.append(size)


def label_text(label: object, called: str) -> str | None:
    """Converts a label to text, None and ``""`` to None; raises DatasetError for another type."""
    if label is None or label == "":
        return None
    if isinstance(label, bool) or not isinstance(label, (int, float, str)):
        raise DatasetError(f"{called} is {label!r:.60}: neither a number nor a name.")
    return str(label)


@dataclass(frozen=True, kw_only=True)
class ContainerSource(IndexSource):
    """An `IndexSource` of samples in containers; a subclass lists one container."""

    paths: tuple[str, ...]  # the containers' paths, in order; all local, or all `RemoteFile` of one source
    given: str = ""  # a digest of the paths and patterns as the user gave them
    class_names: tuple[str, ...] | None = None  # names of the labels 0, 1, …; None if labels are names themselves

    integers = True
    """True if labels that are numbers are the targets: all of them integers, or all of them floats."""

    @classmethod
    def over(
        cls, given: Paths, what: str, endings: tuple[str, ...], options: BuildOptions, cache: Cache | None, **own: Any
    ) -> Self:
        """Makes the source of the containers that paths and patterns name: see `expand_paths`."""
        if isinstance(given, Iterable) and not isinstance(given, (str, os.PathLike, ByteSource)):
            given = list(given)  # an iterator can be read only once
        paths = expand_paths(given, what, endings, cache)
        first = paths[0]
        store = cast(ByteSource, first.source) if isinstance(first, RemoteFile) else None
        root = common_folder(paths) if store is None else store.name
        return cls(root=root, paths=paths, options=options, bytes_from=store, given=paths_digest(given), **own)

    @abc.abstractmethod
    def listing(self, path: str) -> ContainerListing:
        """Lists the samples of a container; raises DatasetError if it can't be used."""

    def copy_of(self, path: str) -> str | None:
        """The file that `listing` would unpack a container to; None if it never unpacks."""
        return None

    def find_unchanged(self, kept: Listing, confirmed_ns: int) -> tuple[Parts, str]:
        listed, states = listed_parts(kept.table)
        numbers = {path: number for number, path in enumerate(listed)}
        unchanged: dict[str, int] = {}
        for path in self.paths:
            copy = self.copy_of(path)
            holders = [(self._relative(path), path)] if copy is None else [(self._relative(path), path), (copy, copy)]
            for name, holder in holders:
                if name == copy and name in numbers:
                    hold(name)
                if name in numbers and _is_as_it_was(holder, states[numbers[name]].tolist()):
                    unchanged[self._relative(path)] = numbers[name]
        if len(unchanged) == len(self.paths) == len(listed):
            return {}, ""
        # With `class_names`, the kept classes are these names, and the labels are the class values.
        texts = kept.classes if self.class_names is None else map(str, kept.class_values)
        texts_of = dict(zip(kept.class_values, texts, strict=True))
        starts = kept.table.starts
        assert starts is not None
        assert kept.table.part_starts is not None
        known: Parts = {}
        parts = parts_of(kept.table, ("starts", "sizes"), unchanged.values()).values()
        for (name, number), part in zip(unchanged.items(), parts, strict=True):
            rows = slice(*kept.table.part_starts[number : number + 2])
            labels = [texts_of.get(label) for label in kept.table.labels[rows].tolist()]
            if kept.table.values is not None:
                floats = zip(starts[rows].tolist(), kept.table.values[rows].tolist(), strict=True)
                labels = [None if value != value and place < 0 else repr(value) for place, value in floats]
            known[name] = replace(part, labels=labels)
        return known, f"{len(self.paths) - len(unchanged)} of {len(self.paths)} containers may have changed"

    def list_files(self, known: Parts) -> Listing:
        listed, problem = self._listed([path for path in self.paths if self._relative(path) not in known])
        parts_by_name = known | listed
        parts = [parts_by_name[self._relative(path)] for path in self.paths]
        starts = np.concatenate([part.columns["starts"] for part in parts])
        if len(starts) and not ((starts >= 0) | (starts == bad_rows.SEPARATE_FILE)).any():
            raise DatasetError(f"there is no usable sample: {problem or self._first_error(parts)}")
        texts = [label for part in parts for label in part.labels]
        known_texts = [label for label in texts if label is not None]
        if self.integers and are_floats(self._kinds(parts), "write names that don't look like numbers"):
            values_of = np.array([math.nan if label is None else float(label) for label in texts])
            merged = merge(parts, np.zeros(len(texts), np.int32))
            return Listing(replace(merged, values=values_of, containers=_containers_of(parts)), [], [])
        others = (name for part in parts for name in part.classes)
        known_labels, classes, values = number_labels(known_texts, self.integers, others)
        labels = np.full(len(texts), NO_CLASS, np.int32)
        labels[[label is not None for label in texts]] = known_labels
        if self.class_names is not None:  # a label without a name is named by its number
            more = [value for value in values if not 0 <= value < len(self.class_names)]
            classes = [*self.class_names, *map(str, more)]
            values = [*range(len(self.class_names)), *more]
        return Listing(replace(merge(parts, labels), containers=_containers_of(parts)), classes, values)

    def _kinds(self, parts: Sequence[Part]) -> dict[str, str]:
        """The first label of each kind, with its sample."""
        kinds: dict[str, str] = {}
        seen: set[str] = set()
        for part in parts:
            for place, label in enumerate(part.labels):
                if label is None or label in seen:
                    continue
                seen.add(label)
                kind = kind_of_label(label)
                if kind not in kinds:
                    kinds[kind] = f"{label!r} ({self._sample_at(part, place)})"
        return kinds

    def _sample_at(self, part: Part, place: int) -> str:
        return os.path.join(self.root, unpack_paths(part.paths)[place])

    def _first_error(self, parts: Sequence[Part]) -> str:
        part = next(part for part in parts if len(part))
        return f"{self._sample_at(part, 0)}: {bad_rows.reason_of(int(part.columns['starts'][0]))}."

    def _listed(self, paths: Sequence[str]) -> tuple[Parts, str]:
        """Lists some containers; the result is by container name, and with the first problem of a sample, if any."""
        # Read before the listing, so that a change during it is noticed the next time.
        states = {path: settled_state(path) for path in paths}
        # Keep each task small: only its own path, not all paths. With its state, a container that changed after an
        # interrupted run is listed again.
        asked = ((replace(self, paths=(path,), options=DEFAULT_OPTIONS), states[path]) for path in paths)
        options = self.options if len(paths) > 1 else DEFAULT_OPTIONS
        new_parts: Parts = {}
        problem = ""
        with SlowBar("listing containers", self.options.progress) as bar:
            bar.expect(len(paths))
            for number, listing in options.map(_listing_of, asked, 0 if self.bytes_from is None else _AT_ONCE):
                path = paths[number]
                samples = ContainerListing(*listing)
                problem = problem or "".join(samples.problems)
                new_parts[self._relative(path)] = self._part(path, states[path], samples)
                bar.advance()
        return new_parts, problem

    def _part(self, path: str, state: State, listing: ContainerListing) -> Part:
        start = self.name_of(path)
        names, labels, starts, sizes, classes, unpacked, _ = listing
        if unpacked is not None and self.options.cluster is not None:
            raise DatasetError(
                f"the images of {path} are compressed as a column, so they are unpacked on this machine, "
                "where a cluster's workers don't see them: leave the scheduler out."
            )
        if unpacked is not None and state[1] != UNSETTLED:  # its name depends on the container's state
            state = state_of(unpacked)
        columns = {"starts": np.array(starts, np.int64), "sizes": np.array(sizes, np.int64)}
        packed = pack_paths(
            [
                name if place == bad_rows.SEPARATE_FILE else start + name
                for name, place in zip(names, starts, strict=True)
            ]
        )
        return Part(unpacked or self._relative(path), state, packed, columns, labels=labels, classes=classes)

    def _relative(self, path: str) -> str:
        if isinstance(path, RemoteFile):
            return path.key
        return os.path.relpath(path, self.root).replace(os.sep, "/") if self.root else path.replace(os.sep, "/")

    def name_of(self, path: str) -> str:
        """The prefix of a container's samples, relative to the root."""
        return self._relative(path) + "/"


def _listing_of(asked: tuple[ContainerSource, State]) -> ContainerListing:
    """Lists the only container of a source, which is in that state; runs in a thread, or in a cluster's worker."""
    source, _ = asked
    return source.listing(*source.paths)


def _containers_of(parts: Sequence[Part]) -> Array:
    """The number of each sample's container."""
    return np.repeat(np.arange(len(parts), dtype=np.int32), [*map(len, parts)])


def common_folder(paths: Sequence[str]) -> str:
    """The common folder of absolute paths; ``""`` if there is none, as on two drives."""
    try:
        return os.path.commonpath([os.path.dirname(path) for path in paths])
    except ValueError:
        return ""


def _is_as_it_was(path: str, state: Sequence[int]) -> bool:
    if isinstance(path, RemoteFile) and path.version == 0:
        return False
    try:
        return state_of(path) == tuple(state)
    except OSError:  # the unpacked copy is gone
        return False
