"""Whole pipelines, from a file on disk to a tensor: fastpipe's beside torchvision's, on the same files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from fastpipe.config import MachineConfig
from fastpipe.progress_bar import ProgressCallback, no_progress
from fastpipe.tools.timing import Timing, Workers, one_thread, seeded_pass, take_turns
from fastpipe.tools.torchvision_mirror import import_torchvision

PIPELINES = ("train, uint8", "train, float", "evaluation, float")
"""RandomResizedCrop and flip, as bytes and as normalised floats; Resize, CenterCrop as normalised floats."""

CONTENDERS = ("fastpipe", "torchvision")

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_BATCH = 8
_BATCHES_A_WORKER = 4  # or the first batch, for which everybody waits, would be most of what is timed


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """The times of one contender for one pipeline on the files of one format."""

    format: str  # the config's key of the format
    pipeline: str  # one of `PIPELINES`
    who: str  # one of `CONTENDERS`
    single: Timing  # an image, in one process and one thread
    # an image through torch's DataLoader with workers, from the outside: a second divided by the images that come in a
    # second. None where it wasn't measured.
    workers: Timing | None = None


def pipelines(module: Any) -> dict[str, Any]:
    """The transforms of `PIPELINES`, of ``fastpipe.transforms`` or ``torchvision.transforms``."""
    train = [module.RandomResizedCrop(224), module.RandomHorizontalFlip()]
    tensor = [module.ToTensor(), module.Normalize(_MEAN, _STD)]
    chains = ([*train, module.PILToTensor()], [*train, *tensor], [module.Resize(256), module.CenterCrop(224), *tensor])
    return {name: module.Compose(chain) for name, chain in zip(PIPELINES, chains, strict=True)}


def measure_pipelines(
    files: Mapping[str, Sequence[str]],
    config: MachineConfig,
    *,
    contenders: Sequence[str] = CONTENDERS,
    workers: int = 0,
    rounds: int = 7,
    progress: ProgressCallback = no_progress,
) -> tuple[PipelineResult, ...]:
    """Times every pipeline of every contender on the files of each format.

    Args:
        files: format to the paths of its files.
        config: the readers that fastpipe uses.
        contenders: of `CONTENDERS`.
        workers, rounds, progress: as in `fastpipe.tools.bench.measure.measure`.

    Raises:
        FastpipeError: torchvision is asked for and doesn't load.
    """
    keys = [(format, name, who) for format in files for name in PIPELINES for who in contenders]
    datasets = {key: _Pipeline(key[2], key[1], files[key[0]], config) for key in keys}
    passes = {(key, "single"): seeded_pass(datasets[key].__getitem__, len(datasets[key])) for key in keys}
    if workers:
        pool = Workers(datasets, workers)
        passes |= {
            (key, "workers"): partial(_through, pool, workers, key, len(dataset)) for key, dataset in datasets.items()
        }
    with one_thread():
        times = take_turns(passes, rounds, progress, lambda one: f"{one[0][2]}, {one[0][0]}, {one[0][1]}")
    return tuple(PipelineResult(*key, times[key, "single"], times.get((key, "workers"))) for key in keys)


def _through(pool: Workers, workers: int, key: Any, length: int, turn: int) -> float:
    """Microseconds an image of a pass through a DataLoader, from the outside."""
    images = max(length, workers * _BATCHES_A_WORKER * _BATCH)
    places = [place % length for place in range(images)]
    batches = [partial(_batch, key, places[at : at + _BATCH]) for at in range(0, images, _BATCH)]
    start = time.perf_counter_ns()
    for _ in pool.run(batches):
        pass
    return (time.perf_counter_ns() - start) / images / 1000


def _batch(key: Any, places: Sequence[int], datasets: Mapping[Any, _Pipeline]) -> Any:
    from torch.utils.data import default_collate

    return default_collate([datasets[key][place] for place in places])


@dataclass(frozen=True)
class _Pipeline:
    """A map-style dataset, made in the process that first reads from it: torchvision may have to be helped to load."""

    who: str  # one of `CONTENDERS`
    name: str  # one of `PIPELINES`
    paths: Sequence[str]
    config: MachineConfig

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self._sample(index)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Pipeline, (self.who, self.name, self.paths, self.config)  # without the dataset

    @cached_property
    def _sample(self) -> Callable[[int], Any]:
        if self.who == "torchvision":
            torchvision = import_torchvision()
            transform = pipelines(torchvision.transforms)[self.name]
            load = torchvision.datasets.folder.default_loader
            return lambda index: (transform(load(self.paths[index])), 0)  # what its ImageFolder does

        from fastpipe import transforms
        from fastpipe.datasets import ImageList

        files = (self.paths, [0] * len(self.paths))
        return ImageList(files, pipelines(transforms)[self.name], config=self.config).__getitem__
