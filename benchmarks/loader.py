"""Batches from worker processes, against torchvision's ImageFolder in torch's DataLoader, in one run.

    python benchmarks/loader.py PATH [--workers 2] [--batch-size 32] [--repeat 4] [--rounds 5] [--json FILE]

PATH is a folder as ImageFolder takes it (root/class/….jpg). The transform is RandomResizedCrop(224), flip, ToTensor,
Normalize on both sides. An epoch goes through the files `--repeat` times in random order; it is timed from the request
of its first batch to its last batch, by persistent workers that are running already. Rounds are interleaved, so that
drift of the machine hits all alike. A figure is the median over the rounds, a ratio the median of each round's ratio.

    uint8          fastpipe.DataLoader whose workers send uint8 and leave normalising to the device. The device is
                   "meta", which takes no time: on a machine with a GPU the normalising is the GPU's work.
    uint8, here    the same with device="cpu": the main process normalises, in competition with the workers
    float32        fastpipe.DataLoader, normalised in the workers, as torchvision does it
    stock loader   fastpipe.ImageFolder in torch's DataLoader, float32
    threads, …     fastpipe.DataLoader without workers: as many threads of this process make batches ahead

Time to the first batch is measured once per round with the spawn method,
from making the loader to its first batch of float32; on threads there is nothing to spawn.

The gap between two epochs is the wait for an epoch's first batch, on threads and with a seed, in batches: how many of
the epoch's mean waits it takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import torch
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader as StockLoader
from torch.utils.data import RandomSampler
from torchvision_here import torchvision

import fastpipe
from fastpipe import transforms as T

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def recipe(module: Any) -> Any:
    return module.Compose(
        [
            module.RandomResizedCrop(224),
            module.RandomHorizontalFlip(),
            module.ToTensor(),
            module.Normalize(MEAN, STD),
        ]
    )


def epoch(loader: Any) -> float:
    start = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - start


def first_batch(make: Callable[[], Any]) -> float:
    start = time.perf_counter()
    iterator = iter(make())
    next(iterator)
    seconds = time.perf_counter() - start
    # To the end: a worker of torch's that was spawned, and is ended while its thread sends a batch, says "terminate
    # called without an active exception".
    for _ in iterator:
        pass
    return seconds


def gap(loader: Any, epochs: int) -> float:
    """The wait for an epoch's first batch, in mean waits for a batch; the median."""
    found = []
    for number in range(epochs + 1):
        waits, start = [], time.perf_counter()
        for _ in loader:
            waits.append(time.perf_counter() - start)
            start = time.perf_counter()
        if number:
            found.append(waits[0] / statistics.mean(waits))
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="a folder of images, one folder a class")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=4, help="how often an epoch goes through the files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    ours = fastpipe.ImageFolder(arguments.path, recipe(T))
    theirs = torchvision.datasets.ImageFolder(arguments.path, recipe(torchvision.transforms))
    count = len(ours) * arguments.repeat
    common: dict[str, Any] = {
        "batch_size": arguments.batch_size,
        "sampler": RandomSampler(range(len(ours)), num_samples=count),
        "num_workers": arguments.workers,
    }
    kept: dict[str, Any] = {**common, "persistent_workers": True}
    threaded = {**common, "num_workers": 0, "threads": arguments.workers}
    loaders = {
        "torchvision": StockLoader(theirs, **kept),
        "uint8": fastpipe.DataLoader(ours, device="meta", **kept),
        "uint8, here": fastpipe.DataLoader(ours, device="cpu", **kept),
        "float32": fastpipe.DataLoader(ours, **kept),
        "stock loader": StockLoader(ours, **kept),
        "threads, float32": fastpipe.DataLoader(ours, **threaded),
        "threads, uint8": fastpipe.DataLoader(ours, device="meta", **threaded),
    }
    times: dict[str, list[float]] = {name: [] for name in loaders}
    for round_ in range(arguments.rounds + 1):
        for name, loader in loaders.items():
            seconds = epoch(loader)
            if round_:  # the first, uncounted round starts the workers and warms the caches
                times[name].append(seconds)
    del loaders

    few = RandomSampler(range(len(ours)), num_samples=2 * arguments.workers * arguments.batch_size)
    spawned = {**common, "sampler": few, "multiprocessing_context": "spawn"}
    starts: dict[str, Callable[[], Any]] = {
        "torchvision": lambda: StockLoader(theirs, **spawned),
        "fastpipe": lambda: fastpipe.DataLoader(ours, **spawned),
        "fastpipe on threads": lambda: fastpipe.DataLoader(ours, **{**threaded, "sampler": few}),
    }
    firsts: dict[str, list[float]] = {name: [] for name in starts}
    for _ in range(min(arguments.rounds, 3)):
        for name, make in starts.items():
            firsts[name].append(first_batch(make))

    table = Table(
        title=f"{count} images, {arguments.workers} workers, batches of {arguments.batch_size} "
        f"(median of {arguments.rounds} rounds)"
    )
    for column in ("loader", "images/s", "to torchvision"):
        table.add_column(column, justify="left" if column == "loader" else "right")
    rows = []
    for name, seconds in times.items():
        ratio = statistics.median(b / a for a, b in zip(seconds, times["torchvision"], strict=True))
        rows.append({"loader": name, "images_per_s": count / statistics.median(seconds), "ratio": ratio})
        table.add_row(name, f"{rows[-1]['images_per_s']:.0f}", f"{ratio:.2f}×")
    console = Console()
    console.print(table)
    for name, seconds in firsts.items():
        console.print(f"first batch, spawn, {name}: {statistics.median(seconds):.2f} s")
    seeded = fastpipe.ImageFolder(arguments.path, recipe(T), seed=0)
    between = gap(
        fastpipe.DataLoader(seeded, arguments.batch_size, shuffle=True, threads=arguments.workers), arguments.rounds
    )
    console.print(f"gap between epochs on threads: {between:.2f} batches")
    if arguments.json:
        settings = {"workers": arguments.workers, "batch_size": arguments.batch_size}
        figures = {"rows": rows, "rounds": times, "first_batch_s": firsts, "gap": between, **settings}
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
