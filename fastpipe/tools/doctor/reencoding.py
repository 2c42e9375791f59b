"""The gain of packed or smaller files: some are converted in memory and run through the real pipeline."""

from __future__ import annotations

import contextlib
import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from fastpipe import core, readers
from fastpipe.core.packed import pack
from fastpipe.datasets.base import ImageDataset
from fastpipe.errors import FastpipeError
from fastpipe.executor import BatchExecutor, SampleTask, Stage, StageTimes
from fastpipe.packing.smaller import Smaller
from fastpipe.rng import keyed_globals
from fastpipe.tools.doctor.measurements import Reencoding
from fastpipe.tools.recipes import resizes
from fastpipe.types import Header

_FILES = 12
_OVERSIZED = 3.0
_CROPS = 6


def try_reencoding(
    dataset: ImageDataset, indices: Sequence[int], output: tuple[int, int] | None, seconds: float
) -> list[Reencoding]:
    """Looks at sampled files of a dataset that decodes by plan, converts what could gain, and takes the times.

    `output` is height and width of a finished image, in pixels; `seconds` are for each kind, roughly.
    """
    files = {}
    for index in indices:
        with contextlib.suppress(FastpipeError, OSError):  # it was there when it was tried
            files[index] = readers.read_header(dataset.sample(index)[0])
    found: list[Reencoding | None] = []
    if output is not None:
        large = [i for i, h in files.items() if min(h.size) >= _OVERSIZED * max(output) and resizes(dataset, h)]
        side = 2 * max(output)  # crops of a part of it keep their detail
        smaller = Smaller(short_side=side)
        found.append(
            _reencoding(dataset, "oversized", large, files, lambda data: smaller.apply(data)[0], side, seconds)
        )
    if core.available():
        jpegs = [index for index, header in files.items() if header.format == "JPEG"]
        found.append(_reencoding(dataset, "packed", jpegs, files, pack, None, seconds))
    return [one for one in found if one is not None]


def _reencoding(
    dataset: ImageDataset,
    kind: str,
    indices: Sequence[int],
    files: Mapping[int, Header],
    change: Callable[[bytes], bytes],
    side: int | None,
    seconds: float,
) -> Reencoding | None:
    maker, deadline = _SampleMaker(dataset), time.perf_counter() + seconds
    pairs: list[tuple[int, bytes, bytes]] = []
    for index in indices[:_FILES]:
        if len(pairs) >= 2 and time.perf_counter() > deadline:
            break
        with contextlib.suppress(Exception):  # Pillow refuses to write it so, or a user's transform a smaller one
            data = _read(dataset, index)
            changed = change(data)
            maker.make(index, changed, 0)
            pairs.append((index, data, changed))
    if not pairs:
        return None
    concerned = set(indices)
    others = [(index, _read(dataset, index)) for index in files if index not in concerned][: len(pairs)]
    before, after, rest = _times(maker, pairs, [one for one in others if one[1]], deadline + seconds)
    return Reencoding(
        kind=kind,
        share=len(indices) / len(files),
        files=len(pairs),
        before_us=before,
        after_us=after,
        others_us=rest,
        bytes_factor=sum(len(data) for _, data, _ in pairs) / sum(len(changed) for *_, changed in pairs),
        short_side=side,
        typical_side=round(statistics.median(min(files[index].size) for index in concerned)),
    )


def _read(dataset: ImageDataset, index: int) -> bytes:
    """A sample's file; empty where it is gone."""
    try:
        return readers.read_file(dataset.sample(index)[0], None)
    except OSError:
        return b""


class _SampleMaker:
    """Makes a dataset's samples by its executor, of bytes in place of their files, and tells their stages' time."""

    def __init__(self, dataset: ImageDataset) -> None:
        self._dataset = copy.copy(dataset)  # which has an executor of its own
        self._dataset.on_error = "raise"
        self._executor: BatchExecutor = self._dataset.executor
        self._executor.times = self._times = StageTimes(1).row(0)
        self._tasks_of, self._executor.tasks_of = self._executor.tasks_of, self._tasks
        self._data = b""

    def _tasks(self, indices: Sequence[int], epoch: int | None) -> list[SampleTask]:
        tasks = self._tasks_of(indices, epoch)
        for task in tasks:
            task.source = self._data
        return tasks

    def make(self, index: int, data: bytes, seed: int) -> float:
        """Seconds that a sample's stages take, the crop and all else drawn by a seed."""
        self._data = data
        before = sum(self._times[Stage.READ :])
        with keyed_globals(seed):
            self._executor.run([index], None if self._dataset.seed is None else seed)
        return sum(self._times[Stage.READ :]) - before


def _times(
    maker: _SampleMaker,
    pairs: Sequence[tuple[int, bytes, bytes]],
    others: Sequence[tuple[int, bytes]],
    deadline: float,
) -> tuple[float, float, float]:
    """Microseconds an image: of files as they are, as they would be, and of others.

    All in turn, each file with a few crops, and of two times with the same crop the shorter: the shortest of different
    crops would be that of the smallest.
    """
    jobs = [(kind, index, data) for index, *pair in pairs for kind, data in enumerate(pair)]
    jobs += [(2, index, data) for index, data in others]
    taken: list[list[float]] = [[] for _ in range(3)]
    for crop in range(_CROPS):
        if crop and time.perf_counter() > deadline:
            break
        best = [float("inf")] * len(jobs)
        for order in (range(len(jobs)), reversed(range(len(jobs)))):
            for number in order:
                best[number] = min(best[number], maker.make(*jobs[number][1:], crop))
        for (kind, *_), seconds in zip(jobs, best, strict=True):
            taken[kind].append(seconds)
    before, after, rest = (1e6 * statistics.fmean(times) if times else 0.0 for times in taken)
    return before, after, rest
