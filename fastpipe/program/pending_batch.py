"""A batch of tensors without pixels: written by the core into the batch's memory, by torch's number of threads."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from fastpipe import core
from fastpipe.program.pending_work import PendingWork


def write_batch(works: Sequence[PendingWork | None], out: torch.Tensor) -> None:
    """Writes results into a batch, each into its place.

    Args:
        works: what makes them; None for a place that is left as it is.
        out: a tensor ``(N, C, H, W)`` of their shape and dtype.
    """
    left = _written_by_core(works, out)
    for number in left:
        work = works[number]
        if work is not None:
            work.write(out[number])


def _written_by_core(works: Sequence[PendingWork | None], out: torch.Tensor) -> Sequence[int]:
    """Writes what jobs of the core can write; returns the numbers of the others."""
    threads = min(torch.get_num_threads(), len(works))
    resources = core.thread_resources(threads if threads > 1 else 0)
    if resources is None:
        return range(len(works))
    sink = core.BatchSink(out)
    jobs = resources.jobs(len(works))
    filled: list[int] = []
    left: list[int] = []
    begun = time.perf_counter()
    for number, work in enumerate(works):
        is_filled = work is not None and work.fill(jobs[len(filled)], sink, number)
        (filled if is_filled else left).append(number)
    statuses = resources.pool.run(jobs, len(filled)) if filled else []
    for job in jobs:
        job.let_go()
    resources.give_back(jobs)
    seconds = (time.perf_counter() - begun) / max(1, len(filled))
    for number, status in zip(filled, statuses, strict=True):
        work = works[number]
        if work is not None and not status:
            work.account.count(seconds)
        else:
            left.append(number)
    return left
