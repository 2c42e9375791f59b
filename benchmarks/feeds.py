"""Measures how many CPUs feed a GPU: ResNet-50's training step (channels_last, bfloat16), fed in several ways.

    python benchmarks/feeds.py PHOTOS [--cpus 2,4,8,16] [--batch-size 256] [--steps 100] [--packed FOLDER]
                               [--json FILE]
    python benchmarks/feeds.py PHOTOS --device cpu --network tiny --batch-size 8 --steps 4    # without a GPU

PHOTOS is a folder as ImageFolder takes it (root/class/….jpg), on a disk that isn't the limit. The transform is
RandomResizedCrop(224), flip, ToTensor, Normalize, the order is random; few photos are repeated.

    resident           one batch that stays on the device: the network's highest rate
    torchvision        its ImageFolder in torch's DataLoader, as many workers as CPUs, pinned memory
    fastpipe           fastpipe.DataLoader, one worker with as many threads as CPUs, uint8 to the device
    fastpipe, packed   the same from packed images (made in a temporary folder unless --packed names them)

Each figure comes from a separate process that may use that number of CPUs (by its affinity, which needs Linux),
including the training's thread. Images a second are by the clock, over `--steps` steps after `--warm-up` others. The
share waited is the share of the time in which the GPU had no step to run, from events on the training's stream. A feed
needs the fewest CPUs that reach 99% of the resident batch's rate.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from harness import module, torchvision, training, versions
from torch.utils.data import DataLoader as StockLoader
from torch.utils.data import RandomSampler

import fastpipe
from fastpipe import transforms as T
from fastpipe.environment import usable_cpus
from fastpipe.reporting.tables import ReportTable

RESIDENT, FEEDS = "resident", ("torchvision", "fastpipe", "fastpipe, packed")
ENOUGH = 0.99


@dataclass(frozen=True)
class Measured:
    """The result of a training.

    Attributes:
        images_per_s: images a second by the clock.
        waited: the share of the time in which the device had no step to run.
    """

    images_per_s: float
    waited: float


class CpuTimer:
    """Measures the seconds that steps take on the CPU, where a step ends with the call."""

    def __init__(self) -> None:
        self.busy_s = 0.0
        self._began = 0.0

    def begin(self) -> None:
        self._began = time.perf_counter()

    def end(self) -> None:
        self.busy_s += time.perf_counter() - self._began

    def finish(self) -> None:
        """Waits until the device is idle."""


class GpuTimer:
    """Measures the seconds that steps take on a GPU, by events on their stream."""

    def __init__(self) -> None:
        self._events: list[tuple[Any, Any]] = []

    @property
    def busy_s(self) -> float:
        return sum(begin.elapsed_time(end) for begin, end in self._events) / 1e3

    def begin(self) -> None:
        self._events.append((self._event(), torch.cuda.Event(enable_timing=True)))

    def end(self) -> None:
        self._events[-1][1].record()

    def finish(self) -> None:
        """Waits until the device is idle."""
        torch.cuda.synchronize()

    @staticmethod
    def _event() -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def measure(
    batches: Iterator[Any],
    step: Callable[[Any, Any], None],
    warm_up: int,
    steps: int,
    timer: CpuTimer | GpuTimer,
    now: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Trains for some timed steps after the warm-up.

    Args:
        batches: images and labels on the device, at least `warm_up + steps` batches.
        step: trains on a batch.
        warm_up, steps: the numbers of steps.
        timer: a new timer for the device.
        now: the clock, in seconds.
    """
    for _ in range(warm_up):
        step(*next(batches))
    timer.finish()
    began, images = now(), 0
    for _ in range(steps):
        batch = next(batches)
        timer.begin()
        step(*batch)
        timer.end()
        images += len(batch[0])
    timer.finish()
    seconds = now() - began
    return Measured(images / seconds, max(0.0, 1 - timer.busy_s / seconds))


