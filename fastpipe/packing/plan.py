"""The plan of a run: which files go where, in tasks whose order the source alone decides."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, groupby
from operator import itemgetter

from fastpipe.packing.conversions import Conversion
from fastpipe.packing.items import Item
from fastpipe.packing.record import PartState
from fastpipe.packing.source import PackSource
from fastpipe.packing.target import Target, container_name
from fastpipe.packing.work import Task

_BYTES = 4 << 20


@dataclass(frozen=True)
class Layout:
    """A source's files in a target.

    Attributes:
        source: where they are from.
        target: where they go to.
        conversion: what is done to them.
        shard_size: the bytes of a numbered shard, as far as they can be told before: it is complete with the sample
            that reaches them.
        shard_samples: likewise its samples; None for any number.
    """

    source: PackSource
    target: Target
    conversion: Conversion
    shard_size: int
    shard_samples: int | None

    @property
    def is_one_file_each(self) -> bool:
        """Whether each file is one of its own in the target."""
        return self.target.kind == "folder" and self.source.kind != "samples"

    @property
    def keeps_containers(self) -> bool:
        """Whether each container of the source has its own in the target."""
        return self.target.kind == "folder" and self.source.kind == "samples"

    @property
    def as_samples(self) -> bool:
        """Whether the files are samples of shards, with their labels beside them; else they keep their own names."""
        if self.source.kind == "folders":
            return self.target.kind == "shards"
        return not self.is_one_file_each

    @property
    def listed(self) -> bool:
        """Whether a list says the files' labels and their order."""
        return self.is_one_file_each and self.source.kind == "list"

    @property
    def about(self) -> dict[str, object]:
        """The values that the target's bytes depend on: what is begun with some goes on with the same."""
        source = self.source
        labels = None
        if source.index is not None and source.kind != "images" and (self.listed or self.as_samples):
            labels = "names" if source.labels_are_names else [*source.index.classes]
        return {
            "command": self.conversion.verb,
            "source": source.name,
            "columns": source.columns,
            "labels": labels,
            "shards": [self.shard_size, self.shard_samples] if self.target.kind == "shards" else None,
            **self.conversion.about,
        }

    def items(self, done: Container[str]) -> Iterator[Item]:
        """Yields the source's files in their order, but for those of containers that are done, by their keys."""
        if self.source.kind == "samples":
            return self.source.members(self.conversion.ending, self.keeps_containers, done)
        return self.source.files(self.conversion.ending, self.as_samples)

    def tasks(
        self,
        items: Iterable[Item],
        parts: Mapping[str, PartState],
        complete: Container[str],
        at_once: int | None,
    ) -> Iterator[Task]:
        """Yields the files, a stretch of one archive in each task.

        Args:
            items: the files to come, in order.
            parts: what the record has of each archive.
            complete: the archives that get no more files.
            at_once: how many files at most, and about 4 MB of them; None for all of an archive.
        """
        numbered = self.target.kind == "shards"
        named = self._numbered(items, parts, complete) if numbered else map(self._named, items)
        for part, files in groupby(named, key=itemgetter(0)):
            few: list[Item] = []
            size = 0
            for _, item in files:
                if at_once is not None and (len(few) >= at_once or size >= _BYTES):
                    yield Task(self.target.folder, part, self.conversion, tuple(few))
                    few, size = [], 0
                few.append(item)
                size += item.planned
            yield Task(self.target.folder, part, self.conversion, tuple(few))

    def _named(self, item: Item) -> tuple[str, Item]:
        """The archive of a file, and the file."""
        if self.is_one_file_each:
            return "", item
        return container_name(item.group) if self.keeps_containers else self.target.start, item

    def _numbered(
        self, items: Iterable[Item], parts: Mapping[str, PartState], complete: Container[str]
    ) -> Iterator[tuple[str, Item]]:
        """Yields the shard of each file, and the file; a shard that was begun goes on."""
        shards = map(self.target.shard, count(self.target.first))
        left = (shard for shard in shards if shard not in complete)
        shard = next(left)
        state = parts.get(shard, PartState())
        for item in items:
            while item.begins and self._is_full(state):  # several may be, where a run was killed before they were ended
                shard = next(left)
                state = parts.get(shard, PartState())
            state = PartState(state.planned + item.planned, state.samples + item.begins)
            yield shard, item

    def _is_full(self, state: PartState) -> bool:
        """Whether a numbered shard takes no more samples."""
        if self.shard_samples is not None and state.samples >= self.shard_samples:
            return True
        return state.planned * self.conversion.growth >= self.shard_size
