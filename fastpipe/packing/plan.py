"""Which files go where: the tasks of a run, in an order that the source alone decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastpipe.packing.conversions import Conversion
from fastpipe.packing.items import Item
from fastpipe.packing.record import PartState
from fastpipe.packing.source import Form, PackSource
from fastpipe.packing.target import Target, container_name
from fastpipe.packing.work import Task, planned_size

_BYTES = 4 << 20


@dataclass(frozen=True)
class Limits:
    """The size of a shard: it is complete with the sample that reaches one of them.

    Attributes:
        size: bytes in the target, as far as they can be told before.
        samples: how many; None for any number.
    """

    size: int
    samples: int | None = None


@dataclass(frozen=True)
class Layout:
    """A source's files in a target.

    Attributes:
        source: where they are from.
        target: where they go to.
        conversion: what is done to them.
        limits: of numbered shards.
    """

    source: PackSource
    target: Target
    conversion: Conversion
    limits: Limits

    @property
    def form(self) -> Form:
        """The form in which the target holds files."""
        kind, target = self.source.kind, self.target.kind
        if kind == "samples":
            return Form(True, self.conversion.ending, apart=target == "folder")
        samples = target == "shards" or (target == "archive" and kind != "folders")
        return Form(samples, self.conversion.ending)

    @property
    def loose(self) -> bool:
        """Whether each file is one of its own in the target."""
        return self.target.kind == "folder" and self.source.kind != "samples"

    @property
    def listed(self) -> bool:
        """Whether a list says the files' labels and their order."""
        return self.loose and self.source.kind == "list"

    @property
    def about(self) -> dict[str, Any]:
        """The values that the target's bytes depend on: what is begun with some goes on with the same."""
        source, limits = self.source, self.limits
        labels: Any = None
        if source.index is not None and source.kind != "images" and (self.listed or self.form.samples):
            labels = "names" if source.labels_are_names else [*source.index.classes]
        return {
            "command": self.conversion.verb,
            "source": source.name,
            "columns": source.columns,
            "labels": labels,
            "shards": [limits.size, limits.samples] if self.target.kind == "shards" else None,
            **self.conversion.about,
        }

    def tasks(
        self,
        items: Iterable[Item],
        parts: Mapping[str, PartState],
        is_complete: Callable[[str], bool],
        at_once: int | None,
    ) -> Iterator[Task]:
        """Yields the files, a stretch of one archive in each task.

        Args:
            items: the files to come, in order.
            parts: what the record has of each archive.
            is_complete: whether an archive has its name.
            at_once: how many files at most, and about 4 MB of them; None for all of an archive.
        """
        part_of = self._numbered(parts, is_complete) if self.target.kind == "shards" else self._named
        few: list[Item] = []
        last, size = "", 0
        for item in items:
            part = "" if self.loose else part_of(item)
            if few and (part != last or (at_once is not None and (len(few) >= at_once or size >= _BYTES))):
                yield Task(self.target.folder, last, self.conversion, tuple(few))
                few, size = [], 0
            last = part
            few.append(item)
            size += planned_size(item)
        if few:
            yield Task(self.target.folder, last, self.conversion, tuple(few))

    def _named(self, item: Item) -> str:
        return container_name(item.group) if self.form.apart else self.target.start

    def _numbered(self, parts: Mapping[str, PartState], is_complete: Callable[[str], bool]) -> Callable[[Item], str]:
        """The shard of each item that is asked for in turn."""
        target, growth = self.target, self.conversion.growth

        def free(number: int) -> int:
            while target.shard(number) in parts and is_complete(target.shard(number)):
                number += 1
            return number

        number = free(target.first)
        state = parts.get(target.shard(number), PartState())

        def part_of(item: Item) -> str:
            nonlocal number, state
            full = state.planned * growth >= self.limits.size
            full = full or (self.limits.samples is not None and state.samples >= self.limits.samples)
            if full and item.begins:
                number = free(number + 1)
                state = parts.get(target.shard(number), PartState())
            state = PartState(state.planned + planned_size(item), state.samples + item.begins)
            return target.shard(number)

        return part_of
