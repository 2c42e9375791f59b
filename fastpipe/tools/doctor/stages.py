"""The stages of a sample's time: of the code that training runs, as `fastpipe.executor.StageTimes` has them."""

from __future__ import annotations

import contextlib
import copy
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastpipe import readers
from fastpipe.datasets.base import ImageDataset
from fastpipe.datasets.wrappers import image_datasets
from fastpipe.errors import DatasetError
from fastpipe.executor import BatchSpec, Stage, StageTimes
from fastpipe.executor.stage_times import Row
from fastpipe.explanation.foreign_loading import path_of
from fastpipe.loading.collate import batch_tensors, tensor_bytes
from fastpipe.loading.fetcher import batch_of
from fastpipe.rng import keyed_globals
from fastpipe.tools.doctor.measurements import FailedSample, StagePart, StageProfile
from fastpipe.tools.recipes import is_joint, name_of, planned_image
from fastpipe.tools.users_code import describe_error, users_line

_REST = "look-up and hand-over"
_DATASET = "your dataset"
_MOST_TRIED = 24  # images on which transforms are timed one by one
_GROUPS = {Stage.READ: "read", Stage.DRAW: "draw", Stage.CORE: "core", Stage.COLLATE: "collate"}


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
    """Makes batches as training does, and takes the time of their stages.

    Args:
        dataset, indices: samples that can be made.
        batch_size: of the training.
        options, collate: as the loader's.
        seconds: for all batches; at least one is made.
        guess_us: what a sample takes, roughly.
        most_bytes: that a batch may have; None for any number.
    """
    transforms: Counter[str] = Counter()  # nanoseconds of those that run one by one, of a dataset of the user's
    timed = timed_dataset(dataset, transforms)

    def samples_at(picked: Sequence[int]) -> Any:
        """What torch's fetcher collates."""
        if options is not None:
            return batch_of(timed, picked, options)
        several = getattr(timed, "__getitems__", None)
        return several(picked) if several else [timed[index] for index in picked]

    try:
        first = collate(samples_at(indices[:2]))
    except Exception as error:  # a user's collate_fn may raise anything
        raise DatasetError(
            f"samples {', '.join(map(str, indices[:2]))} can't be made a batch: {describe_error(error)}. Tensors of "
            "one size can: end the transform in a resize or crop and ToTensor."
        ) from error
    image_bytes = max(1, tensor_bytes(first) // min(2, len(indices)))
    size = min(batch_size, max(1, int(seconds * 1e6 / 8 / max(1.0, guess_us))))
    if most_bytes is not None:
        size = min(size, max(1, most_bytes // image_bytes))
    made_s = collated_s = 0.0
    images = 0
    transforms.clear()
    with _measured(dataset) as row:
        waited, cpu, own_cpu = _waited_ns(), time.process_time(), time.thread_time()
        start = time.perf_counter()
        while images == 0 or time.perf_counter() - start < seconds:
            picked = [indices[(images + k) % len(indices)] for k in range(size)]
            before = time.perf_counter()
            samples = samples_at(picked)
            made = time.perf_counter()
            batch = collate(samples)
            collated_s += time.perf_counter() - made
            made_s += made - before
            images += size
            del samples, batch  # outside the times: in training the main process frees it
        passed = time.perf_counter() - start
        cpu, own_cpu = time.process_time() - cpu, time.thread_time() - own_cpu
        waits = None if waited is None else (_waited_ns() or waited) - waited
        seconds_of = {group: row[stage] for stage, group in _GROUPS.items()}
    by_stages = bool(sum(seconds_of.values()))
    seconds_of["python"] = max(0.0, made_s - sum(seconds_of.values()))
    seconds_of["collate"] += collated_s
    us = {group: taken * 1e6 / images for group, taken in seconds_of.items() if taken}
    if isinstance(dataset, ImageDataset):
        transforms = _replayed(dataset, indices[:_MOST_TRIED], seconds / 4)
    else:
        transforms = Counter({name: ns // (1000 * images) for name, ns in transforms.items()})
    parts = _parts(us, transforms, _REST if by_stages else _DATASET)
    output = next(((one.shape[2], one.shape[3]) for one in batch_tensors(first) if one.ndim == 4), None)
    share = None if waits is None else min(1.0, waits / 1e9 / passed)
    others = max(0.0, 1 - own_cpu / max(cpu, 1e-9))
    return StageProfile(parts, images, image_bytes, output, share, others)


def _parts(us: dict[str, float], transforms: Counter[str], rest: str) -> tuple[StagePart, ...]:
    """The stages; of Python's what the transforms take that run one by one, as far as they were timed, and the rest."""
    python = us.pop("python", 0.0)
    fitting = min(1.0, python / max(sum(transforms.values()), 1e-9))  # timed apart: never more than all of it
    parts = [StagePart(group, group, taken) for group, taken in us.items()]
    parts += [StagePart(name, "transforms", fitting * taken) for name, taken in transforms.items()]
    left = python - fitting * sum(transforms.values())
    return (*parts, StagePart(rest, "python", left)) if left > 0 else tuple(parts)


@contextlib.contextmanager
def _measured(dataset: Any) -> Iterator[Row]:
    """Has the image datasets behind a dataset add the time of their stages to a row."""
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


def _replayed(dataset: ImageDataset, indices: Sequence[int], seconds: float) -> Counter[str]:
    """Microseconds an image of each transform that runs one by one on what the plan before it gives."""
    found: Counter[str] = Counter()
    rest = dataset.pipeline.rest if dataset.plans and not is_joint(dataset) else ()
    tried, start = 0, time.perf_counter()
    for index in indices if rest else ():
        path = path_of(dataset, index)
        if path is None or (tried and time.perf_counter() - start > seconds):
            break
        image = planned_image(dataset, index, readers.read_file(path, None), 0)
        with keyed_globals(0):
            for transform in rest:
                before = time.perf_counter_ns()
                image = transform(image)
                found[name_of(transform)] += time.perf_counter_ns() - before
        tried += 1
    return Counter({name: ns // (1000 * tried) for name, ns in found.items()})


def timed_dataset(dataset: Any, times: Counter[str]) -> Any:
    """A copy of a dataset that isn't fastpipe's, whose loader and transforms add their nanoseconds by their names.

    They are its attributes ``loader`` and ``transform``, as torchvision's datasets have them; a dataset of fastpipe's,
    and one that can't be copied or changed, is given back as it is.
    """
    if isinstance(dataset, ImageDataset) or hasattr(dataset, "__getitems__"):
        return dataset
    made = dataset
    with contextlib.suppress(Exception):  # whatever a class of the user's thinks of being copied and changed
        made = copy.copy(dataset)
        for name, wrap in (("loader", _timed_call), ("transform", _timed_transform)):
            if callable(getattr(dataset, name, None)) and name in vars(dataset):
                setattr(made, name, wrap(getattr(dataset, name), times))
    return made


class _Timed:
    """A callable that adds its time under a name; else it is the callable, for who looks at it."""

    def __init__(self, call: Callable[..., Any], name: str, times: Counter[str]) -> None:
        self._call, self._name, self._times = call, name, times

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        before = time.perf_counter_ns()
        try:
            return self._call(*arguments, **named)
        finally:
            self._times[self._name] += time.perf_counter_ns() - before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


def _timed_call(call: Callable[..., Any], times: Counter[str]) -> Callable[..., Any]:
    return _Timed(call, "loader", times)


def _timed_transform(transform: Any, times: Counter[str]) -> Callable[[Any], Any]:
    kind = type(transform)
    if kind.__name__ != "Compose" or not kind.__module__.startswith(("fastpipe.", "torchvision.transforms.")):
        return _Timed(transform, name_of(transform), times)
    members = [_Timed(member, name_of(member), times) for member in transform.transforms]

    def each(image: Any) -> Any:
        for member in members:
            image = member(image)
        return image

    return each


def _waited_ns() -> int | None:
    """Time that this process was ready and had no CPU, since its start; None where the system doesn't say."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):  # not Linux, or a kernel without these statistics
        return None
