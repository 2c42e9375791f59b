"""What a loader leaves of the training thread: steps a second beside it, against the same steps with cached batches.

    python benchmarks/neighbour.py PHOTOS [--seconds 4] [--rounds 5] [--busy 0.75] [--threads N] [--json FILE]

PHOTOS is a folder as ImageFolder takes it. The training thread launches many small operations of torch's, as a model of
many kernels does, for the share `--busy` of each step, and waits for the rest, as for a GPU. Each step takes one batch
(RandomResizedCrop(224), flip, ToTensor, Normalize). The supply is equal for all: a batch has so many images that the
steps need half of what one core makes by fastpipe. Loaders and cached batches take turns; a figure is the median of the
rounds' ratios. A loader that can't make so many images shows that, too: its steps wait for them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
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


def endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def steps_per_second(batches: Iterator[Any], operations: int, rest: float, seconds: float) -> float:
    for _ in range(3):
        next(batches)
    began, count = time.perf_counter(), 0
    while time.perf_counter() < began + seconds:
        next(batches)
        launch(operations, rest)
        count += 1
    return count / (time.perf_counter() - began)


def ways(photos: str, batch_size: int, threads: int) -> dict[str, Callable[[], Any]]:
    """Names of loaders, and what makes them."""
    import torchvision.datasets

    def ours(**options: Any) -> Callable[[], Any]:
        dataset = fastpipe.ImageFolder(photos, steps_of(T))
        return lambda: fastpipe.DataLoader(dataset, batch_size, shuffle=True, drop_last=True, **options)

    def torchs(dataset: Any, **options: Any) -> Callable[[], Any]:
        return lambda: torch.utils.data.DataLoader(dataset, batch_size, shuffle=True, drop_last=True, **options)

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

    found: dict[str, list[float]] = {}
    alone = []
    loaders = ways(options.photos, batch_size, options.threads)
    for _ in range(options.rounds):
        for name, make in loaders.items():
            before = steps_per_second(endless(cached), operations, rest, options.seconds)
            batches = endless(make())
            beside = steps_per_second(batches, operations, rest, options.seconds)
            batches.close()
            alone.append(before)
            found.setdefault(name, []).append(beside / before)
    table = Table(title=f"{batch_size} images a step, {options.busy:.0%} of it in Python: steps a second, of cached")
    table.add_column("loader")
    table.add_column("of cached", justify="right")
    for name, ratios in found.items():
        table.add_row(name, f"{statistics.median(ratios):.1%}")
    Console().print(table)
    print(f"cached: {statistics.median(alone):.1f} steps/s, {statistics.median(alone) * batch_size:.0f} images/s")
    if options.json is not None:
        options.json.write_text(json.dumps({"batch_size": batch_size, "cached": alone, "share": found}, indent=1))


if __name__ == "__main__":
    main()
