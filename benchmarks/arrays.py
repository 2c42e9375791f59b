"""Raw arrays from the page cache into batches, against torch's loader on np.load, in one run.

    python benchmarks/arrays.py [--megabytes 4] [--count 128] [--batch-size 16] [--rounds 5] [--json FILE]

`--count` arrays of float32, `--megabytes` each, in a temporary folder, are gone through once a round in random order,
by fastpipe.DataLoader on two threads, on one, and by torch's DataLoader with two workers whose dataset calls np.load.
Rounds are interleaved; a figure is the median over the rounds, a ratio the median of each round's ratio.

A busy thread: how many rounds of a loop in Python this process makes a second while one thread reads arrays, as a share
of what it makes alone. Meaningful where another core is free for the reader.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader as StockLoader
from torch.utils.data import Dataset

import fastpipe


class Loaded(Dataset[Any]):
    """What people write: np.load, and a tensor of it."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(np.load(self.paths[index])), 0


def epoch(loader: Any) -> float:
    """Bytes a second of one epoch."""
    start, bytes_ = time.perf_counter(), 0
    for arrays, _ in loader:
        bytes_ += arrays.nbytes
    return bytes_ / (time.perf_counter() - start)


def loops(seconds: float) -> float:
    """Rounds of a loop in Python, a second."""
    start, rounds, total = time.perf_counter(), 0, 0
    while (spent := time.perf_counter() - start) < seconds:
        for number in range(1000):
            total += number
        rounds += 1
    return rounds / spent


def beside_a_reader(dataset: Any, batch_size: int, seconds: float) -> float:
    """The loop's speed while a thread of this process reads batches, as a share of its speed alone."""
    alone = loops(seconds)
    ended = threading.Event()

    loader = fastpipe.DataLoader(dataset, batch_size, threads=1)

    def load() -> None:
        while not ended.is_set():
            for _ in loader:
                if ended.is_set():
                    return

    thread = threading.Thread(target=load)
    thread.start()
    time.sleep(0.2)
    beside = loops(seconds)
    ended.set()
    thread.join()
    return beside / alone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--count", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / f"{number:04}.npy") for number in range(arguments.count)]
        side = max(1, round((arguments.megabytes * 1e6 / 4 / 4) ** 0.5))
        for path in paths:
            np.save(path, np.zeros((4, side, side), np.float32))
        dataset = fastpipe.ArrayList((paths, [0] * len(paths)), seed=0)
        size = arguments.batch_size
        loaders = {
            "2 threads": fastpipe.DataLoader(dataset, size, shuffle=True, threads=2),
            "1 thread": fastpipe.DataLoader(dataset, size, shuffle=True, threads=1),
            "torch, 2 workers": StockLoader(Loaded(paths), size, shuffle=True, num_workers=2, persistent_workers=True),
        }
        rates: dict[str, list[float]] = {name: [] for name in loaders}
        for round_ in range(arguments.rounds + 1):
            for name in loaders if round_ % 2 else reversed(loaders):
                found = epoch(loaders[name])
                if round_:
                    rates[name].append(found)
        kept = statistics.median(beside_a_reader(dataset, size, 1.0) for _ in range(min(arguments.rounds, 3)))
    theirs = rates["torch, 2 workers"]
    figures: dict[str, Any] = {
        name: {
            "gb_per_s": round(statistics.median(found) / 1e9, 2),
            "of_torch": round(statistics.median(one / other for one, other in zip(found, theirs, strict=True)), 2),
        }
        for name, found in rates.items()
    }
    figures["busy_thread_keeps"] = round(kept, 2)
    table = Table("arrays into batches", "GB/s", "of torch's loader")
    for name in rates:
        table.add_row(name, f"{figures[name]['gb_per_s']:.2f}", f"{figures[name]['of_torch']:.1f}")
    Console().print(table)
    print(f"a busy Python thread keeps {kept:.0%} of its speed")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
