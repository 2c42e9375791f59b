"""How far one process on threads goes on many cores, and what memory loaders take, beside torchvision's.

    python benchmarks/scaling.py PATH [--batch-size 64] [--rounds 5] [--counts 2,8] [--json FILE]

PATH is a folder as ImageFolder takes it. The transform is RandomResizedCrop(224), flip, ToTensor, Normalize.

Of an image's time one part is Python's, which one thread does at a time: looking up paths, drawing, filling in jobs,
assembling batches. The core does the rest on any number of threads. Both are measured as CPU time, which other programs
on the machine hardly change: Python's as what the thread that makes batches takes outside of the core's calls. With N
cores a process then makes at most N / (Python + core) images a second, and never more than 1 / Python: that is the rate
to which threads carry, and beyond it several processes share the work (``num_workers``, each with threads).

Memory is the proportional set size of the process and its workers together, the most of it while an epoch runs, and
what is left above a process that has imported the same libraries: pages that processes share count once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import torch
from rich.console import Console
from rich.table import Table

import fastpipe
from fastpipe import core
from fastpipe import transforms as T
from fastpipe.executor import BatchSpec

CORES = (1, 2, 4, 16, 64)
STATS: tuple[list[float], list[float]] = ([0.5] * 3, [0.25] * 3)


def recipe(module: Any) -> Any:
    steps = [module.RandomResizedCrop(224), module.RandomHorizontalFlip(), module.ToTensor()]
    return module.Compose([*steps, module.Normalize(*STATS)])


class Clock:
    """CPU time of this thread within the core's calls."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for kind, name in ((core.Pool, "read"), (core.Pool, "run"), (core.Run, "wait")):
            setattr(kind, name, self.around(getattr(kind, name)))

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.thread_time()
            try:
                return call(*arguments, **named)
            finally:
                self.seconds += time.thread_time() - start

        return timed


def parts(dataset: Any, batch_size: int, options: BatchSpec, rounds: int) -> tuple[float, float]:
    """Microseconds of Python and of the core for an image; medians."""
    clock, found = Clock(), []
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0)).tolist()
    batches = [order[start : start + batch_size] for start in range(0, len(order) - batch_size + 1, batch_size)]
    for round_ in range(rounds + 1):
        dataset.set_epoch(round_)
        clock.seconds, thread, process = 0.0, time.thread_time(), time.process_time()
        for indices in batches:
            dataset.submit(indices, options).result()
        python = time.thread_time() - thread - clock.seconds
        whole = time.process_time() - process
        if round_:
            found.append((python, whole - python))
    images = batch_size * len(batches)
    python, by_core = (statistics.median(column) / images * 1e6 for column in zip(*found, strict=True))
    return python, by_core


def loaded(path: str, kind: str, count: int, batch_size: int) -> None:
    """A process of its own: an epoch, and its memory on the last line."""
    torch.set_num_threads(1)
    if kind == "torchvision":
        from torch.utils.data import DataLoader as StockLoader
        from torchvision_here import torchvision

        folder = torchvision.datasets.ImageFolder(path, recipe(torchvision.transforms))
        loader: Any = StockLoader(folder, batch_size, num_workers=count)
    else:
        chosen = {"num_workers": count} if kind == "workers" else {"threads": count}
        loader = fastpipe.DataLoader(fastpipe.ImageFolder(path, recipe(T)), batch_size, **chosen)
    before, most, over = memory(), [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            most[0] = max(most[0], memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(2):
        for _ in loader:
            pass
    over.set()
    watcher.join()
    print(most[0] - before)


def memory() -> float:
    """MB of this process and those that it started."""
    import psutil

    total, here = 0, psutil.Process()
    for process in (here, *here.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:  # it has ended
            continue
    return total / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--counts", default="2,8", help="threads or workers whose memory is measured")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        kind, count = arguments.memory_of.split(":")
        loaded(arguments.path, kind, int(count), arguments.batch_size)
        return
    torch.set_num_threads(1)
    console = Console(width=110)
    figures: dict[str, Any] = {"batch_size": arguments.batch_size, "memory_mb": {}}
    table = Table(title="one process on threads: images/s that so many cores allow")
    for column in ("batches", "Python, µs", "core, µs", *(f"{cores} cores" for cores in CORES), "at most"):
        table.add_column(column, justify="left" if column == "batches" else "right")
    seeded = fastpipe.ImageFolder(arguments.path, recipe(T), seed=0)
    for name, options in {"float32": BatchSpec(threads=1), "uint8": BatchSpec(defer=True, threads=1)}.items():
        python, by_core = parts(seeded, arguments.batch_size, options, arguments.rounds)
        rates = [min(1e6 * cores / (python + by_core), 1e6 / python) for cores in CORES]
        figures[name] = {"python_us": python, "core_us": by_core, "rates": dict(zip(CORES, rates, strict=True))}
        shown = (f"{number:.0f}" for number in (python, by_core, *rates, 1e6 / python))
        table.add_row(name, *shown)
    console.print(table)

    table = Table(title=f"memory beyond what is imported, MB, batches of {arguments.batch_size} as float32")
    for column in ("loader", *arguments.counts.split(",")):
        table.add_column(column, justify="left" if column == "loader" else "right")
    for kind, name in {
        "threads": "fastpipe, threads",
        "workers": "fastpipe, workers",
        "torchvision": "torchvision, workers",
    }.items():
        found = []
        for count in arguments.counts.split(","):
            command = [sys.executable, __file__, arguments.path, "--memory-of", f"{kind}:{count}"]
            command += ["--batch-size", str(arguments.batch_size)]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found.append(float(output.splitlines()[-1]))
        figures["memory_mb"][name] = dict(zip(arguments.counts.split(","), found, strict=True))
        table.add_row(name, *(f"{number:.0f}" for number in found))
    console.print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
