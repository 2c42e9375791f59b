"""Whole pipelines, from a file on disk to a tensor: fastpipe's beside torchvision's, on the same files.

In each round every contender gets one pass over the files, in turn, so that a machine that grows slower meanwhile does
so for all alike. One more round, untimed, comes first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from fastpipe.bench.measure import Timing, summarize
from fastpipe.bench.reference import import_torchvision
from fastpipe.config import MachineConfig

__all__ = [
    "CONTENDERS",
    "PIPELINES",
    "PipelineResult",
    "interleaved",
    "measure_pipelines",
    "one_thread",
    "pipelines",
    "speedup",
]

PIPELINES = ("train, uint8", "train, float", "evaluation, float")
"""RandomResizedCrop and flip, as bytes and as normalised floats; Resize, CenterCrop as normalised floats."""

CONTENDERS = ("fastpipe", "torchvision")

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_BATCH = 8
_BATCHES_A_WORKER = 4  # or the first batch, for which everybody waits, would be most of what is timed

_Key = TypeVar("_Key")
_Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What one contender took for one pipeline on the files of one format.

    Attributes:
        format: the config's key of the format.
        pipeline: one of `PIPELINES`.
        who: one of `CONTENDERS`.
        single: an image, in one process and one thread.
        workers: an image through torch's DataLoader with workers, from the outside: a second divided by the images
            that come in a second. None where it wasn't measured.
    """

    format: str
    pipeline: str
    who: str
    single: Timing
    workers: Timing | None = None


def pipelines(module: Any) -> dict[str, Any]:
    """The transforms of `PIPELINES`.

    Args:
        module: ``fastpipe.transforms`` or ``torchvision.transforms``.
    """
    train = [module.RandomResizedCrop(224), module.RandomHorizontalFlip()]
    tensor = [module.ToTensor(), module.Normalize(_MEAN, _STD)]
    chains = (
        [*train, module.PILToTensor()],
        [*train, *tensor],
        [module.Resize(256), module.CenterCrop(224), *tensor],
    )
    return {name: module.Compose(chain) for name, chain in zip(PIPELINES, chains, strict=True)}


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch and cv2, and torch's generator as it was afterwards."""
    import cv2
    import torch

    threads, cv2_threads = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
        cv2.setNumThreads(cv2_threads)


def interleaved(
    contenders: Mapping[_Key, Callable[[int], Any]],
    count: int,
    rounds: int,
    moved: Callable[[int, _Key], None] = lambda number, key: None,
) -> dict[_Key, list[float]]:
    """Times of one call, in microseconds: a figure a round for each contender.

    Each round seeds torch's generator alike for all; call it inside `one_thread`.

    Args:
        contenders: called with the places 0 to ``count - 1`` in each round.
        count: of calls in a round.
        rounds: timed ones; another comes first, untimed.
        moved: called with the round's number, 0 for the untimed one, and the contender whose turn it is.
    """
    import torch

    times: dict[_Key, list[float]] = {key: [] for key in contenders}
    for number in range(rounds + 1):
        for key, call in contenders.items():
            moved(number, key)
            torch.manual_seed(number)
            start = time.perf_counter_ns()
            for place in range(count):
                call(place)
            if number:
                times[key].append((time.perf_counter_ns() - start) / count / 1000)
    return times


def speedup(ours: Timing, theirs: Timing) -> Timing:
    """How many times as fast ours is, round by round. Its figures are ratios, whatever their names say."""
    return summarize([b / a for a, b in zip(ours.rounds_us, theirs.rounds_us, strict=True)])


