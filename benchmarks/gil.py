"""What a loader on threads leaves of the interpreter to the training loop, and the training loop to it.

    python benchmarks/gil.py PATH [--threads 1] [--batch-size 64] [--seconds 4] [--rounds 5] [--json FILE]

PATH is a folder as ImageFolder takes it. A Python thread counts in a loop, the worst neighbour that the interpreter's
lock can have, while the main thread takes batches (RandomResizedCrop(224), flip, ToTensor, Normalize) as fast as they
come from `fastpipe.DataLoader(num_workers=0, threads=N)`. Each is measured alone and both together, in turns; a figure
is the median over the rounds. On a machine with other work, or whose cores share something, the shares say as much
about that as about the lock. So each round has two processes beside one another that count, too, without any lock
between them: what they keep is the machine's share, and what is kept of that is said beside.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import fastpipe
from fastpipe import transforms as T

STEPS = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5] * 3, [0.25] * 3)]
COUNT = "import time\nn = 0\nend = time.perf_counter() + {}\nwhile time.perf_counter() < end:\n    n += 1\nprint(n)"


class Counter:
    """A thread that counts."""

    def __init__(self) -> None:
        self.count = 0
        self._stop = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._started = time.perf_counter()

    def _run(self) -> None:
        while not self._stop:
            self.count += 1

    def rate(self) -> float:
        rate = self.count / (time.perf_counter() - self._started)
        self._stop = True
        self._thread.join()
        return rate


def endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def images_per_s(batches: Iterator[Any], seconds: float) -> float:
    start, images = time.perf_counter(), 0
    while (now := time.perf_counter()) - start < seconds:
        images += len(next(batches)[0])
    return images / (now - start)


def counted(processes: int, seconds: float) -> float:
    """How far each of some processes counts; the mean."""
    command = [sys.executable, "-c", COUNT.format(seconds)]
    at_once = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(processes)]
    return statistics.mean(int(process.communicate()[0]) for process in at_once)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dataset = fastpipe.ImageFolder(arguments.path, T.Compose(STEPS), seed=0)
    loader = fastpipe.DataLoader(dataset, arguments.batch_size, shuffle=True, threads=arguments.threads)
    batches = endless(loader)
    images_per_s(batches, 1.0)
    found: dict[str, list[float]] = {"count": [], "load": [], "count, both": [], "load, both": []}
    found |= {"processes": [], "processes, both": []}
    for _ in range(arguments.rounds):
        counter = Counter()
        time.sleep(arguments.seconds)  # the loader has made its batches ahead, and waits
        found["count"].append(counter.rate())
        found["load"].append(images_per_s(batches, arguments.seconds))
        counter = Counter()
        found["load, both"].append(images_per_s(batches, arguments.seconds))
        found["count, both"].append(counter.rate())
        found["processes"].append(counted(1, arguments.seconds))
        found["processes, both"].append(counted(2, arguments.seconds))
    shares = {
        kind: statistics.median(b / a for a, b in zip(found[kind], found[f"{kind}, both"], strict=True))
        for kind in ("count", "load", "processes")
    }
    machine = shares.pop("processes")
    print(
        f"images/s: {statistics.median(found['load']):.0f} alone, {statistics.median(found['load, both']):.0f} beside"
    )
    print(f"the counting thread keeps {shares['count']:.0%} of its speed, the loader {shares['load']:.0%} of its rate")
    print(
        f"two processes that count keep {machine:.0%} each; of that the counting thread keeps "
        f"{shares['count'] / machine:.0%}, the loader {shares['load'] / machine:.0%}"
    )
    if arguments.json:
        figures = {"shares": shares, "machine": machine, "threads": arguments.threads, "rounds": found}
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
