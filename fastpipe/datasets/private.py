"""Private state of a dataset, under one name that no subclass or base of a user's meets by accident."""

from __future__ import annotations

from dataclasses import dataclass

from fastpipe.datasets.bad_files import BadFileRecord
from fastpipe.executor import BatchExecutor, Row, SharedEpoch
from fastpipe.transforms.pipeline import Pipeline


@dataclass
class PrivateState:
    """State that a dataset keeps for itself, as its attribute ``_fastpipe``."""

    epoch: SharedEpoch | None = None  # the epoch in shared memory; None without a seed
    record: BadFileRecord | None = None  # which samples were bad; None until it is needed
    executor: BatchExecutor | None = None  # makes the samples; each process makes its own, and its own `pipeline`
    pipeline: Pipeline | None = None  # the compiled transform
    times: Row | None = None  # what the executor adds the time of its stages to; None where nobody asks

    def measure(self, times: Row | None) -> None:
        """Has the executor, and those that are made later, add the time of their stages to a row of `StageTimes`."""
        self.times = times
        if self.executor is not None:
            self.executor.times = times

    def bad_record(self, count: int) -> BadFileRecord:
        """The record of bad ones among `count` samples."""
        if self.record is None or self.record.count != count:
            self.record = BadFileRecord(count)
        return self.record

    def __reduce__(self) -> tuple[object, ...]:
        return PrivateState, (self.epoch, self.record)  # each process, and each copy, makes the rest for itself