def measure_pipelines(
    files: Mapping[str, Sequence[str]],
    config: MachineConfig,
    *,
    contenders: Sequence[str] = CONTENDERS,
    workers: int = 0,
    rounds: int = 7,
    progress: _Progress | None = None,
) -> tuple[PipelineResult, ...]:
    """Times every pipeline of every contender on the files of each format.

    Args:
        files: format to the paths of its files.
        config: the readers that fastpipe uses.
        contenders: of `CONTENDERS`.
        workers: DataLoader workers; 0 for none.
        rounds: timed rounds.
        progress: called with the steps done, all steps, and what comes next.

    Raises:
        FastpipeError: torchvision is asked for and doesn't load.
    """
    say = progress or (lambda done, total, what: None)
    keys = [(format, name, who) for format in files for name in PIPELINES for who in contenders]
    datasets = {key: _Pipeline(key[2], key[1], files[key[0]], config) for key in keys}
    passes = (rounds + 1) * len(keys) * (2 if workers else 1)
    done = 0

    def moved(number: int, key: tuple[str, str, str]) -> None:
        nonlocal done
        kind = f"round {number} of {rounds}" if number else "warming up"
        say(done, passes, f"{kind}: {key[2]}, {key[0]}, {key[1]}")
        done += 1

    single: dict[tuple[str, str, str], list[float]] = {}
    with one_thread():
        for format, paths in files.items():
            mine = {key: datasets[key].__getitem__ for key in keys if key[0] == format}
            single |= interleaved(mine, len(paths), rounds, moved)
        inside = _through_workers(datasets, workers, rounds, moved) if workers else {}
    say(passes, passes, "done")
    return tuple(
        PipelineResult(*key, summarize(single[key]), summarize(inside[key]) if key in inside else None) for key in keys
    )


class _Pipeline:
    """A map-style dataset, made in the process that first reads from it: torchvision may have to be helped to load."""

    def __init__(self, who: str, name: str, paths: Sequence[str], config: MachineConfig) -> None:
        self._plan = (who, name, list(paths), config)
        self._sample: Callable[[int], Any] | None = None

    def __len__(self) -> int:
        return len(self._plan[2])

    def __getitem__(self, index: int) -> Any:
        if self._sample is None:
            self._sample = _sample_function(*self._plan)
        return self._sample(index)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._plan


def _sample_function(who: str, name: str, paths: list[str], config: MachineConfig) -> Callable[[int], Any]:
    if who == "torchvision":
        torchvision = import_torchvision()
        transform = pipelines(torchvision.transforms)[name]
        load = torchvision.datasets.folder.default_loader
        return lambda index: (transform(load(paths[index])), 0)  # what its ImageFolder does

    from fastpipe import transforms
    from fastpipe.datasets import ImageList

    dataset = ImageList((paths, [0] * len(paths)), pipelines(transforms)[name], config=config)
    return dataset.__getitem__


class _Any:
    """One dataset of many: ``(key, index)`` → a sample. One loader, and its workers, serve them all."""

    def __init__(self, datasets: Mapping[Any, _Pipeline]) -> None:
        self.datasets = dict(datasets)

    def __getitem__(self, item: tuple[Any, int]) -> Any:
        key, index = item
        return self.datasets[key][index]


class _Turn:
    """A batch sampler that gives what it was last told."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[Any, int]]] = []

    def __iter__(self) -> Iterator[list[tuple[Any, int]]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


def _through_workers(
    datasets: Mapping[_Key, _Pipeline], workers: int, rounds: int, moved: Callable[[int, _Key], None]
) -> dict[_Key, list[float]]:
    import torch
    from torch.utils.data import DataLoader

    turn, loading = _Turn(), cast(Any, DataLoader)  # a dataset is what has __getitem__, whatever it inherits from
    loader = loading(
        _Any(datasets),
        batch_sampler=turn,
        num_workers=workers,
        persistent_workers=True,
        generator=torch.Generator(),  # else the workers' seed is taken from the global one
    )
    times: dict[_Key, list[float]] = {key: [] for key in datasets}
    for number in range(rounds + 1):
        for key, dataset in datasets.items():
            moved(number, key)
            images = max(len(dataset), workers * _BATCHES_A_WORKER * _BATCH)
            places = [(key, place % len(dataset)) for place in range(images)]
            turn.batches = [places[at : at + _BATCH] for at in range(0, images, _BATCH)]
            start = time.perf_counter_ns()
            for _ in loader:
                pass
            if number:
                times[key].append((time.perf_counter_ns() - start) / images / 1000)
    return times
