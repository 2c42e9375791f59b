"""Batches from worker processes, against torchvision's ImageFolder in torch's DataLoader, in one run.

    python benchmarks/loader.py PHOTOS [--workers 2] [--batch-size 32] [--repeat 4] [--rounds 5] [--json FILE]

PHOTOS is a folder as ImageFolder takes it (root/class/….jpg). The transform is RandomResizedCrop(224), flip, ToTensor,
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

import statistics
import time
from collections.abc import Callable
from typing import Any

from harness import Benchmark, command_line, torchvision, training
from torch.utils.data import DataLoader as StockLoader
from torch.utils.data import RandomSampler

import fastpipe
from fastpipe import transforms as T
from fastpipe.tools.timing import summarize


def first_batch_us(make: Callable[[], Any]) -> float:
    """Microseconds from making a loader to its first batch."""
    start = time.perf_counter()
    iterator = iter(make())
    next(iterator)
    seconds = time.perf_counter() - start
    # To the end: a worker of torch's that was spawned, and is ended while its thread sends a batch, says "terminate
    # called without an active exception".
    for _ in iterator:
        pass
    return seconds * 1e6


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
    parser = command_line(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=4, help="how often an epoch goes through the files")
    bench = Benchmark(parser.parse_args(), "loaders")
    options = bench.options
    ours = fastpipe.ImageFolder(options.photos, training(T))
    theirs = torchvision.datasets.ImageFolder(options.photos, training(torchvision.transforms))
    count = len(ours) * options.repeat
    common: dict[str, Any] = {
        "batch_size": options.batch_size,
        "sampler": RandomSampler(range(len(ours)), num_samples=count),
        "num_workers": options.workers,
    }
    kept: dict[str, Any] = {**common, "persistent_workers": True}
    threaded = {**common, "num_workers": 0, "threads": options.workers}
    loaders = {
        "torchvision": StockLoader(theirs, **kept),
        "uint8": fastpipe.DataLoader(ours, device="meta", **kept),
        "uint8, here": fastpipe.DataLoader(ours, device="cpu", **kept),
        "float32": fastpipe.DataLoader(ours, **kept),
        "stock loader": StockLoader(ours, **kept),
        "threads, float32": fastpipe.DataLoader(ours, **threaded),
        "threads, uint8": fastpipe.DataLoader(ours, device="meta", **threaded),
    }
    passes = {who: (lambda loader=loader: loader) for who, loader in loaders.items()}
    bench.row("epoch", passes, count, equal=(), clock=time.perf_counter)
    del loaders, passes

    few = RandomSampler(range(len(ours)), num_samples=2 * options.workers * options.batch_size)
    spawned = {**common, "sampler": few, "multiprocessing_context": "spawn"}
    starts: dict[str, Callable[[], Any]] = {
        "torchvision": lambda: StockLoader(theirs, **spawned),
        "fastpipe": lambda: fastpipe.DataLoader(ours, **spawned),
        "fastpipe on threads": lambda: fastpipe.DataLoader(ours, **{**threaded, "sampler": few}),
    }
    between = None
    if bench.wants("first batch"):
        rounds = range(min(options.rounds, 3))
        taken = [{who: first_batch_us(make) for who, make in starts.items()} for _ in rounds]
        timings = {who: summarize([one[who] for one in taken]) for who in starts}
        bench.add("first batch: of spawned workers", timings, None)
    if bench.wants("gap"):
        seeded = fastpipe.ImageFolder(options.photos, training(T), seed=0)
        loader = fastpipe.DataLoader(seeded, options.batch_size, shuffle=True, threads=options.workers)
        between = gap(loader, options.rounds)
        print(f"gap between epochs on threads: {between:.2f} batches")
    bench.finish(gap=between, workers=options.workers, batch_size=options.batch_size)


if __name__ == "__main__":
    main()
