"""The plan of a run: divides the files into tasks, in an order that only depends on the source."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count, groupby
from operator import itemgetter

from fastpipe.packing.conversions import Conversion
from fastpipe.packing.items import Item
from fastpipe.packing.record import PartState
from fastpipe.packing.source import PackSource
from fastpipe.packing.target import Target, container_name
from fastpipe.packing.whole import WholeSource
from fastpipe.packing.work import Task

_BYTES = 4 << 20
_TOP = "root/"


@dataclass(frozen=True)
class Layout:
    """Where a source's files go in a target.

    Attributes:
        source: the files.
        target: the place to write them to.
        conversion: how files are converted.
        shard_size: the estimated bytes of a numbered shard, which is complete with the sample that reaches this size.
        shard_samples: the number of samples of a shard; None for no limit.
    """

    source: PackSource
    target: Target
    conversion: Conversion
    shard_size: int
    shard_samples: int | None

    @property
    def is_one_file_each(self) -> bool:
        """True if each file of the source is a separate file in the target."""
        return self.target.kind == "folder" and self.source.kind != "samples"

    @property
    def keeps_containers(self) -> bool:
        """True if each container of the source becomes one container in the target."""
        return self.target.kind == "folder" and self.source.kind == "samples"

    @property
    def as_samples(self) -> bool:
        """True if files become samples of shards, with their labels beside them; False if they keep their names."""
        if self.source.kind == "folders":
            return self.target.kind == "shards"
        return not self.is_one_file_each

    @property
    def listed(self) -> bool:
        """True if the target needs a list file for the labels and the order."""
        return self.is_one_file_each and self.source.kind == "list"

    @cached_property
    def top(self) -> str:
        """The folder that holds the class folders in an archive; ``""`` if there is none.

        Without it, the only class folder of an archive is taken for such a folder if all images are in its subfolders.
        """
        return _TOP if self.target.kind == "archive" and self.source.is_one_nested_class else ""

    @property
    def about(self) -> dict[str, object]:
        """The values that the target's bytes depend on; a begun target can only be continued with the same values."""
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
            **({"names": "kept"} if isinstance(source, WholeSource) else {}),
            **({"top folder": self.top} if self.top else {}),
            **self.conversion.about,
        }

    def items(self, done: Container[str]) -> Iterator[Item]:
        """Yields the source's files in order, without those of containers whose keys are in `done`."""
        if self.source.kind == "samples":
            return self.source.members(self.conversion.ending, self.keeps_containers, done)
        return self.source.files(self.conversion.ending, self.as_samples, self.top)

    def tasks(
        self,
        items: Iterable[Item],
        parts: Mapping[str, PartState],
        complete: Container[str],
        at_once: int | None,
    ) -> Iterator[Task]:
        """Groups files into tasks; a task has consecutive files of one archive.

        Args:
            items: the remaining files, in order.
            parts: the recorded state of each archive.
            complete: the archives that get no more files.
            at_once: the most files in a task, which also ends after about 4 MB; None for a whole archive.
        """
        numbered, names_kept = self.target.kind == "shards", isinstance(self.source, WholeSource)
        named = self._numbered(items, parts, complete) if numbered else map(self._named, items)
        for part, files in groupby(named, key=itemgetter(0)):
            few: list[Item] = []
            size = 0
            for _, item in files:
                if at_once is not None and (len(few) >= at_once or size >= _BYTES):
                    yield Task(self.target.folder, part, self.conversion, tuple(few), names_kept)
                    few, size = [], 0
                few.append(item)
                size += item.planned
            yield Task(self.target.folder, part, self.conversion, tuple(few), names_kept)

    def _named(self, item: Item) -> tuple[str, Item]:
        """Returns the name of a file's archive, and the file."""
        if self.is_one_file_each:
            return "", item
        return container_name(item.group) if self.keeps_containers else self.target.start, item

    def _numbered(
        self, items: Iterable[Item], parts: Mapping[str, PartState], complete: Container[str]
    ) -> Iterator[tuple[str, Item]]:
        """Yields for each file its shard's name, and the file; continues a shard that was begun."""
        shards = map(self.target.shard, count(self.target.first))
        left = (shard for shard in shards if shard not in complete)
        shard = next(left)
        state = parts.get(shard, PartState())
        for item in items:
            while item.begins and self._is_full(state):  # several may be full after a kill
                shard = next(left)
                state = parts.get(shard, PartState())
            state = PartState(state.planned + item.planned, state.samples + item.begins)
            yield shard, item

    def _is_full(self, state: PartState) -> bool:
        """True if a numbered shard is complete."""
        if self.shard_samples is not None and state.samples >= self.shard_samples:
            return True
        return state.planned * self.conversion.growth >= self.shard_size
