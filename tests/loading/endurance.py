"""Many epochs over files of which some are bad in every way, by worker processes, with an account of every sample.

    python tests/loading/endurance.py [--files 6000] [--epochs 24] [--workers 4] [--bad 0.01] [--json FILE]

Makes JPEGs, indexes them, then spoils a share of them: truncated, empty, text under an image's name, deleted,
unreadable, mangled. For each of on_error="skip" and "replace" it runs the epochs through fastpipe.DataLoader with
persistent workers and holds it to this:

    once        every good sample is delivered exactly once an epoch (with "replace": and in place of bad ones besides)
    accounted   every bad one is counted each epoch and listed once in the log; one warning an epoch
    class       a replacement is a good sample of the bad one's class, and the same one when it is asked for again
    pixels      20 samples of every epoch, chosen at random, are those that the dataset gives alone, without workers
    memory      the memory of all processes together, and open files, don't grow: the median of the last quarter of the
                epochs is at most 2% above that of the second quarter. Counted are anonymous pages and shared memory,
                swapped out or not, those of several processes once. Pages of the libraries' files aren't: which
                process they count for depends on what else runs on the machine. (Elsewhere than on Linux: USS.)

Exit status 1 where a promise is broken.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import random
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import bad_files
import numpy as np
import psutil
import torch
from rich.console import Console
from rich.table import Table

import fastpipe
from fastpipe import transforms as T
from fastpipe.datasets.bad_files import same_target
from fastpipe.errors import FastpipeWarning

SIDE = 128
GROWTH = 1.02
CLASSES = 10
PROMISES = ("once", "accounted", "class", "pixels", "memory")


class Numbered(fastpipe.ImageFolder):
    """Targets are the samples' numbers, so that each can be told when it comes out of the loader."""

    def sample(self, index: int) -> tuple[str, int]:
        return super().sample(index)[0], index

    def alternatives(self, index: int, generator: np.random.Generator) -> Iterator[int]:
        assert self.index is not None
        labels = self.index.labels
        return same_target(len(self), index, generator, labels, labels.__getitem__)


def transform() -> T.Compose:
    return T.Compose(
        [T.RandomResizedCrop(SIDE), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.485] * 3, [0.229] * 3)]
    )


