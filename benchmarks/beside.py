"""Compares the speed of two checkouts of fastpipe on the same photos.

    python benchmarks/beside.py OLD_CHECKOUT PHOTOS [--new NEW_CHECKOUT] [--processes 5] [--rounds 5]
                                [--only WORD] [--json FILE]

The new checkout is that of this script. PHOTOS is a folder as ImageFolder takes it (root/class/….jpg). These commands
make a checkout of an older commit:

    git worktree add --detach OLD_CHECKOUT COMMIT
    cmake -S OLD_CHECKOUT/fastpipe/core -B /tmp/old-core && cmake --build /tmp/old-core
    cp /tmp/old-core/libfastpipe_core.so OLD_CHECKOUT/fastpipe/core/

Each side is a separate process that waits while the other one works. Both are started several times, as the place of a
process's memory changes its speed by some 5%. A figure is the processor time of an image (including threads and
workers), the median over all rounds; the ratio, new to old, is the median of the rounds' ratios, with their quartiles.
`equal` says that both make the same bytes from the same seed. Without threads, the calling thread makes the batches;
crop is a random resized crop and a flip.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SAMPLES = 250  # the number of samples in a task of single samples
BATCH = 64


# -- a side: a process that answers each line with JSON


def _rows(photos: str) -> dict[str, tuple[int, Callable[[], Iterator[Any]]]]:
    """The tasks by name: the number of images, and a function that makes them."""
    import fastpipe
    from fastpipe import transforms as T

    crop = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
    jitter = [*crop[:2], T.ColorJitter(0.4, 0.4, 0.4, 0.1), *crop[2:]]
    augment = [*crop[:2], T.RandAugment(), *crop[2:]]
    rows: dict[str, tuple[int, Callable[[], Iterator[Any]]]] = {}
    for name, steps in (("crop", crop), ("ColorJitter", jitter), ("RandAugment", augment)):
        data = fastpipe.ImageFolder(photos, T.Compose(steps))
        rows[f"dataset[i], {name}"] = SAMPLES, partial(_samples, data)
        for how, batches, given in (
            ("no thread", 4, {}),
            ("1 thread", 8, {"threads": 1}),
            ("2 threads", 8, {"threads": 2}),
            ("2 workers", 32, {"num_workers": 2}),
        ):
            rows[f"{how}, {name}"] = batches * BATCH, partial(_batches, fastpipe, data, batches, given)
    return rows


def _samples(data: Any) -> Iterator[Any]:
    for index in range(SAMPLES):
        yield data[index % len(data)]


def _batches(fastpipe: Any, data: Any, batches: int, given: dict[str, Any]) -> Iterator[Any]:
    sampler = [index % len(data) for index in range(batches * BATCH)]
    yield from fastpipe.DataLoader(data, BATCH, sampler=sampler, **given)


def _processor_s() -> float:
    """Processor time of this process, and of workers that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def serve(photos: str) -> None:
    """Reads names of tasks from standard input, and runs them."""
    import torch

    torch.set_num_threads(1)
    rows = _rows(photos)
    print(json.dumps({name: count for name, (count, _) in rows.items()}), flush=True)
    for line in sys.stdin:
        what, name = json.loads(line)
        made = rows[name][1]
        torch.manual_seed(0)
        if what == "bytes":
            digest = hashlib.sha256()
            for images, _ in made():
                digest.update(images.numpy().tobytes())
            answer: Any = digest.hexdigest()
        else:
            start = _processor_s()
            for _ in made():
                pass
            answer = _processor_s() - start
        print(json.dumps(answer), flush=True)


# -- both


class Side:
    """A process that runs one checkout."""

    def __init__(self, checkout: Path, photos: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
        command = [sys.executable, __file__, "--serve", str(checkout), str(photos.resolve())]
        self._process: Any = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.rows: dict[str, int] = self._answer()

    def ask(self, what: str, name: str) -> Any:
        self._process.stdin.write(json.dumps([what, name]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> Any:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a checkout's process has ended; its message is above")
        return json.loads(line)


@dataclass
class Found:
    """A task's figures: both sides' times of an image for each pair of processes, and each round's ratio."""

    old_us: list[float] = field(default_factory=list)
    new_us: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    equal: bool = True


def measure(options: argparse.Namespace, found: dict[str, Found]) -> None:
    """Adds the times of one pair of processes, which take turns in random order."""
    sides = [Side(options.new, options.photos), Side(options.old, options.photos)]
    for name, count in sides[0].rows.items():
        if options.only not in name:
            continue
        row = found.setdefault(name, Found())
        row.equal &= sides[0].ask("bytes", name) == sides[1].ask("bytes", name)  # which also warms both up
        taken: list[list[float]] = [[], []]
        for _ in range(options.rounds):
            for side in random.sample((0, 1), 2):
                taken[side].append(sides[side].ask("time", name))
        row.new_us.append(statistics.median(taken[0]) / count * 1e6)
        row.old_us.append(statistics.median(taken[1]) / count * 1e6)
        row.ratios += [new / old for new, old in zip(*taken, strict=True)]
    for one in sides:
        one.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--new", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--processes", type=int, default=5, help="number of times that both sides are started (5)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds for each start (5)")
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(str(options.photos))
        return
    from rich.console import Console
    from rich.table import Table

    found: dict[str, Found] = {}
    for _ in range(options.processes):
        measure(options, found)
    table = Table("", "old, µs", "new, µs", "ratio", "quartiles", "equal")
    table.columns[0].no_wrap = True
    for name, row in found.items():
        low, ratio, high = statistics.quantiles(row.ratios) if len(row.ratios) > 1 else row.ratios * 3
        table.add_row(
            name.replace("[", r"\["),
            f"{statistics.median(row.old_us):,.0f}",
            f"{statistics.median(row.new_us):,.0f}",
            f"{ratio:.3f}",
            f"{low:.2f}–{high:.2f}",
            "yes" if row.equal else "NO",
        )
    Console().print(table)
    if options.json:
        tasks = [{"task": name, **asdict(row)} for name, row in found.items()]
        options.json.write_text(json.dumps({"schema": "fastpipe-beside/2", "tasks": tasks}, indent=1))


if __name__ == "__main__":
    main()
