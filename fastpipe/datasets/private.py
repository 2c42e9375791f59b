"""Private state of a dataset, under one name that no subclass or base of a user's meets by accident."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sized
from dataclasses import dataclass, replace
from operator import is_
from typing import Any, TypeVar

from fastpipe.datasets.bad_file_policy import BadFilePolicy
from fastpipe.datasets.bad_files import BadFileRecord
from fastpipe.executor import BatchExecutor, SharedEpoch
from fastpipe.transforms.pipeline import Pipeline, compile_pipeline, flatten, members_of

_Result = TypeVar("_Result")


def held_weakly(method: Callable[..., _Result]) -> Callable[..., _Result]:
    """An object's method, for what the object itself holds.

    A ring would last until Python's collector comes, and with it the shared memory, threads and batches in it.
    """
    reference = weakref.WeakMethod(method)

    def call(*arguments: Any) -> _Result:
        found = reference()
        assert found is not None  # whoever calls asks the object
        return found(*arguments)

    return call


@dataclass
class PrivateState:
    """State that a dataset keeps for itself, as its attribute ``_fastpipe``.

    Attributes:
        policy: what becomes of bad files.
        epoch: the epoch in shared memory; None without a seed.
        record: which samples were bad; None until it is needed.
        executor: makes the samples; of what each process makes for itself, as `pipeline` and `members` are.
        pipeline, members: the compiled transform, and the transforms that it was compiled from.
    """

    policy: BadFilePolicy
    epoch: SharedEpoch | None = None
    record: BadFileRecord | None = None
    executor: BatchExecutor | None = None
    pipeline: Pipeline | None = None
    members: tuple[Any, ...] | None = None

    def compiled(self, transform: Any, **options: Any) -> Pipeline:
        """The compiled transform; compiled anew when it, or its `Compose`'s list, has changed."""
        known = self.members
        members = members_of(transform)
        members = (transform,) if members is None else members
        # ArchiveMember by member; where there is a Compose within, all the way down.
        if known is None or not (len(members) == len(known) and all(map(is_, members, known))):
            flat = tuple(flatten(transform))
            if known is None or not (len(flat) == len(known) and all(map(is_, flat, known))):
                self.pipeline, self.members = compile_pipeline(transform, **options), flat
        assert self.pipeline is not None
        return self.pipeline

    def bad_record(self, count: int) -> BadFileRecord:
        """Which of so many samples were bad."""
        if self.record is None or self.record.count != count:
            self.record = BadFileRecord(count)
        return self.record

    def share_record(self, samples: Sized) -> None:
        """Makes the record anew, before workers are forked, so that all have the same."""
        self.record = None
        if self.policy.on_error != "raise":
            self.bad_record(len(samples))

    def sendable(self) -> PrivateState:
        """A copy without what each process makes for itself."""
        return replace(self, executor=None, pipeline=None, members=None)

    def __reduce__(self) -> tuple[Any, ...]:
        return PrivateState, (self.policy, self.epoch, self.record)