def make_corpus(root: Path, arguments: argparse.Namespace) -> tuple[fastpipe.ImageIndex, dict[int, str]]:
    """The index, and what is wrong with which of its files."""
    bad_files.write_photos(root, arguments.files, CLASSES, (arguments.height, arguments.height * 4 // 3), kinds=64)
    index = fastpipe.ImageIndex.from_folder(root, location=None)
    count = max(round(arguments.files * arguments.bad), len(bad_files.KINDS))
    chosen = sorted(random.Random(1).sample(range(arguments.files), count))
    bad = {number: bad_files.KINDS[at % len(bad_files.KINDS)] for at, number in enumerate(chosen)}
    for number, kind in bad.items():
        bad_files.spoil(index.path(number), kind)
    return index, bad


def memory_mb(process: psutil.Process) -> float:
    """The memory of a process that no file holds, with its share of what it shares with others."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    except FileNotFoundError:
        return float(process.memory_full_info().uss) / 1e6
    kib = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
    return (kib["Pss_Anon"] + kib["Pss_Shmem"] + kib["SwapPss"]) * 1024 / 1e6


def open_files(processes: Sequence[psutil.Process]) -> int:
    return sum(process.num_fds() if hasattr(process, "num_fds") else process.num_handles() for process in processes)


def listed(log: Path) -> list[int]:
    with open(log, newline="", encoding="utf-8") as file:
        return sorted(int(row["index"]) for row in csv.DictReader(file))


def flat(figures: Sequence[float]) -> bool:
    """True if the last quarter is as high as the second, in which everything has been used once."""
    quarter = max(len(figures) // 4, 1)
    early, late = figures[quarter : 2 * quarter] or figures[:1], figures[-quarter:]
    return statistics.median(late) <= GROWTH * statistics.median(early)


def run(index: fastpipe.ImageIndex, bad: dict[int, str], policy: str, log: Path, arguments: argparse.Namespace) -> Any:
    """All epochs under a policy: what each was like, and which promises were kept."""
    options: dict[str, Any] = {"index": index, "seed": 0, "bad_files_log": log, "max_bad_fraction": 0.5}
    dataset = Numbered(index.root, transform(), on_error=policy, **options)
    alone = Numbered(index.root, transform(), **options)
    good = [number for number in range(len(dataset)) if number not in bad]
    classes_of_bad = Counter(index.labels[list(bad)].tolist())
    before = set(multiprocessing.active_children())
    loader = fastpipe.DataLoader(
        dataset,
        arguments.batch_size,
        shuffle=True,
        num_workers=arguments.workers,
        persistent_workers=arguments.workers > 0,
    )
    kept = dict.fromkeys(PROMISES, True)
    epochs: list[dict[str, Any]] = []
    processes = [psutil.Process()]
    for epoch in range(arguments.epochs):
        loader.set_epoch(epoch)
        alone.set_epoch(epoch)
        to_compare = set(random.Random(epoch).sample(good, min(20, len(good))))
        seen: Counter[int] = Counter()
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("ignore")  # torch's of many workers, and Python's of a fork beside threads
            warnings.simplefilter("always", FastpipeWarning)
            for images, numbers in loader:
                delivered = numbers.tolist()
                seen.update(delivered)
                for image, number in zip(images, delivered, strict=True):
                    if number in to_compare and torch.equal(image, alone[number][0]):
                        to_compare.remove(number)
        seconds = time.perf_counter() - started
        counts = loader.bad_files
        in_place = seen - Counter(good)
        kept["once"] &= seen - in_place == Counter(good) and sum(in_place.values()) == counts.replaced
        kept["pixels"] &= not to_compare
        kept["accounted"] &= counts.total == counts.skipped + counts.replaced == len(bad)
        kept["accounted"] &= listed(log) == sorted(bad) and [one.category for one in told] == [FastpipeWarning]
        if policy == "replace":
            kept["class"] &= Counter(index.labels[list(in_place.elements())].tolist()) == classes_of_bad
            kept["class"] &= in_place == Counter(dataset[number][1] for number in bad)
        if len(processes) == 1:
            workers = set(multiprocessing.active_children()) - before
            processes += [psutil.Process(worker.pid) for worker in workers]
        main_mb, *workers_mb = (memory_mb(process) for process in processes)
        epochs.append(
            {
                "seconds": seconds,
                "delivered": sum(seen.values()),
                "skipped": counts.skipped,
                "replaced": counts.replaced,
                "main_mb": main_mb,
                "workers_mb": sum(workers_mb),
                "memory_mb": main_mb + sum(workers_mb),
                "open_files": open_files(processes),
            }
        )
    kept["memory"] = all(flat([epoch[name] for epoch in epochs]) for name in ("memory_mb", "open_files"))
    return {"policy": policy, "good": len(good), "bad": len(bad), "kept": kept, "epochs": epochs}


def show(console: Console, outcome: dict[str, Any]) -> None:
    table = Table(title=f'on_error="{outcome["policy"]}": {outcome["good"]} good files, {outcome["bad"]} bad ones')
    for column in ("epoch", "given", "skipped", "replaced", "s", "main, MB", "workers, MB", "all, MB", "open files"):
        table.add_column(column, justify="right")
    for number, epoch in enumerate(outcome["epochs"]):
        table.add_row(
            *(str(value) for value in (number, epoch["delivered"], epoch["skipped"], epoch["replaced"])),
            *(f"{epoch[name]:.1f}" for name in ("seconds", "main_mb", "workers_mb", "memory_mb")),
            str(epoch["open_files"]),
        )
    console.print(table)
    console.print(", ".join(f"{promise}: {'kept' if kept else 'BROKEN'}" for promise, kept in outcome["kept"].items()))


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=6000)
    parser.add_argument("--height", type=int, default=240, help="of the pictures, in pixels")
    parser.add_argument("--bad", type=float, default=0.01, help="share of the files that are spoiled")
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)
    console = Console()
    folder = Path(tempfile.mkdtemp(prefix="fastpipe-endurance-"))
    try:
        index, bad = make_corpus(folder / "photos", arguments)
        outcomes = []
        for policy in ("skip", "replace"):
            outcomes.append(run(index, bad, policy, folder / f"{policy}.csv", arguments))
            show(console, outcomes[-1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(outcomes, indent=2))
    return int(not all(all(outcome["kept"].values()) for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
