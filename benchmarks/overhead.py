"""What fastpipe costs around the pixels: everything of an image but reading, decoding and the kernels.

    python benchmarks/overhead.py --photos PHOTOS [--json FILE]

PHOTOS is a folder as `ImageFolder` takes it. Each stage is timed on the same files, as the pipeline itself runs it: the
time between two laps, with what reads, decodes and computes pixels left out. Where the core is there, one call of it is
all that is left out. torchvision's own draws stand beside, in the same rounds. Medians over the rounds; µs of processor
time an image, so that other programs on the machine don't count.
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
from unittest import mock

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import fastpipe
from fastpipe import core, readers
from fastpipe import transforms as T
from fastpipe.executor import BatchSpec

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
BATCH = 64
TARGETS = {"train, batches": 30.0, "train, dataset[i]": 70.0, "RandAugment, batches": 60.0}

CROP = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
POLICY = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.RandAugment(), T.ToTensor(), T.Normalize(MEAN, STD)]


class Clock:
    """Adds up the time within the functions that read, decode and compute pixels."""

    def __init__(self) -> None:
        self.within = 0.0
        self.calls = 0
        self.deep = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self.deep:
                return function(*args, **kwargs)
            self.deep = 1
            start = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.within += time.thread_time() - start
                self.calls += 1
                self.deep = 0

        return timed

    def own_cost(self) -> float:
        """Seconds that a call of what `around` gives takes beside what is timed."""
        self.within, nothing = 0.0, self.around(lambda: None)
        start = time.thread_time()
        for _ in range(1000):
            nothing()
        return (time.thread_time() - start - self.within) / 1000


def overhead(run: Callable[[], int]) -> float:
    """µs an image outside of reading, decoding and kernels; the clock's own cost is taken off."""
    from fastpipe.ops.base import Operation

    clock = Clock()
    patches = [
        mock.patch.object(readers, "read_copy", clock.around(readers.read_copy)),
        mock.patch.object(core, "run", clock.around(core.run)),
        mock.patch.object(core.Pool, "run", clock.around(core.Pool.run)),
        mock.patch.object(core.Pool, "read", clock.around(core.Pool.read)),
        mock.patch.object(readers, "decode", clock.around(readers.decode)),
        mock.patch.object(Operation, "apply", clock.around(Operation.apply)),
        mock.patch.object(torch, "empty", clock.around(torch.empty)),  # memory of the result: page faults
    ]
    for patch in patches:
        patch.start()
    try:
        own = clock.own_cost()
        clock.within, clock.calls = 0.0, 0
        start = time.thread_time()
        images = run()
        return 1e6 * (time.thread_time() - start - clock.within - clock.calls * own) / images
    finally:
        for patch in patches:
            patch.stop()


def batches(dataset: Any) -> int:
    for start in range(0, len(dataset) - BATCH + 1, BATCH):
        dataset.batch(range(start, start + BATCH), BatchSpec())
    return len(dataset) // BATCH * BATCH


def singly(dataset: Any) -> int:
    for index in range(len(dataset)):
        dataset[index]
    return len(dataset)


def draws_of_torchvision(dataset: Any, sizes: list[tuple[int, int]]) -> float:
    """µs for torchvision's own draws of a crop and a flip."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from torchvision_here import torchvision

    crop = torchvision.transforms.RandomResizedCrop(224)
    image = torch.empty(3, 1, 1)
    images = [image.expand(3, height, width) for height, width in sizes]
    start = time.thread_time()
    for one in images:
        crop.get_params(one, crop.scale, crop.ratio)
        bool(torch.rand(1) < 0.5)
    return 1e6 * (time.thread_time() - start) / len(images)


def draws(dataset: Any, sizes: list[tuple[int, int]]) -> float:
    from fastpipe.rng import drawing
    from fastpipe.types import ImageShape

    shapes = [ImageShape(*size) for size in sizes]
    start = time.thread_time()
    with drawing() as held:
        for shape in shapes:
            dataset.pipeline.draw(shape, held)
    return 1e6 * (time.thread_time() - start) / len(shapes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", required=True, help="a folder with one folder a class")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", help="write the figures there, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    train = fastpipe.ImageFolder(options.photos, T.Compose(CROP))
    if len(train) < BATCH:
        parser.error(f"{options.photos} holds {len(train)} photos: name a folder with {BATCH} or more")
    policy = fastpipe.ImageFolder(options.photos, T.Compose(POLICY))
    sizes = [readers.read_header(train.samples[i][0]).size for i in range(len(train))]
    rows: dict[str, Callable[[], float]] = {
        "train, batches": lambda: overhead(lambda: batches(train)),
        "train, dataset[i]": lambda: overhead(lambda: singly(train)),
        "RandAugment, batches": lambda: overhead(lambda: batches(policy)),
        "of it: draws of a crop and a flip": lambda: draws(train, sizes),
        "of it: draws with RandAugment": lambda: draws(policy, sizes),
        "torchvision's draws of a crop and a flip": lambda: draws_of_torchvision(train, sizes),
    }
    taken: dict[str, list[float]] = {name: [] for name in rows}
    for number in range(options.rounds + 1):
        for name, measure in rows.items():
            value = measure()
            if number:  # the first round warms up
                taken[name].append(value)
    table = Table(title=f"µs an image around the pixels; core: {core.isa() if core.available() else 'none'}")
    for heading in ("", "median", "smallest", "target"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, values in taken.items():
        target = TARGETS.get(name)
        median = statistics.median(values)
        table.add_row(escape(name), f"{median:.1f}", f"{min(values):.1f}", "" if target is None else f"{target:.0f}")
    Console().print(table)
    if options.json:
        figures = {name: round(statistics.median(values), 2) for name, values in taken.items()}
        Path(options.json).write_text(json.dumps({"schema": "fastpipe-overhead/1", "us": figures}, indent=1))


if __name__ == "__main__":
    main()
