"""Private state of a dataset, under one name that no subclass or base of a user's meets by accident."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastpipe.data.bad_files import BadFileRecord
from fastpipe.program import Pipeline, SharedEpoch
from fastpipe.sources._threads import Threads
from fastpipe.types import Generators


@dataclass
class PrivateState:
    """State that a dataset keeps for itself, as its attribute ``_fastpipe``.

    Attributes:
        epoch: the epoch in shared memory; None without a seed.
        record: which samples were bad; None until it is needed.
        told_of_log: the warning about a log that can't be written was given.
        generators: what samples are drawn from without a seed; None for the global generators.
        pipeline, members: the compiled transform, and the transforms that it was compiled from; made in each process.
        pool: threads of this process.
    """

    epoch: SharedEpoch | None = None
    record: BadFileRecord | None = None
    told_of_log: bool = False
    generators: Generators | None = None
    pipeline: Pipeline | None = None
    members: tuple[Any, ...] | None = None
    pool: Threads | None = None

    def sendable(self) -> PrivateState:
        """A copy without what each process makes for itself."""
        return PrivateState(self.epoch, self.record, self.told_of_log, self.generators)

    def __reduce__(self) -> tuple[Any, ...]:
        return PrivateState, (self.epoch, self.record, self.told_of_log, self.generators)
