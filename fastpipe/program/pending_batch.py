"""A batch of tensors without pixels: written by the core into the batch's memory, by torch's number of threads."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import torch

from fastpipe import core
from fastpipe.program.pending_work import PendingWork


def write_batch(works: Mapping[int, PendingWork], out: torch.Tensor) -> None:
    """Writes results into a batch, each into its place.

    Args:
        works: what makes them, by place; other places are left as they are.
        out: a tensor ``(N, C, H, W)`` of their shape and dtype.
    """
    for place in _written_by_core(works, out):
        works[place].write(out[place])


def _written_by_core(works: Mapping[int, PendingWork], out: torch.Tensor) -> Sequence[int]:
    """Writes what jobs of the core can write; returns the places of the others."""
    threads = min(torch.get_num_threads(), len(works))
    resources = core.thread_resources(threads if threads > 1 else 0)
    if resources is None:
        return [*works]
    sink = core.BatchSink(out)
    jobs = resources.jobs(len(works))
    filled: list[int] = []
    left: list[int] = []
    begun = time.perf_counter()
    for place, work in works.items():
        (filled if work.fill(jobs[len(filled)], sink, place) else left).append(place)
    statuses = resources.pool.run(jobs, len(filled)) if filled else []
    for job in jobs:
        job.let_go()
    resources.give_back(jobs)
    seconds = (time.perf_counter() - begun) / max(1, len(filled))
    for place, status in zip(filled, statuses, strict=True):
        if status:
            left.append(place)
        else:
            works[place].account.count(seconds)
    return left
