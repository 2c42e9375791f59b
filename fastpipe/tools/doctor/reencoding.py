"""Measures the gain of packed or smaller files: converts some in memory, and runs them through the real pipeline."""

from __future__ import annotations

import contextlib
import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from fastpipe import core, readers
from fastpipe.core.packed import pack
from fastpipe.datasets.base import ImageDataset
from fastpipe.errors import FastpipeError
from fastpipe.executor import BatchExecutor, SampleTask
from fastpipe.packing.smaller import Smaller
from fastpipe.rng import keyed_globals
from fastpipe.tools.doctor.measurements import Reencoding
from fastpipe.tools.recipes import resizes
from fastpipe.tools.timing import take_turns
from fastpipe.types import Header

_FILES = 12
_OVERSIZED = 3.0
_CROPS = 6


def try_reencoding(
    dataset: ImageDataset, indices: Sequence[int], output: tuple[int, int] | None, seconds: float
) -> list[Reencoding]:
    """Converts those of the sampled files of a planned dataset that could gain, and times both versions.

    `output` is height and width of a finished image, in pixels; `seconds` is the approximate time for each kind.
    """
    files = {}
    for index in indices:
        with contextlib.suppress(FastpipeError, OSError):  # the file may have changed since it was tried
            files[index] = readers.read_header(dataset.sample(index)[0])
    reencodings: list[Reencoding | None] = []
    if output is not None:
        large = [i for i, h in files.items() if min(h.size) >= _OVERSIZED * max(output) and resizes(dataset, h)]
        side = 2 * max(output)  # so that crops of a part keep their detail
        smaller = Smaller(short_side=side)
        reencodings.append(
            _reencoding(dataset, "oversized", large, files, lambda data: smaller.apply(data)[0], side, seconds)
        )
    if core.available():
        jpegs = [index for index, header in files.items() if header.format == "JPEG"]
        reencodings.append(_reencoding(dataset, "packed", jpegs, files, pack, None, seconds))
    return [one for one in reencodings if one is not None]


def _reencoding(
    dataset: ImageDataset,
    kind: str,
    indices: Sequence[int],
    files: Mapping[int, Header],
    change: Callable[[bytes], bytes],
    side: int | None,
    seconds: float,
) -> Reencoding | None:
    maker, deadline, made_s = _SampleMaker(dataset), time.perf_counter() + seconds, 0.0
    before: list[tuple[int, bytes]] = []
    after: list[tuple[int, bytes]] = []
    for index in indices[:_FILES]:
        if len(before) >= 2 and time.perf_counter() > deadline:
            break
        with contextlib.suppress(Exception):  # Pillow can't write it, or the user's transform refuses a smaller image
            data = readers.read_file(dataset.sample(index)[0], None)
            changed = change(data)
            made_s += maker.make(index, data, 0) + maker.make(index, changed, 0)
            before.append((index, data))
            after.append((index, changed))
    if not before:
        return None
    concerned = set(indices)
    others: list[tuple[int, bytes]] = []
    for index in [one for one in files if one not in concerned][: len(before)]:
        with contextlib.suppress(OSError):  # the file may be gone since it was tried
            others.append((index, readers.read_file(dataset.sample(index)[0], None)))
    passes = {"before": before, "after": after, "others": others}
    times = take_turns(
        {name: partial(maker.mean_us, some) for name, some in passes.items() if some},
        max(1, min(_CROPS, int(seconds / made_s))),
    )
    return Reencoding(
        kind=kind,
        share=len(indices) / len(files),
        files=len(before),
        before_us=times["before"].median_us,
        after_us=times["after"].median_us,
        others_us=times["others"].median_us if others else 0.0,
        bytes_factor=sum(len(data) for _, data in before) / sum(len(data) for _, data in after),
        short_side=side,
        typical_side=round(statistics.median(min(files[index].size) for index in indices)),
    )


class _SampleMaker:
    """Makes a dataset's samples with its executor, from bytes in place of their files, and takes the time."""

    def __init__(self, dataset: ImageDataset) -> None:
        self._dataset = copy.copy(dataset)
        self._dataset.on_error = "raise"
        given = self._dataset.executor
        self._tasks_of = given.tasks_of
        self._executor = BatchExecutor(self._tasks, given.stages, given.threads)
        self._data = b""

    def _tasks(self, indices: Sequence[int], epoch: int | None) -> list[SampleTask]:
        tasks = self._tasks_of(indices, epoch)
        for task in tasks:
            task.source = self._data
        return tasks

    def make(self, index: int, data: bytes, seed: int) -> float:
        """Makes a sample with random numbers from a seed; returns the seconds that it takes."""
        self._data = data
        with keyed_globals(seed):
            start = time.perf_counter()
            self._executor.run([index], None if self._dataset.seed is None else seed)
            return time.perf_counter() - start

    def mean_us(self, files: Sequence[tuple[int, bytes]], turn: int) -> float:
        """Mean microseconds an image over some files; all are seeded by the turn's number, so that crops are alike."""
        return statistics.fmean(self.make(index, data, turn) for index, data in files) * 1e6
