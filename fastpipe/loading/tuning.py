"""Chooses the numbers of workers and threads by measurements with the user's files and transform."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from fastpipe.loading.threads import AHEAD, gil_bound_part
from fastpipe.progress_bar import SlowBar
from fastpipe.rng import keyed_globals

_LONGEST_S = 7 * 24 * 3600
_NEARLY = 0.95  # rates above this share of the best are within the noise of a short trial, so memory decides
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
    the fastest, it prefers one with workers, then the one that needs the least memory: often one worker with threads.
    Rates without workers count for four fifths: a loader in the training process and the training's kernel launches
    delay each other, which a trial without training doesn't show. The state of the global generators is restored.

    Args:
        dataset: a map-style dataset.
        batch_size: as the training will use it.
        seconds: time for all settings together. A setting is stopped as soon as its share is spent, but never before
            its second batch; settings for which no time is left aren't tried.
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
    obstacle = gil_bound_part(dataset, options.get("collate_fn"))
    settings = list(_settings(cpus if max_workers is None else max_workers, cpus, any(image_datasets(dataset))))
    started = time.perf_counter()
    share = seconds / (len(settings) + 1)
    trials: list[Trial] = []
    with SlowBar("trying settings of the loader", progress) as bar:
        bar.expect(len(settings) + 1)
        for workers, threads in settings:
            if not trials or time.perf_counter() - started < seconds - share:
                trials.append(_try(dataset, largest, (workers, threads, 1), share, len(trials), options))
            bar.advance()
        best = max(trials, key=lambda trial: trial.beside_training)
        if (best.num_workers or (best.threads and not obstacle)) and time.perf_counter() - started < seconds:
            wider = (best.num_workers, best.threads, 2)
            trials.append(_try(dataset, largest, wider, share, len(trials), options))
    fastest = max(trial.beside_training for trial in trials)
    nearly = [trial for trial in trials if trial.beside_training >= _NEARLY * fastest]
    chosen = min(nearly, key=lambda trial: (not trial.num_workers, trial.memory_mb))
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
            "interpreter's lock. Workers serve it better."
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


@dataclass(frozen=True, slots=True)
class RunningLoader:
    """An endless loader whose workers have all started."""

    batches: Iterator[object]
    workers: int
    first_batch: object
    first_batch_s: float  # seconds from making the loader to its first batch

    def batches_per_s(self, seconds: float) -> float:
        """Measures the rate over that many seconds, in rounds of one batch for each worker, at least one round.

        Rounds are needed, as workers that started together deliver together.
        """
        start, count, a_round = time.perf_counter(), 0, max(1, self.workers)
        while count == 0 or time.perf_counter() - start < seconds:
            for _ in range(a_round):
                next(self.batches)
            count += a_round
        return count / (time.perf_counter() - start)


@contextlib.contextmanager
def running(make: Callable[[], TorchDataLoader[object]], workers: int, *, seed: int) -> Iterator[RunningLoader]:
    """Makes and starts a loader with that number of workers, and seeds the global generators for it.

    At the end, the state of the global generators is restored, and this thread's threads, which decode, are ended.
    """
    with keyed_globals(seed), warnings.catch_warnings():
        for advice in ("threads=.* is Python code", "This DataLoader will create"):  # the measurement shows it
            warnings.filterwarnings("ignore", advice)
        start = time.perf_counter()
        loader = make()
        try:
            batches = iter(loader)
            first = next(batches)
            first_s = time.perf_counter() - start
            for _ in range(workers):  # discard each worker's first batch, made while others are still starting
                next(batches)
            yield RunningLoader(batches, workers, first, first_s)
        finally:
            end_threads()


def _try(
    dataset: Any, batch_size: int, setting: tuple[int, int, int], seconds: float, seed: int, options: dict[str, Any]
) -> Trial:
    """Measures a setting: (workers, threads, factor of the default number of prefetched batches)."""
    workers, threads, deeper = setting
    before = set(multiprocessing.active_children())
    makes_ahead = threads and not gil_bound_part(dataset, options.get("collate_fn"))
    usual = _PREFETCH if workers else AHEAD if makes_ahead else None
    ahead = None if usual is None else deeper * usual
    order = torch.Generator().manual_seed(seed)

    def make() -> DataLoader:
        return DataLoader(
            dataset,
            batch_size,
            sampler=RandomSampler(dataset, replacement=True, num_samples=_ENDLESS, generator=order),
            num_workers=workers,
            prefetch_factor=ahead,
            threads=threads,
            **options,
        )

    start = time.perf_counter()
    with running(make, workers, seed=seed) as loader:
        rate = batch_size * loader.batches_per_s(seconds - (time.perf_counter() - start))
        private = sum(_private_bytes(child.pid) for child in set(multiprocessing.active_children()) - before)
    memory = tensor_bytes(loader.first_batch) * max(1, max(1, workers) * (ahead or 0)) + private
    return Trial(workers, threads, ahead, rate, loader.first_batch_s, memory / 1e6)


def _private_bytes(pid: int | None) -> int:
    with contextlib.suppress(ImportError):
        import psutil  # type: ignore[import-untyped,unused-ignore]

        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(pid).memory_full_info().uss)
    return 0
