"""What different numbers of workers deliver: measured with the real loader, never assumed to be linear."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

from fastpipe.pipeline import keyed_globals
from fastpipe.tools.doctor.subject import Subject
from fastpipe.tools.doctor.values import Scaling, Trial

__all__ = ["measure_scaling", "worker_counts"]

_BATCH_S = 0.15  # that a batch of a trial should take one worker


def worker_counts(cpus: int, also: int | None = None) -> list[int]:
    """The numbers of workers to try: powers of two below the CPUs, the CPUs, and the one in use."""
    counts = {2**power for power in range(cpus.bit_length())} | {cpus}
    if also:
        counts.add(also)
    return sorted(counts)


def measure_scaling(
    subject: Subject,
    indices: Sequence[int],
    counts: Sequence[int],
    *,
    cpus: int,
    image_us: float,
    image_bytes: int,
    seconds: float,
    shared_free: int | None = None,
    say: Callable[[int], None] = lambda workers: None,
) -> Scaling:
    """Delivers batches with each number of workers and takes the time between the batches.

    Args:
        subject: what to load.
        indices: samples to take, again and again: they stay in the page cache.
        counts: numbers of workers, at least 1 each.
        cpus: that this process may use.
        image_us: microseconds of a sample in one worker, roughly.
        image_bytes: of a finished image.
        seconds: for all trials together; each gets at least two batches from every worker.
        shared_free: bytes of shared memory that are free; None where that is no limit.
        say: called with each number of workers before it is tried.
    """
    size = max(1, min(subject.batch_size, int(_BATCH_S * 1e6 / max(1.0, image_us))))
    if shared_free is not None:  # a trial must not end in a bus error: doctor is there to warn of it
        in_flight = max(counts) * subject.prefetch + 2
        size = max(1, min(size, int(shared_free / 2 / in_flight / max(1, image_bytes))))
    trials = []
    share = seconds / len(counts)
    for workers in counts:
        say(workers)
        trials.append(Trial(workers, _rate(subject, indices, size, workers, share)))
    return Scaling(tuple(trials), cpus, size)


class _Endless:
    """A sampler that goes round some samples, in another order each time."""

    def __init__(self, indices: Sequence[int]) -> None:
        self.indices = list(indices)

    def __iter__(self) -> Iterator[int]:
        order = random.Random(0)
        while True:
            yield from order.sample(self.indices, len(self.indices))

    def __len__(self) -> int:
        return 10**12


def _rate(subject: Subject, indices: Sequence[int], size: int, workers: int, seconds: float) -> float:
    with keyed_globals(workers):
        with warnings.catch_warnings():
            # Doctor has a finding for that, with figures.
            warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
            batches = iter(subject.loader_for(_Endless(indices), size, workers))
        # A batch of each worker comes while the others still start.
        for _ in range(workers):
            next(batches)
        running = time.perf_counter()
        rounds = 0
        # Whole rounds: workers that started together deliver together.
        while rounds == 0 or time.perf_counter() - running < seconds:
            for _ in range(workers):
                next(batches)
            rounds += 1
        return rounds * workers * size / (time.perf_counter() - running)
