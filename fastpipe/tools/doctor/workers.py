"""DataLoader workers of the subject's making: one that runs what it is told, and what different numbers deliver."""

from __future__ import annotations

import pickle
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import torch

from fastpipe.loading.collate import DeferredImages
from fastpipe.loading.tuning import running
from fastpipe.rng import keyed_globals
from fastpipe.tools.doctor.measurements import StageProfile, Threaded, Transfer
from fastpipe.tools.inputs import Subject
from fastpipe.tools.timing import Workers, take_turns

_BATCH_S = 0.15  # that a batch of a trial should take one worker
_ROUNDS, _IMAGES = 7, 64

Result = TypeVar("Result")


class Probe:
    """A worker of the subject's making, alive between calls; used as a context manager.

    Attributes:
        why_here: why the dataset can't be sent to a worker, so that the work is done in this process; else empty.
    """

    def __init__(self, subject: Subject) -> None:
        self.why_here = ""
        init = subject.loader_for((), 1, 1).worker_init_fn
        self._workers = Workers(subject.dataset, 1, worker_init_fn=init, multiprocessing_context=subject.context)
        try:
            self.run(id)
        except (pickle.PicklingError, AttributeError, TypeError) as error:  # pickle's, of what it can't pickle
            self.why_here = f"{type(error).__name__}: {error}".splitlines()[0]
            self._workers = Workers(subject.dataset, 0)

    def run(self, work: Callable[[Any], Result]) -> Result:
        """Calls ``work(dataset)`` in the worker, and returns its result; it and its result can be pickled."""
        result: Result
        with keyed_globals(0), warnings.catch_warnings():  # starting a worker draws from torch's generator
            warnings.filterwarnings("ignore", "Got pickle error", UserWarning)  # `why_here` says it
            (result,) = self._workers.run([work])
        return result

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *error: object) -> None:
        del self._workers  # torch's loader ends its workers when it goes


def trial_batch_size(subject: Subject, stages: StageProfile, most_workers: int, shared_free: int | None) -> int:
    """The size of a trial's batches: the training's, or less where that takes long, or more shared memory than is free.

    `shared_free` is in bytes; None for no limit.
    """
    size = max(1, min(subject.batch_size, int(_BATCH_S * 1e6 / max(1.0, stages.total_us))))
    if shared_free is None:
        return size
    # A trial must not end in a bus error: doctor is there to warn of it.
    in_flight = most_workers * subject.prefetch + 2
    return max(1, min(size, int(shared_free / 2 / in_flight / stages.image_bytes)))


def images_per_s(
    subject: Subject,
    indices: Sequence[int],
    *,
    workers: int,
    threads: int | None = None,
    batch_size: int,
    seconds: float,
) -> float:
    """Measures the real loader: at least two batches of every worker; with `threads`, as `measure_threads` says.

    The samples are taken again and again: they stay in the page cache.
    """
    make = partial(subject.loader_for, _Endless(indices), batch_size, workers, threads)
    with running(make, workers, seed=threads or workers) as loader:
        return batch_size * loader.batches_per_s(seconds)


def measure_threads(
    subject: Subject, indices: Sequence[int], *, threads: int, batch_size: int, seconds: float, workers: int = 1
) -> Threaded:
    """Delivers batches as `fastpipe.DataLoader` makes them on threads: of one worker, or without any, of this process.

    With a worker, the training process has nothing to do but to take batches, so that is what is recommended.
    """
    if subject.in_python:
        return Threaded(threads, None, f"{subject.in_python} is Python code, which holds the interpreter's lock")
    rate = images_per_s(subject, indices, workers=workers, threads=threads, batch_size=batch_size, seconds=seconds)
    return Threaded(threads, rate, workers=workers)


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


def measure_transfer(height: int, width: int, device: torch.device | str | None = None) -> Transfer | None:
    """Moves made-up batches of RGB images to a GPU, normalised before or there; None where there is no CUDA device."""
    if device is None:
        if not torch.cuda.is_available():
            return None
        device = "cuda"
    place = torch.device(device)
    on_gpu = place.type == "cuda"
    pixels = torch.zeros((_IMAGES, 3, height, width), dtype=torch.uint8, pin_memory=on_gpu)
    floats = torch.zeros((_IMAGES, 3, height, width), pin_memory=on_gpu)
    half = torch.full((1, 3, 1, 1), 0.5)
    deferred = DeferredImages(pixels, half, half, torch.float32)
    name = torch.cuda.get_device_name(place) if on_gpu else str(place)

    def passing(move: Callable[[], object]) -> Callable[[int], float]:
        def work(turn: int) -> float:
            start = time.perf_counter()
            move()
            if on_gpu:
                torch.cuda.synchronize()
            return (time.perf_counter() - start) / _IMAGES * 1e6

        return work

    moves = (lambda: floats.to(place, non_blocking=True)), (lambda: deferred.finish(place))
    times = take_turns(dict(enumerate(map(passing, moves))), _ROUNDS)
    return Transfer(name, times[0].median_us, times[1].median_us)
