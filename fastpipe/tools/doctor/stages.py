"""Measures a sample's time by stage in the code that training runs, with `fastpipe.executor.StageTimes`."""

from __future__ import annotations

import contextlib
import operator
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from torch.utils.data import Dataset

from fastpipe.datasets.wrappers import image_datasets
from fastpipe.errors import DatasetError
from fastpipe.executor import BatchSpec, Stage, StageTimes
from fastpipe.executor.stage_times import Row
from fastpipe.foreign_code import errors_as, outcome_of
from fastpipe.loading.collate import Collate, batch_tensors, tensor_bytes
from fastpipe.loading.fetcher import batch_of
from fastpipe.tools.doctor.measurements import STAGES, FailedSample, StageProfile
from fastpipe.tools.users_code import describe_error, users_line


@dataclass(frozen=True, slots=True)
class TriedSamples:
    """The result of making samples one by one."""

    good: list[int]  # indices of the samples that could be made
    bad: list[FailedSample]  # the samples that couldn't
    us: float  # mean microseconds of a good sample


def try_samples(dataset: Dataset[object], indices: Sequence[int], seconds: float) -> TriedSamples:
    """Makes samples one by one for some seconds, and at least until one succeeds; returns which can be made."""
    start = time.perf_counter()
    good: list[int] = []
    bad: list[FailedSample] = []
    taken = 0.0
    for index in indices:
        before = time.perf_counter()
        if good and before - start > seconds:
            break
        made = outcome_of(partial(operator.getitem, dataset, index))
        if isinstance(made, Exception):
            bad.append(FailedSample(index, describe_error(made), users_line(made)))
        else:
            good.append(index)
            taken += time.perf_counter() - before
    return TriedSamples(good, bad, taken / max(1, len(good)) * 1e6)


def time_stages(
    dataset: Dataset[object],
    indices: Sequence[int],
    batch_size: int,
    options: BatchSpec | None,
    collate: Collate,
    seconds: float,
    guess_us: float,
    most_bytes: int | None = None,
) -> StageProfile:
    """Makes batches of samples as training does, for some seconds, and times their stages.

    Args:
        options, collate: the loader's batch options and collate function.
        guess_us: approximate microseconds for a sample.
        most_bytes: the most bytes of a batch; None for no limit.
    """

    def samples_at(picked: Sequence[int]) -> object:
        """Makes the samples as torch's fetcher does for `collate`."""
        if options is not None:
            return batch_of(dataset, picked, options)
        several = getattr(dataset, "__getitems__", None)
        return several(picked) if several else [dataset[index] for index in picked]

    def not_a_batch(error: Exception) -> DatasetError:
        cure = "Tensors of one size can: end the transform in a resize or crop and ToTensor."
        if line := users_line(error):
            cure = f"Fix the code at {line}."
        which = ", ".join(map(str, indices[:2]))
        return DatasetError(f"samples {which} can't be made a batch: {describe_error(error)}. {cure}")

    with errors_as(not_a_batch):
        first = collate(samples_at(indices[:2]))
    image_bytes = max(1, tensor_bytes(first) // min(2, len(indices)))
    size = min(batch_size, max(1, int(seconds * 1e6 / 8 / max(1.0, guess_us))))
    if most_bytes is not None:
        size = min(size, max(1, most_bytes // image_bytes))
    made_s = collated_s = 0.0
    images = 0
    with _measured(dataset) as row:
        waited, cpu, own_cpu = _waited_ns(), time.process_time(), time.thread_time()
        start = time.perf_counter()
        while images == 0 or time.perf_counter() - start < seconds:
            picked = [indices[(images + k) % len(indices)] for k in range(size)]
            before = time.perf_counter()
            samples = samples_at(picked)
            finished = time.perf_counter()
            batch = collate(samples)
            collated_s += time.perf_counter() - finished
            made_s += finished - before
            images += size
            del samples, batch  # not timed, as in training the main process frees the batch
        passed = time.perf_counter() - start
        cpu, own_cpu = time.process_time() - cpu, time.thread_time() - own_cpu
        waits = None if waited is None else (_waited_ns() or waited) - waited
        taken = {stage.name.lower(): row[stage] for stage in Stage if stage is not Stage.IMAGES}
    taken["other"] = max(0.0, made_s - sum(taken.values()))
    taken["collate"] += collated_s
    us = {stage: taken[stage] * 1e6 / images for stage in STAGES if taken[stage]}
    output = next(((one.shape[2], one.shape[3]) for one in batch_tensors(first) if one.ndim == 4), None)
    share = None if waits is None else min(1.0, waits / 1e9 / passed)
    others = max(0.0, 1 - own_cpu / max(cpu, 1e-9))
    return StageProfile(us, images, image_bytes, output, share, others)


@contextlib.contextmanager
def _measured(dataset: object) -> Iterator[Row]:
    """Has the image datasets within a dataset add their stages' times to the yielded row."""
    row = StageTimes(1).row(0)
    parts = list(image_datasets(dataset))
    before = [part._fastpipe.times for part in parts]
    try:
        for part in parts:
            part._fastpipe.measure(row)
        yield row
    finally:
        for part, times in zip(parts, before, strict=True):
            part._fastpipe.measure(times)


def _waited_ns() -> int | None:
    """Nanoseconds since its start that this process waited for a CPU; None if the system doesn't report it."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):  # not Linux, or a kernel without these statistics
        return None
