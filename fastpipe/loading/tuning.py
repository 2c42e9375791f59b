"""Measures loaders with the user's files and transform, and chooses the numbers of workers and threads."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import RandomSampler

from fastpipe.arguments import real_number, whole_number
from fastpipe.core import end_threads
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.environment import usable_cpus
from fastpipe.errors import DatasetError
from fastpipe.loading.collate import tensor_bytes
from fastpipe.loading.loader import DataLoader
from fastpipe.loading.threads import AHEAD, gil_bound_step
from fastpipe.progress_bar import SlowBar
from fastpipe.rng import keyed_globals

SAME = 0.05
"""Rates that differ by less than this share count as equal: short trials vary by as much."""

_LONGEST_S = 7 * 24 * 3600
_BESIDE_TRAINING = 0.8
"""The factor for the rates of settings that make batches in the training process. There, the training's kernel launches
and the loader's Python code delay each other by about a fifth, which a trial without training doesn't show."""
_ENDLESS = 10**12
_PREFETCH = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """Measurements of one setting.

    Attributes:
        num_workers, threads, prefetch_factor: the setting; prefetch_factor is None if no batches are made ahead.
        images_per_s: images a second after the start.
        first_batch_s: seconds from making the loader to its first batch.
        memory_mb: memory in MB for the batches in flight, and the workers' private memory if psutil is installed to
            measure it.
    """

    num_workers: int
    threads: int
    prefetch_factor: int | None
    images_per_s: float
    first_batch_s: float
    memory_mb: float

    @property
    def beside_training(self) -> float:
        """Images a second by which settings are compared: four fifths of the rate if there are no workers."""
        return self.images_per_s * (1 if self.num_workers else _BESIDE_TRAINING)


@dataclass(frozen=True, slots=True)
class Tuning:
    """The chosen setting, and all trials.

    Attributes:
        kwargs: keyword arguments for `fastpipe.DataLoader`.
        chosen: the trial with the chosen setting.
        trials: all trials, in the order in which they ran.
        note: why the fastest setting isn't chosen, or why threads without workers can't make batches ahead; or empty.
    """

    kwargs: dict[str, object]
    chosen: Trial
    trials: tuple[Trial, ...]
    note: str = ""

    def __str__(self) -> str:
        lines = ["workers  threads  prefetch  images/s  first batch, s  memory, MB"]
        for trial in self.trials:
            prefetch = "-" if trial.prefetch_factor is None else trial.prefetch_factor
            lines.append(
                f"{trial.num_workers:7}  {trial.threads:7}  {prefetch:>8}  {trial.images_per_s:8.0f}  "
                f"{trial.first_batch_s:14.2f}  {trial.memory_mb:10.0f}{'  chosen' if trial is self.chosen else ''}"
            )
        return "\n".join(lines + [self.note] * bool(self.note))


def tune(
    dataset: object,
    batch_size: int,
    *,
    seconds: float = 30.0,
    max_workers: int | None = None,
    progress: bool = True,
    **options: object,
) -> Tuning:
    """Measures settings of the loader with the dataset's own files, and chooses one.

    It tries no workers, and powers of two up to `max_workers`; each with and without threads if the dataset is one of
    fastpipe's (threads without workers make batches ahead in this process); then the fastest setting with twice as many
    prefetched batches. Each trial reads other files of the dataset, in random order. Among the settings within 5% of
    the fastest, it prefers one with workers, then the fewest workers, then the fewest prefetched batches: often one
    worker with threads. Rates without workers count for four fifths: a loader in the training process and the
    training's kernel launches delay each other, which a trial without training doesn't show. The state of the global
    generators is restored.

    Args:
        dataset: a map-style dataset.
        batch_size: as the training will use it.
        seconds: time for all settings together, in equal shares. Where workers start slowly, a setting takes longer
            than its share; settings for which no time is left aren't tried.
        max_workers: the most workers to try; None for the number of usable CPUs.
        progress: show a progress bar in a terminal after two seconds.
        options: further arguments of `fastpipe.DataLoader` that the training will use (``device``, ``dtype``,
            ``multiprocessing_context``, …).

    Raises:
        DatasetError: the dataset is empty, the batch size is below 1, the time isn't positive and finite, or
            `max_workers` is no number.
    """
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise DatasetError(f"dataset={dataset!r:.80}: give a map-style dataset, with a length and samples by index.")
    if len(dataset) == 0:
        raise DatasetError(f"dataset={dataset!r:.80} has 0 samples: give at least one.")
    batch_size = whole_number("batch_size", batch_size, "the samples of a batch", least=1, error=DatasetError)
    seconds = real_number("seconds", seconds, "the time for all settings", most=_LONGEST_S, error=DatasetError)
    if not (max_workers is None or (isinstance(max_workers, int) and max_workers >= 0)):
        raise DatasetError(f"max_workers={max_workers!r}: give the most workers to try, or None for the usable CPUs.")
    largest = min(batch_size, len(dataset))  # an epoch has no larger one
    cpus = usable_cpus()
    obstacle = gil_bound_step(dataset, options.get("collate_fn"))
    settings = list(_settings(cpus if max_workers is None else max_workers, cpus, any(image_datasets(dataset))))
    order = RandomSampler(dataset, True, _ENDLESS, torch.Generator().manual_seed(0))  # each trial goes on in it
    started = time.perf_counter()
    share = seconds / (len(settings) + 1)
    trials: list[Trial] = []

    def try_setting(workers: int, threads: int, prefetch: int | None) -> None:
        setting = {"num_workers": workers, "threads": threads, "prefetch_factor": prefetch}
        arguments: dict[str, Any] = {"dataset": dataset, "batch_size": largest, "sampler": order, **setting, **options}
        trials.append(try_loader(partial(DataLoader, **arguments), share))

    with SlowBar("trying settings of the loader", progress) as bar:
        bar.expect(len(settings) + 1)
        for workers, threads in settings:
            if not trials or time.perf_counter() - started < seconds - share:
                try_setting(workers, threads, _PREFETCH if workers else AHEAD if threads and not obstacle else None)
            bar.advance()
        best = max(trials, key=lambda trial: trial.beside_training)
        if best.prefetch_factor and time.perf_counter() - started < seconds:
            try_setting(best.num_workers, best.threads, 2 * best.prefetch_factor)
    chosen = choose(trials)
    kwargs = {"batch_size": batch_size, "num_workers": chosen.num_workers, "threads": chosen.threads, **options}
    if chosen.prefetch_factor is not None:
        kwargs["prefetch_factor"] = chosen.prefetch_factor
    note = ""
    if chosen.num_workers and any(
        not trial.num_workers and trial.images_per_s > chosen.images_per_s for trial in trials
    ):
        note = (
            "Without workers, rates count for four fifths: a loader in the training process and the launches of "
            "kernels there delay each other."
        )
    if obstacle and any(image_datasets(dataset)):
        note = (
            f"Threads without workers can't make batches ahead: {obstacle} is Python code, which holds the "
            "interpreter's lock. Workers are faster for it."
        )
    return Tuning(kwargs, chosen, tuple(trials), note)


def worker_counts(most: int, also: int | None = None) -> list[int]:
    """The numbers of workers to try: powers of two up to `most`, `most`, and `also` (the number in use)."""
    return sorted({2**power for power in range(most.bit_length())} | {most} | ({also} if also else set()))


def _settings(max_workers: int, cpus: int, threads_help: bool) -> Iterator[tuple[int, int]]:
    for count in sorted({0, *worker_counts(max_workers)}):
        yield count, 0
        threads = cpus // max(count, 1)
        if threads_help and threads > 1:
            yield count, threads


def try_loader(make: Callable[[], TorchDataLoader[Any]], seconds: float) -> Trial:
    """Makes a loader, measures it, and ends its workers and threads. The state of the global generators is restored.

    Args:
        make: makes the loader; its sampler is endless.
        seconds: time for the trial. At least half of it is spent after all workers have started, in rounds of one batch
            for each worker, at least one round: workers that started together deliver together.
    """
    before = set(multiprocessing.active_children())
    with keyed_globals(0), warnings.catch_warnings():
        for advice in ("threads=.* is Python code", "This DataLoader will create"):  # the measurement shows it
            warnings.filterwarnings("ignore", advice)
        start = time.perf_counter()
        try:
            loader = make()
            batches = iter(loader)
            first = next(batches)
            first_batch_s = time.perf_counter() - start
            for _ in range(loader.num_workers):  # each worker's first batch is made while others are still starting
                next(batches)
            started, count, a_round = time.perf_counter(), 0, max(1, loader.num_workers)
            end = max(start + seconds, started + seconds / 2)
            while count == 0 or time.perf_counter() < end:
                for _ in range(a_round):
                    next(batches)
                count += a_round
            batches_per_s = count / (time.perf_counter() - started)
            private = sum(_private_bytes(child.pid) for child in set(multiprocessing.active_children()) - before)
        finally:
            end_threads()
    in_flight = a_round * (loader.prefetch_factor or 0)
    return Trial(
        loader.num_workers,
        getattr(loader, "threads", None) or 0,
        loader.prefetch_factor,
        batches_per_s * (loader.batch_size or 1),
        first_batch_s,
        (tensor_bytes(first) * max(1, in_flight) + private) / 1e6,
    )


def choose(trials: Collection[Trial], needed: float = math.inf) -> Trial:
    """Chooses the setting that costs least of those that deliver `needed` images a second, or else of the fastest.

    Rates within `SAME` count as equal. A setting costs least if its batches aren't made in the training process, then
    if it has the fewest workers and prefetches the fewest batches. Of settings that cost the same, it is the fastest.
    """
    enough = (1 - SAME) * min(needed, max(trial.beside_training for trial in trials))
    return min(
        (trial for trial in trials if trial.beside_training >= enough),
        key=lambda trial: (not trial.num_workers, trial.num_workers, trial.prefetch_factor or 0, -trial.images_per_s),
    )


def _private_bytes(pid: int | None) -> int:
    with contextlib.suppress(ImportError):
        import psutil  # type: ignore[import-untyped,unused-ignore]

        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(pid).memory_full_info().uss)
    return 0
