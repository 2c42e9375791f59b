"""Statistics of a loader: its rates, the training loop's wait for batches, and an image's time by stage."""

from __future__ import annotations

import math
import os
import socket
import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

from fastpipe.batch_size import samples_in
from fastpipe.datasets import BadFileCounts, ImageDataset
from fastpipe.datasets.indexed import IndexedDataset
from fastpipe.environment import busy_cpu_seconds, usable_cpus
from fastpipe.executor import Stage, StageTimes
from fastpipe.loading.ranks import rank_and_count
from fastpipe.sources import Cache, CachedSource

WINDOW_S = 60.0
_TOLERATED_WAIT_SHARE = 0.05
"""If waits take less than this share of the wall time, nothing is advised."""
_MOST_STARVED = 0.25
"""If fewer batches than this share were not ready, prefetching more wouldn't help."""


class LoaderStatistics(dict[str, Any]):
    """Statistics of a `fastpipe.DataLoader`, as a plain dict; ``str()`` of it is one line.

    Keys:
        epoch: the epoch's number; None if nothing counts epochs.
        this_epoch, last_minute: each a dict with

            - ``images``, ``batches``: numbers handed out
            - ``seconds``: wall time since the iteration, or the last minute, began
            - ``images_per_s``, ``batches_per_s``
            - ``wait_s``: the loop's wait for batches in seconds: ``total``, ``p50``, ``p95``, ``p99``
            - ``wait_share``: share of the wall time spent waiting
            - ``ready``: mean number of batches that were ready when one was requested
            - ``starved``: share of the requests for which no batch was ready

        first_batch_s: wait for the epoch's first batch, including the start of workers; it is part of ``wait_s``.
        image_us: time of an image by stage, in microseconds of the process or thread that makes batches: ``read``
            (files and headers), ``draw`` (random numbers, programs), ``core`` (waiting for the core), ``python`` (other
            readers, user's code), ``collate``. Empty for datasets that aren't fastpipe's.
        bad_files: ``skipped`` and ``replaced`` in this epoch, and ``total``.
        cache: ``hits``, ``misses`` and ``fetched_bytes`` of this epoch for a `fastpipe.Cache`, summed over all
            processes that share it; empty without a cache.
        workers, threads: the loader's numbers of workers and threads.
        cpus, idle_cpus: the CPUs that this process may use, and how many of the machine's CPUs were idle in this epoch;
            None if the system doesn't report it.
        rank, host: the rank and host of these statistics.
        ranks: with ``gather=True``, the statistics of all ranks in order; ``slowest``: the rank that waited longest for
            batches, as ``"rank 3 (host)"``.
    """

    @property
    def advice(self) -> str:
        """A sentence on what to do, if anything."""
        return _advice(self)

    def flat(self) -> dict[str, float]:
        """The numbers alone, under names such as ``"this_epoch/wait_s/p95"``, for loggers that take scalars."""
        return {name: float(value) for name, value in _flattened("", self) if not name.startswith("ranks")}

    def __str__(self) -> str:
        now = self["this_epoch"]
        wait = now["wait_s"]
        parts = [
            f"{now['images_per_s']:,.0f} images/s",
            f"{now['batches_per_s']:,.1f} batches/s",
            f"waits {now['wait_share']:.0%} of the time (p50 {_ms(wait['p50'])}, p95 {_ms(wait['p95'])}, "
            f"p99 {_ms(wait['p99'])})",
            f"{now['ready']:.1f} batches ready, none for {now['starved']:.0%}",
        ]
        if self["image_us"]:
            parts.append(", ".join(f"{stage} {value:,.0f} µs" for stage, value in self["image_us"].items()))
        if self["bad_files"]["total"]:
            parts.append(f"{self['bad_files']['total']} bad files")
        if self["cache"]:
            parts.append(f"{self['cache']['hits']:,} hits, {self['cache']['fetched_bytes'] / 1e6:,.0f} MB fetched")
        if "slowest" in self:
            parts.append(f"slowest: {self['slowest']}")
        epoch = "" if self["epoch"] is None else f"epoch {self['epoch']}: "
        return epoch + "; ".join(parts)


@dataclass
class LoaderMeter:
    """Measures the batches of one iteration as they are handed out, for `LoaderStatistics`."""

    epoch: int | None = None
    datasets: tuple[ImageDataset, ...] = ()  # the image datasets that the batches come from
    workers: int = 0
    # times of the stages in the processes or threads that make the batches; None for new ones, and without datasets
    times: StageTimes | None = None
    began: float = field(default_factory=time.perf_counter)
    ended: float | None = None
    # four numbers for each batch: its time of arrival, the wait for it, its number of images, and the number of batches
    # that were ready when it was requested
    rows: array[float] = field(default_factory=lambda: array("d"))
    busy_before: tuple[float, float] | None = field(default_factory=busy_cpu_seconds)

    def __post_init__(self) -> None:
        self.caches = {id(cache): (cache, cache.statistics()) for cache in _caches(self.datasets)}
        if not self.datasets:
            return
        self.times = self.times or StageTimes(max(self.workers, 1))
        self.times_before = self.times.total()
        if self.workers == 0:
            for dataset in self.datasets:
                dataset._fastpipe.measure(self.times.row(0))

    def note(self, asked: float, got: float, batch: object, collated: bool, ready: int) -> None:
        """Records a batch: the times of its request and arrival, and the number of batches ready at the request."""
        self.rows.extend((got, got - asked, samples_in(batch) if collated else 1, ready))

    def statistics(self, threads: int, bad_files: BadFileCounts) -> LoaderStatistics:
        end = time.perf_counter() if self.ended is None else self.ended
        # A copy, as another thread (Prometheus's) may call this, and an array can't grow while a view of it exists.
        rows = np.frombuffer(self.rows[:], np.float64).reshape(-1, 4)
        seconds = end - self.began
        cache = {"hits": 0, "misses": 0, "fetched_bytes": 0} if self.caches else {}
        for source, before in self.caches.values():
            after = source.statistics()
            for name in cache:
                cache[name] += getattr(after, name) - getattr(before, name)
        idle = None
        if self.busy_before is not None and (now := busy_cpu_seconds()) is not None and now[1] > self.busy_before[1]:
            busy, passed = now[0] - self.busy_before[0], now[1] - self.busy_before[1]
            idle = max(0.0, (os.cpu_count() or 1) - busy / passed)
        return LoaderStatistics(
            epoch=self.epoch,
            this_epoch=_window(seconds, rows),
            last_minute=_window(min(seconds, WINDOW_S), rows[rows[:, 0] >= end - WINDOW_S]),
            first_batch_s=float(rows[0, 1]) if len(rows) else 0.0,
            image_us={} if self.times is None else _by_stage(self.times.total() - self.times_before),
            bad_files={"skipped": bad_files.skipped, "replaced": bad_files.replaced, "total": bad_files.total},
            cache=cache,
            workers=self.workers,
            threads=threads,
            cpus=usable_cpus(),
            idle_cpus=idle,
            rank=rank_and_count()[0],
            host=socket.gethostname(),
        )


