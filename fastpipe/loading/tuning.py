"""How many workers and threads serve this machine, these files and this transform best: tried, not guessed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import RandomSampler

from fastpipe.datasets._progress import SlowBar
from fastpipe.errors import DatasetError
from fastpipe.loading.collate import DeferredImages, map_tensors
from fastpipe.loading.loader import DataLoader, image_datasets
from fastpipe.pipeline import keyed_globals

__all__ = ["Trial", "Tuning", "tune"]

_NEARLY = 0.95  # of the best throughput: within the noise of a short trial, so memory decides
_ENDLESS = 10**12
_PREFETCH = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """What one setting gave.

    Attributes:
        num_workers, threads, prefetch_factor: the setting; prefetch_factor is None without workers.
        images_per_s: images a second, once running.
        first_batch_s: seconds from making the loader to its first batch.
        memory_mb: what it needs beside the main process: batches in flight, and the workers' private memory where
            psutil is installed to measure it.
    """

    num_workers: int
    threads: int
    prefetch_factor: int | None
    images_per_s: float
    first_batch_s: float
    memory_mb: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """The choice, and what it was made from.

    Attributes:
        kwargs: keyword arguments for `fastpipe.DataLoader`.
        chosen: the trial that they come from.
        trials: all of them, in the order in which they ran.
    """

    kwargs: dict[str, Any]
    chosen: Trial
    trials: tuple[Trial, ...]

    def __str__(self) -> str:
        lines = ["workers  threads  prefetch  images/s  first batch, s  memory, MB"]
        for trial in self.trials:
            prefetch = "-" if trial.prefetch_factor is None else trial.prefetch_factor
            lines.append(
                f"{trial.num_workers:7}  {trial.threads:7}  {prefetch:>8}  {trial.images_per_s:8.0f}  "
                f"{trial.first_batch_s:14.2f}  {trial.memory_mb:10.0f}{'  chosen' if trial is self.chosen else ''}"
            )
        return "\n".join(lines)


def tune(
    dataset: Any,
    batch_size: int,
    *,
    seconds: float = 30.0,
    max_workers: int | None = None,
    progress: bool = True,
    **options: Any,
) -> Tuning:
    """Measures settings of the loader on the dataset's own files, and chooses one.

    Settings: no workers, and powers of two up to `max_workers`, each with and without threads where the dataset is one
    of fastpipe's; then twice as many prefetched batches for the fastest. Each reads other files of the data set, in
    random order. The fastest wins; of those within 5% of it, the one that needs the least memory. Global generators
    are put back where they were.

    Args:
        dataset: a map-style dataset.
        batch_size: as the training will use it.
        seconds: for all settings together. A setting is given up as soon as its share is spent, but never before
            its second batch; settings for which no time is left aren't tried.
        max_workers: None for the number of usable CPUs.
        progress: whether a terminal gets a progress bar after two seconds.
        options: further arguments of `fastpipe.DataLoader` that the training will use (``device``, ``dtype``,
            ``multiprocessing_context``, …).

    Raises:
        DatasetError: an empty dataset, a batch size below 1, or no time at all.
    """
    if len(dataset) == 0 or batch_size < 1 or seconds <= 0:
        raise DatasetError(
            f"tune got {len(dataset)} samples, batch_size={batch_size}, seconds={seconds}: give it at "
            "least one sample, a batch size of at least 1 and some time."
        )
    cpus = _usable_cpus()
    settings = list(_settings(cpus if max_workers is None else max_workers, cpus, any(image_datasets(dataset))))
    started = time.perf_counter()
    share = seconds / (len(settings) + 1)
    trials: list[Trial] = []
    with SlowBar("trying settings of the loader", progress) as bar:
        bar.expect(len(settings) + 1)
        for workers, threads in settings:
            if not trials or time.perf_counter() - started < seconds - share:
                trials.append(_try(dataset, batch_size, workers, threads, _PREFETCH, share, len(trials), options))
            bar.advance()
        best = max(trials, key=lambda trial: trial.images_per_s)
        if best.num_workers and time.perf_counter() - started < seconds:
            wider = (best.num_workers, best.threads, 2 * _PREFETCH)
            trials.append(_try(dataset, batch_size, *wider, share, len(trials), options))
    fastest = max(trial.images_per_s for trial in trials)
    nearly = [trial for trial in trials if trial.images_per_s >= _NEARLY * fastest]
    chosen = min(nearly, key=lambda trial: trial.memory_mb)
    kwargs = {"batch_size": batch_size, "num_workers": chosen.num_workers, "threads": chosen.threads, **options}
    if chosen.prefetch_factor is not None:
        kwargs["prefetch_factor"] = chosen.prefetch_factor
    return Tuning(kwargs, chosen, tuple(trials))


def _settings(max_workers: int, cpus: int, threads_help: bool) -> Iterator[tuple[int, int]]:
    workers = [0, *(2**power for power in range(max_workers.bit_length()))]
    if max_workers not in workers:
        workers.append(max_workers)
    for count in workers:
        yield count, 0
        threads = cpus // max(count, 1)
        if threads_help and threads > 1:
            yield count, threads


def _try(
    dataset: Any,
    batch_size: int,
    workers: int,
    threads: int,
    prefetch: int,
    seconds: float,
    seed: int,
    options: dict[str, Any],
) -> Trial:
    before = set(multiprocessing.active_children())
    order = torch.Generator().manual_seed(seed)
    with keyed_globals(seed):
        start = time.perf_counter()
        loader = DataLoader(
            dataset,
            batch_size,
            sampler=RandomSampler(dataset, replacement=True, num_samples=_ENDLESS, generator=order),
            num_workers=workers,
            prefetch_factor=prefetch if workers else None,
            threads=threads,
            **options,
        )
        batches = iter(loader)
        batch = next(batches)
        first = time.perf_counter()
        count = 0
        # The first batches of each worker came while the others were still starting.
        for _ in range(workers):
            next(batches)
        measured = time.perf_counter()
        while count == 0 or time.perf_counter() - start < seconds:
            next(batches)
            count += 1
        end = time.perf_counter()
        in_flight = _bytes(batch) * max(1, workers * prefetch)
        private = sum(_private_bytes(child.pid) for child in set(multiprocessing.active_children()) - before)
        del batches, loader
        for part in image_datasets(dataset):
            part.end_threads()
    return Trial(
        workers,
        threads,
        prefetch if workers else None,
        count * batch_size / (end - measured),
        first - start,
        (in_flight + private) / 1e6,
    )


def _bytes(batch: Any) -> int:
    sizes: list[int] = []

    def weigh(part: Any) -> None:
        tensor = part.images if isinstance(part, DeferredImages) else part
        sizes.append(tensor.numel() * tensor.element_size())

    map_tensors(weigh, batch)
    return sum(sizes)


def _private_bytes(pid: int | None) -> int:
    with contextlib.suppress(ImportError):
        import psutil  # type: ignore[import-untyped,unused-ignore]

        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(pid).memory_full_info().uss)
    return 0


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