def training_step(network: str, classes: int, device: torch.device) -> Callable[[Any, Any], None]:
    """Makes a network's training step, under autocast to bfloat16."""
    if network == "tiny":
        layers = (torch.nn.Conv2d(3, 8, 7, 8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        net: Any = torch.nn.Sequential(*layers, torch.nn.Linear(8, classes))
    else:
        net = getattr(module("torchvision.models"), network)(num_classes=classes)
    net = net.to(device, memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    torch.backends.cudnn.benchmark = True

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        with torch.autocast(device.type, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def batches_of(feed: str, options: argparse.Namespace, device: torch.device, cpus: int) -> tuple[Iterator[Any], int]:
    """The batches of a feed, on the device, and the number of classes."""
    count = options.batch_size * (options.warm_up + options.steps)
    common: dict[str, Any] = {"batch_size": options.batch_size, "drop_last": True}
    if feed == "torchvision":
        theirs = torchvision.datasets.ImageFolder(options.photos, training(torchvision.transforms))
        sampler = RandomSampler(range(len(theirs)), num_samples=count)
        pinned = device.type == "cuda"
        loader: Any = StockLoader(theirs, sampler=sampler, num_workers=cpus, pin_memory=pinned, **common)
        return _sent(loader, device), len(theirs.classes)
    ours = fastpipe.ImageFolder(options.packed if "packed" in feed else options.photos, training(T))
    sampler = RandomSampler(range(len(ours)), num_samples=count)
    loader = fastpipe.DataLoader(
        ours,
        sampler=sampler,
        num_workers=1,
        threads=cpus,
        device=device,
        memory_format=torch.channels_last,
        **common,
    )
    if feed == RESIDENT:
        return _again(next(iter(loader))), len(ours.classes)
    return iter(loader), len(ours.classes)


def _sent(loader: Any, device: torch.device) -> Iterator[Any]:
    for images, labels in loader:
        sent = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        yield sent, labels.to(device, non_blocking=True)


def _again(batch: Any) -> Iterator[Any]:
    while True:
        yield batch


def measure_feed(feed: str, cpus: int, options: argparse.Namespace) -> Measured:
    """Measures one feed in this process, restricted to its first CPUs."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])
    torch.set_num_threads(cpus)
    device = torch.device(options.device)
    batches, classes = batches_of(feed, options, device, cpus)
    step = training_step(options.network, classes, device)
    timer = GpuTimer() if device.type == "cuda" else CpuTimer()
    return measure(batches, step, options.warm_up, options.steps, timer)


def cpus_needed(rows: Sequence[dict[str, Any]], feed: str, bound: float) -> int | None:
    """The fewest CPUs with which a feed reaches 99% of the device's rate; None if no number does."""
    enough = [row["cpus"] for row in rows if row["feed"] == feed and row["images_per_s"] >= ENOUGH * bound]
    return min(enough, default=None)


def cpu_counts(text: str, usable: int) -> list[int]:
    """The requested numbers of CPUs that the machine has; if it has none of them, its number of CPUs."""
    return [count for count in sorted(map(int, text.split(","))) if count <= usable] or [usable]


def show(result: dict[str, Any]) -> None:
    """Prints the table."""
    rows, bound = result["rows"], result["resident_images_per_s"]
    columns = ["feed", "CPUs", "images/s", "of the resident batch's", "waited"]
    title = f"{result['network']} on {result['device']}, {bound:,.0f} images/s from a resident batch"
    table = ReportTable(columns, columns[1:], title=title)
    for row in rows:
        share = f"{row['images_per_s'] / bound:.0%}"
        table.add_row(row["feed"], str(row["cpus"]), f"{row['images_per_s']:,.0f}", share, f"{row['waited']:.0%}")
    print(table)
    for feed, needed in result["cpus_needed"].items():
        least = max(row["cpus"] for row in rows)
        print(f"{feed}: {f'more than {least}' if needed is None else needed} CPUs for {ENOUGH:.0%}")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("photos", type=Path, help="a folder of photos: root/class/….jpg")
    made.add_argument("--cpus", default="2,4,8,16", help="numbers of CPUs to try (%(default)s)")
    made.add_argument("--device", default="cuda", help="where to train (%(default)s)")
    made.add_argument("--network", default="resnet50", help='one of torchvision.models, or "tiny" (%(default)s)')
    made.add_argument("--batch-size", type=int, default=256)
    made.add_argument("--steps", type=int, default=100, help="timed steps (%(default)s)")
    made.add_argument("--warm-up", type=int, default=10, help="steps before the timed ones (%(default)s)")
    made.add_argument("--packed", type=Path, metavar="FOLDER", help="the same photos, packed; made if not given")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    made.add_argument("--one", metavar="FEED", help=argparse.SUPPRESS)  # set for the processes that this script starts
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    if options.one:
        print(json.dumps(vars(measure_feed(options.one, int(options.cpus), options))))
        return
    if torch.device(options.device).type == "cuda" and not torch.cuda.is_available():
        print(f"skipped: there is no GPU that this torch ({torch.__version__}) can use")
        return
    counts = cpu_counts(options.cpus, usable_cpus())
    with tempfile.TemporaryDirectory(prefix="fastpipe-feeds-") as folder:
        if options.packed is None:
            options.packed = Path(folder) / "packed"
            fastpipe.pack(options.photos, options.packed)
        bound = _in_process(RESIDENT, usable_cpus(), options).images_per_s
        rows = []
        for cpus in counts:
            for feed in FEEDS:
                rows.append({"feed": feed, "cpus": cpus, **vars(_in_process(feed, cpus, options))})
                print(f"{feed}, {cpus} CPUs: {rows[-1]['images_per_s']:,.0f} images/s", file=sys.stderr)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "the CPU"
    result = {
        "network": options.network,
        "device": gpu,
        "batch_size": options.batch_size,
        "steps": options.steps,
        "resident_images_per_s": bound,
        "rows": rows,
        "cpus_needed": {feed: cpus_needed(rows, feed, bound) for feed in FEEDS},
        "versions": versions(),
    }
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _in_process(feed: str, cpus: int, options: argparse.Namespace) -> Measured:
    """Measures a feed in a new process."""
    names = ("device", "network", "batch_size", "steps", "warm_up", "packed")
    given = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]
    command = [sys.executable, __file__, str(options.photos), f"--one={feed}", f"--cpus={cpus}", *given]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return Measured(**json.loads(printed.splitlines()[-1]))


if __name__ == "__main__":
    main()