def gathered(own: LoaderStatistics) -> LoaderStatistics:
    """Adds the statistics of all ranks to this rank's; every rank has to call it."""
    ranks = [own] * rank_and_count()[1]
    if len(ranks) > 1:
        dist.all_gather_object(ranks, own)
    slowest = max(ranks, key=lambda one: one["this_epoch"]["wait_s"]["total"])
    return LoaderStatistics(own, ranks=ranks, slowest=f"rank {slowest['rank']} ({slowest['host']})")


def _window(seconds: float, rows: NDArray[np.float64]) -> dict[str, Any]:
    waits, ready, batches = rows[:, 1], rows[:, 3], len(rows)
    images = int(rows[:, 2].sum())
    p50, p95, p99 = np.percentile(waits, (50, 95, 99)).tolist() if batches else (0.0, 0.0, 0.0)
    total = float(waits.sum())
    return {
        "images": images,
        "batches": batches,
        "seconds": seconds,
        "images_per_s": images / seconds if seconds else 0.0,
        "batches_per_s": batches / seconds if seconds else 0.0,
        "wait_s": {"total": total, "p50": p50, "p95": p95, "p99": p99},
        "wait_share": min(1.0, total / seconds) if seconds else 0.0,
        "ready": float(ready.mean()) if batches else 0.0,
        "starved": float((ready == 0).mean()) if batches else 0.0,
    }


def _by_stage(row: NDArray[np.float64]) -> dict[str, float]:
    images = row[Stage.IMAGES]
    return {one.name.lower(): float(row[one] / images * 1e6) for one in Stage if one is not Stage.IMAGES and images}


def _caches(datasets: tuple[ImageDataset, ...]) -> Iterator[Cache]:
    for dataset in datasets:
        index = dataset._fastpipe_index if isinstance(dataset, IndexedDataset) else None
        if index is not None and isinstance(index.source, CachedSource):
            yield index.source.cache


def _advice(now: Mapping[str, Any]) -> str:
    epoch = now["this_epoch"]
    if not epoch["batches"]:
        return "No batch was handed out yet."
    share, first = epoch["wait_share"], now["first_batch_s"]
    if share < _TOLERATED_WAIT_SHARE:
        return f"The training waits {share:.0%} of the time: images aren't what holds it up."
    waits = f"The training waits {share:.0%} of the time"
    if first > epoch["wait_s"]["total"] / 2 and epoch["batches"] > 1:
        keeps = ": persistent_workers=True keeps workers from epoch to epoch" if now["workers"] else ""
        return f"{waits}, most of it for the epoch's first batch ({_duration(first)}){keeps}."
    threads = max(now["threads"], 0)
    makers = max(now["workers"], 1) * max(threads, 1)
    what = "thread" if threads else "worker"
    needed = max(1, math.ceil(makers * share / max(1 - share, 0.1)))
    idle = now["idle_cpus"]
    if not now["workers"] and not threads:
        return f'{waits}, since batches are made within it: threads="auto" makes them ahead.'
    wait = epoch["wait_s"]
    if epoch["starved"] < _MOST_STARVED and wait["p50"] * epoch["batches"] > wait["total"] / 2:
        own = threads and not now["workers"]
        cure = "; num_workers=1 with threads makes them in a process of its own" if own else ""
        return f"{waits}, though batches are ready: what delays them is in this process (Python's lock, pinning){cure}."
    python, whole = now["image_us"].get("python", 0.0), sum(now["image_us"].values())
    if whole and python > whole / 2:
        waits += f", and an image spends {python / whole:.0%} of its time in Python (fastpipe.explain shows where)"
    if idle is not None and idle < 0.5:
        return (
            f"{waits}, and no core is idle: give it fewer pixels to decode (smaller files, a lighter transform), or "
            "more cores."
        )
    there = "" if idle is None else f", {_cores(idle)} idle"
    enough = idle is None or needed <= idle + 0.5
    more = needed if enough else max(1, round(idle or 1))
    does = "would do" if enough else "would help, and not suffice"
    return f"{waits}: {more} more {what}{'s' * (more > 1)} {does}{there}."


def _cores(idle: float) -> str:
    count = max(1, round(idle))
    return "1 core is" if count == 1 else f"{count} cores are"


def _flattened(name: str, value: object) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flattened(f"{name}/{key}" if name else str(key), part)
    elif isinstance(value, (int, float)):
        yield name, value


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else _ms(seconds)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
