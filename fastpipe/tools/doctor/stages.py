"""The stages of a sample's time: the real code of the dataset, timed between the marks that it sets."""

from __future__ import annotations

import contextlib
import copy
import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastpipe.datasets.base import ImageDataset
from fastpipe.errors import DatasetError
from fastpipe.executor import BatchSpec
from fastpipe.loading.collate import batch_tensors, tensor_bytes
from fastpipe.loading.fetcher import batch_of
from fastpipe.program import mark, profile
from fastpipe.tools.doctor.measurements import FailedSample, ProfiledPart, StageProfile
from fastpipe.tools.recipes import part_of
from fastpipe.tools.users_code import describe_error, users_line


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome of samples that were made one by one."""

    good: list[int]  # indices of those that could be made
    bad: list[FailedSample]  # the others
    us: float  # microseconds a good sample


def try_samples(dataset: Any, indices: Sequence[int], seconds: float) -> Tried:
    """Makes samples one by one, within some seconds but at least one good one, and says which can be made."""
    start = time.perf_counter()
    good: list[int] = []
    bad: list[FailedSample] = []
    taken = 0.0
    for index in indices:
        before = time.perf_counter()
        if good and before - start > seconds:
            break
        try:
            dataset[index]
        except Exception as error:  # a user's dataset or transform may raise anything
            bad.append(FailedSample(index, describe_error(error), users_line(error)))
        else:
            good.append(index)
            taken += time.perf_counter() - before
    return Tried(good, bad, taken / max(1, len(good)) * 1e6)


def time_stages(
    dataset: Any,
    indices: Sequence[int],
    batch_size: int,
    options: BatchSpec | None,
    collate: Callable[[Any], Any],
    seconds: float,
    guess_us: float,
    most_bytes: int | None = None,
) -> StageProfile:
    """Makes batches, with and without taking the time of their parts in turn.

    Args:
        dataset, indices: samples that can be made.
        batch_size: of the training.
        options, collate: as the loader's.
        seconds: for all batches; at least one batch of each kind is made.
        guess_us: what a sample takes, roughly.
        most_bytes: that a batch may have; None for any number.
    """

    def batch_from(dataset: Any, picked: Sequence[int]) -> Any:
        """A batch as torch's fetcher makes it."""
        if options is not None:
            return collate(batch_of(dataset, picked, replace(options, threads=0)))
        several = getattr(dataset, "__getitems__", None)
        return collate(several(picked) if several else [dataset[index] for index in picked])

    if isinstance(dataset, ImageDataset) and dataset.threads:  # in which marks would go unheard
        dataset = copy.copy(dataset)
        dataset.threads = 0
    timed = timed_dataset(dataset)
    try:
        first = batch_from(dataset, indices[:2])
    except Exception as error:  # a user's collate_fn may raise anything
        what = describe_error(error)
        raise DatasetError(
            f"samples {', '.join(map(str, indices[:2]))} can't be made a batch: {what}. Tensors of one size "
            "can: end the transform in a resize or crop and ToTensor."
        ) from error
    image_bytes = max(1, tensor_bytes(first) // min(2, len(indices)))
    size = min(batch_size, max(1, int(seconds * 1e6 / 16 / max(1.0, guess_us))))
    if most_bytes is not None:
        size = min(size, max(1, most_bytes // image_bytes))
    noted: list[tuple[int, object]] = []  # when something was done, and what; None begins anew

    def note(done: object) -> None:
        noted.append((time.perf_counter_ns(), done))

    plain_ns = images = number = 0
    waited, cpu, own_cpu = _waited_ns(), time.process_time(), time.thread_time()
    start = time.perf_counter()
    while number == 0 or time.perf_counter() - start < seconds:
        picked = [indices[(number * size + k) % len(indices)] for k in range(size)]
        for listening in (True, False) if number % 2 else (False, True):  # the second finds warmer caches
            if listening:
                with profile(note):
                    note(None)
                    batch = batch_from(timed, picked)
                    mark("collate")
            else:
                before = time.perf_counter_ns()
                batch = batch_from(dataset, picked)
                plain_ns += time.perf_counter_ns() - before
            del batch  # outside the times: in training the main process frees it
        images += size
        number += 1
    waits = None if waited is None else (_waited_ns() or waited) - waited
    share = None if waits is None else min(1.0, waits / 1e9 / (time.perf_counter() - start))
    cpu, own_cpu = time.process_time() - cpu, time.thread_time() - own_cpu
    sums: Counter[tuple[str, str]] = Counter()
    for (before, _), (after, done) in itertools.pairwise(noted):
        if done is not None:
            sums[part_of(done)] += after - before
    parts = [ProfiledPart(name, group, ns / 1000 / images) for (name, group), ns in sums.items()]
    output = next(((one.shape[2], one.shape[3]) for one in batch_tensors(first) if one.ndim == 4), None)
    others = max(0.0, 1 - own_cpu / max(cpu, 1e-9))
    return StageProfile(tuple(parts), images, plain_ns / 1000 / images, image_bytes, output, share, others)


def timed_dataset(dataset: Any) -> Any:
    """The dataset, with marks around what can be told apart: fastpipe's own datasets have them already.

    Of others the attributes ``loader`` and ``transform`` are wrapped, in a copy; torchvision's datasets use these.
    """
    if isinstance(dataset, ImageDataset):
        return dataset
    if hasattr(dataset, "__getitems__"):
        return _Marked(dataset)
    wrapped = dataset
    with contextlib.suppress(Exception):  # a dataset that can't be copied or changed is timed as one piece
        wrapped = copy.copy(dataset)
        for name, wrap in (
            ("loader", partial(_Timed, done="decode", before="look-up")),
            ("transform", _timed_transform),
        ):
            if callable(getattr(dataset, name, None)) and name in vars(dataset):
                setattr(wrapped, name, wrap(getattr(dataset, name)))
    return _Marked(wrapped)


class _Marked:
    """A dataset whose samples end in a mark."""

    def __init__(self, dataset: Any) -> None:
        self._sample = _Timed(dataset.__getitem__, "your dataset")
        if hasattr(dataset, "__getitems__"):
            self.__getitems__ = _Timed(dataset.__getitems__, "your dataset")

    def __getitem__(self, index: int) -> Any:
        return self._sample(index)


class _Timed:
    """A callable with a mark behind it, and maybe one before; else it is the callable, for who looks at it."""

    def __init__(self, call: Callable[..., Any], done: object, before: str | None = None) -> None:
        self._call, self._done, self._before = call, done, before

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self._before is not None:
            mark(self._before)
        made = self._call(*arguments, **named)
        mark(self._done)
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


def _timed_transform(transform: Any) -> Callable[[Any], Any]:
    kind = type(transform)
    if kind.__name__ != "Compose" or not kind.__module__.startswith(("fastpipe.", "torchvision.transforms.")):
        return _Timed(transform, transform)

    def each(image: Any) -> Any:
        mark("your dataset")
        for member in transform.transforms:
            image = member(image)
            mark(member)
        return image

    return each


def _waited_ns() -> int | None:
    """Time that this process was ready and had no CPU, since its start; None where the system doesn't say."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):  # not Linux, or a kernel without these statistics
        return None
