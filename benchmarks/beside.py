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
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from served import Served, serve

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


def serve_tasks(photos: str) -> None:
    """Runs the tasks that the benchmark asks for."""
    import torch

    torch.set_num_threads(1)
    rows = _rows(photos)

    def answer(what: str, name: str) -> Any:
        made = rows[name][1]
        torch.manual_seed(0)
        if what == "bytes":
            digest = hashlib.sha256()
            for images, _ in made():
                digest.update(images.numpy().tobytes())
            return digest.hexdigest()
        start = _processor_s()
        for _ in made():
            pass
        return _processor_s() - start

    serve({name: count for name, (count, _) in rows.items()}, answer)


# -- both


def side(checkout: Path, photos: Path) -> Served:
    """Starts a process that runs one checkout; it offers the tasks' numbers of images."""
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
    return Served([sys.executable, __file__, "--serve", str(checkout), str(photos.resolve())], environment)


@dataclass
class Found:
    """A task's figures: both sides' times of an image for each pair of processes, and each round's ratio."""

    old_us: list[float] = field(default_factory=list)
    new_us: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    equal: bool = True


def measure(options: argparse.Namespace, found: dict[str, Found]) -> None:
    """Adds the times of one pair of processes, which take turns in random order."""
    sides = [side(options.new, options.photos), side(options.old, options.photos)]
    for name, count in sides[0].offers.items():
        if options.only not in name:
            continue
        row = found.setdefault(name, Found())
        row.equal &= sides[0].ask("bytes", name) == sides[1].ask("bytes", name)  # which also warms both up
        taken: list[list[float]] = [[], []]
        for _ in range(options.rounds):
            for which in random.sample((0, 1), 2):
                taken[which].append(sides[which].ask("time", name))
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
        serve_tasks(str(options.photos))
        return
    from fastpipe.reporting.tables import ReportTable

    found: dict[str, Found] = {}
    for _ in range(options.processes):
        measure(options, found)
    columns = ["old, µs", "new, µs", "ratio", "quartiles", "equal"]
    table = ReportTable(["", *columns], columns)
    for name, row in found.items():
        low, ratio, high = statistics.quantiles(row.ratios) if len(row.ratios) > 1 else row.ratios * 3
        table.add_row(
            name,
            statistics.median(row.old_us),
            statistics.median(row.new_us),
            f"{ratio:.3f}",
            f"{low:.2f}–{high:.2f}",
            "yes" if row.equal else "NO",
        )
    print(table)
    if options.json:
        tasks = [{"task": name, **asdict(row)} for name, row in found.items()]
        options.json.write_text(json.dumps({"schema": "fastpipe-beside/2", "tasks": tasks}, indent=1))


if __name__ == "__main__":
    main()
