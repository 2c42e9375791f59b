"""Private state of a dataset, under one name that a user's subclass or base is unlikely to use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastpipe.datasets.bad_files import BadFileRecord
from fastpipe.executor import BatchExecutor, Row, SharedEpoch
from fastpipe.transforms.pipeline import Pipeline
from fastpipe.transforms.unchanged import Unchanged


@dataclass
class PrivateState:
    """State that a dataset keeps for itself, as its attribute ``_fastpipe``."""

    epoch: SharedEpoch | None = None  # the epoch in shared memory; None without a seed
    record: BadFileRecord | None = None  # which samples were bad; None until one is needed
    executor: BatchExecutor | None = None  # makes the samples; each process makes its own, and its own `pipeline`
    pipeline: Pipeline | None = None  # the compiled transform
    unchanged: Unchanged | None = None  # whether the transform is as it was when `pipeline` was compiled
    times: Row | None = None  # the row that the executor adds its stages' times to; None if times aren't measured
    # called in a loader's worker with the index of each sample that it begins, so that a stall can name its file
    on_begin: Callable[[int], None] | None = None

    def measure(self, times: Row | None) -> None:
        """Has batches that begin from now on add the times of their stages to a row of `StageTimes`; None to stop."""
        self.times, self.executor = times, None

    def bad_record(self, count: int) -> BadFileRecord:
        """The record of bad files for `count` samples; made if there is none of that size."""
        if self.record is None or self.record.count != count:
            self.record = BadFileRecord(count)
        return self.record

    def __reduce__(self) -> tuple[object, ...]:
        return PrivateState, (self.epoch, self.record)  # each process and each copy makes its own of the rest
