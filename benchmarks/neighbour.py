"""What a loader leaves of the training thread: steps a second beside it, against the same steps with cached batches.

    python benchmarks/neighbour.py PHOTOS [--seconds 4] [--rounds 5] [--busy 0.75] [--threads N] [--only WORD]
        [--json FILE]

PHOTOS is a folder as ImageFolder takes it. The training thread launches many small operations of torch's, as a model of
many kernels does, for the share `--busy` of each step, and waits for the rest, as for a GPU. Each step takes one batch
(RandomResizedCrop(224), flip, ToTensor, Normalize). The supply is equal for all: a batch has so many images that the
steps need half of what one core makes by fastpipe. Loaders and cached batches take turns; a figure is the median of the
rounds' ratios. A loader that can't make so many images shows that, too: its steps wait for them. An epoch has no end
here: the start of workers is in no figure.

Cores share caches, memory and, as hyperthreads, more than that: decoding on one slows down the other, whoever does it.
So there is a row for the same work in a process apart, which hands nothing over, at the pace of cached steps: no loader
can leave more, and the column "of apart" compares with that. "Here" is the processor time that all threads of the
training's process take for a step beyond that of a cached one.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import torch
from rich.console import Console
from rich.table import Table
from torchvision_here import module

import fastpipe
from fastpipe import transforms as T
from fastpipe.environment import usable_cpus

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
STEP_S = 0.02
APART = "the same work in a process apart, nothing handed over"


def steps_of(transforms: Any) -> Any:
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )


def launch(operations: int, seconds: float) -> None:
    """A step of training: small operations, each launched from Python, and a rest in which a GPU works."""
    value = torch.zeros(16)
    for _ in range(operations):
        value = value * 0.5 + 1.0
    time.sleep(seconds)


def calibrated(busy: float) -> int:
    """How many operations make a step's busy part."""
    launch(1000, 0)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        launch(2000, 0)
        took.append(time.perf_counter() - began)
    return max(1, int(2000 * busy * STEP_S / statistics.median(took)))


def measured(batches: Iterator[Any], operations: int, rest: float, seconds: float) -> tuple[float, float]:
    """Steps a second, and the seconds of processor time that this process takes for one."""
    for _ in range(3):
        next(batches)
    began, spent, count = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() < began + seconds:
        next(batches)
        launch(operations, rest)
        count += 1
    return count / (time.perf_counter() - began), (time.process_time() - spent) / count


def endless_order(dataset: Any) -> Any:
    return torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=1 << 40)


def _make_batches(photos: str, batch_size: int, period: float, ready: Any) -> None:
    """Makes batches for nobody, one in each period; runs in a process apart."""
    torch.set_num_threads(1)
    dataset = fastpipe.ImageFolder(photos, steps_of(T))
    due = time.perf_counter()
    for _ in fastpipe.DataLoader(dataset, batch_size, sampler=endless_order(dataset)):
        ready.set()
        due = max(due + period, time.perf_counter() - period)
        time.sleep(max(0.0, due - time.perf_counter()))


@contextlib.contextmanager
def apart(photos: str, batch_size: int, period: float, cached: list[Any]) -> Iterator[Iterator[Any]]:
    """Cached batches, beside a process that makes as many."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_make_batches, args=(photos, batch_size, period, ready), daemon=True)
    process.start()
    try:
        ready.wait()
        yield itertools.cycle(cached)
    finally:
        process.kill()
        process.join()


@contextlib.contextmanager
def running(make: Callable[[], Any]) -> Iterator[Iterator[Any]]:
    """Batches of a loader, which is gone afterwards."""
    batches = iter(make())
    yield batches
    del batches
    gc.collect()


def ways(photos: str, batch_size: int, threads: int) -> dict[str, Callable[[], Any]]:
    """Names of loaders, and what makes them."""
    import torchvision.datasets

    def ours(**options: Any) -> Callable[[], Any]:
        dataset = fastpipe.ImageFolder(photos, steps_of(T))
        return lambda: fastpipe.DataLoader(dataset, batch_size, sampler=endless_order(dataset), **options)

    def torchs(dataset: Any, **options: Any) -> Callable[[], Any]:
        return lambda: torch.utils.data.DataLoader(dataset, batch_size, sampler=endless_order(dataset), **options)

    theirs = torchvision.datasets.ImageFolder(photos, steps_of(module("torchvision.transforms")))
    return {
        "torchvision, torch's loader, 1 worker": torchs(theirs, num_workers=1),
        "fastpipe's dataset, torch's loader, 1 worker": torchs(
            fastpipe.ImageFolder(photos, steps_of(T)), num_workers=1
        ),
        "fastpipe, in the training thread": ours(),
        f"fastpipe, {threads} thread{'s' * (threads > 1)}, no worker": ours(threads=threads),
        "fastpipe, 1 worker": ours(num_workers=1),
        f"fastpipe, 1 worker with {threads} thread{'s' * (threads > 1)}": ours(num_workers=1, threads=threads),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", type=float, default=0.75, help="share of a step in which Python launches operations")
    parser.add_argument("--threads", type=int, default=max(1, usable_cpus() - 1))
    parser.add_argument("--only", default="", help="loaders in whose name this is")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    module("torchvision")
    operations, rest = calibrated(options.busy), STEP_S * (1 - options.busy)

    dataset = fastpipe.ImageFolder(options.photos, steps_of(T))
    began = time.perf_counter()
    made = sum(len(labels) for _, labels in fastpipe.DataLoader(dataset, 32, shuffle=True))
    rate = made / (time.perf_counter() - began)
    batch_size = max(1, round(rate / 2 * STEP_S))
    cached = [batch for batch, _ in zip(fastpipe.DataLoader(dataset, batch_size), range(4), strict=False)]
    period = 1 / measured(itertools.cycle(cached), operations, rest, options.seconds)[0]

    loaders: dict[str, Callable[[], AbstractContextManager[Iterator[Any]]]] = {
        APART: partial(apart, options.photos, batch_size, period, cached)
    }
    for name, make in ways(options.photos, batch_size, options.threads).items():
        if options.only in name:
            loaders[name] = partial(running, make)
    shares: dict[str, list[float]] = {name: [] for name in loaders}
    here: dict[str, list[float]] = {name: [] for name in loaders}
    alone = []
    for _ in range(options.rounds):
        for name, start in loaders.items():
            with start() as batches:
                beside, cost = measured(batches, operations, rest, options.seconds)
            rate, least = measured(itertools.cycle(cached), operations, rest, options.seconds)
            alone.append(rate)
            shares[name].append(beside / rate)
            here[name].append(cost - least)
    table = Table(title=f"{batch_size} images a step, {options.busy:.0%} of it in Python: steps a second")
    table.add_column("loader")
    for column in ("of cached", "of apart", "here, ms a step"):
        table.add_column(column, justify="right")
    for name, ratios in shares.items():
        of_apart = statistics.median(one / other for one, other in zip(ratios, shares[APART], strict=True))
        extra = statistics.median(here[name]) * 1e3
        table.add_row(name, f"{statistics.median(ratios):.1%}", f"{of_apart:.1%}", f"{extra:.2f}")
    Console().print(table)
    print(f"cached: {statistics.median(alone):.1f} steps/s, {statistics.median(alone) * batch_size:.0f} images/s")
    if options.json is not None:
        found = {"batch_size": batch_size, "cached": alone, "share": shares, "here_s": here}
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
