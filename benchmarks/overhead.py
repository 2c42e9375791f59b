"""Measures fastpipe's overhead: the time for an image without reading, decoding and the kernels.

    python benchmarks/overhead.py --photos PHOTOS [--rounds 7] [--only WORD] [--json FILE]

PHOTOS is a folder as `ImageFolder` takes it. Each row is the time of the pipeline without the functions that read,
decode and compute pixels; with the core, that is one call of the core. The rows of draws use the same files' sizes, and
include torchvision's draws for comparison. The rows "more, …" are of a script's small images from memory: the processor
time that it takes more under `fastpipe.install` than by the libraries alone; negative where it takes less.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import cv2
import numpy as np
import torch
from harness import Benchmark, command_line, torchvision, training
from PIL import Image

import fastpipe
from fastpipe import core, readers
from fastpipe import transforms as T
from fastpipe.executor import BatchSpec
from fastpipe.ops.base import Operation
from fastpipe.plain_way import plainly
from fastpipe.rng import drawing
from fastpipe.tools.timing import take_turns
from fastpipe.types import ImageShape

BATCH = 64
MARKS_US = {"train, batches": 30, "train, dataset[i]": 70, "RandAugment, batches": 60}
MORE_US = 60
SMALL = {"32×100": (100, 32), "96×96": (96, 96), "128×128": (128, 128)}


class Clock:
    """Sums the time in the functions that read, decode and compute pixels."""

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
        """The seconds that a function wrapped by `around` takes in addition to the timed function."""
        self.within, nothing = 0.0, self.around(lambda: None)
        start = time.thread_time()
        for _ in range(1000):
            nothing()
        return (time.thread_time() - start - self.within) / 1000


def overhead(run: Callable[[], int]) -> float:
    """µs an image without reading, decoding and kernels; the clock's own cost is subtracted."""
    clock = Clock()
    patches = [
        mock.patch.object(readers, "read_copy", clock.around(readers.read_copy)),
        mock.patch.object(core, "run", clock.around(core.run)),
        mock.patch.object(core.Pool, "run", clock.around(core.Pool.run)),
        mock.patch.object(core.Pool, "read", clock.around(core.Pool.read)),
        mock.patch.object(readers, "decode", clock.around(readers.decode)),
        mock.patch.object(Operation, "apply", clock.around(Operation.apply)),
        mock.patch.object(torch, "empty", clock.around(torch.empty)),  # allocates the result: page faults
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


def draws(dataset: Any, shapes: list[ImageShape]) -> float:
    """µs an image for a pipeline's draws."""
    start = time.thread_time()
    with drawing() as held:
        for shape in shapes:
            dataset.pipeline.draw(shape, held)
    return 1e6 * (time.thread_time() - start) / len(shapes)


def draws_of_torchvision(shapes: list[ImageShape]) -> float:
    """µs an image for torchvision's draws of a crop and a flip."""
    crop = torchvision.transforms.RandomResizedCrop(224)
    images = [torch.empty(3, 1, 1).expand(3, shape.height, shape.width) for shape in shapes]
    start = time.thread_time()
    for image in images:
        crop.get_params(image, crop.scale, crop.ratio)
        bool(torch.rand(1) < 0.5)
    return 1e6 * (time.thread_time() - start) / len(images)


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def small_images() -> dict[str, Callable[[int], float]]:
    """Rows for small JPEGs and PNGs in memory, each opened in three ways."""
    compose = torchvision.transforms.Compose(
        [torchvision.transforms.RandomHorizontalFlip(), torchvision.transforms.ToTensor()]
    )
    ways: dict[str, Callable[[bytes], object]] = {
        "Image.open, Compose": lambda data: compose(opened(data)),
        "Image.open, asarray": lambda data: np.asarray(opened(data)),
        "cv2.imdecode": lambda data: cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR),
    }
    rows: dict[str, Callable[[int], float]] = {}
    for size, width_height in SMALL.items():
        noise = Image.effect_noise((width_height[0] // 8 + 1, width_height[1] // 8 + 1), 60)
        image = noise.convert("RGB").resize(width_height, Image.Resampling.BICUBIC)
        for kind in ("JPEG", "PNG"):
            file = io.BytesIO()
            image.save(file, kind)
            for way, make in ways.items():
                rows[f"more, {size} {kind}, {way}"] = partial(more, make, file.getvalue())
    return rows


def more(make: Callable[[bytes], object], data: bytes, number: int) -> float:
    """µs an image that a call takes more under `fastpipe.install`."""

    def seconds() -> float:
        start = time.process_time()
        for _ in range(50):
            make(data)
        return time.process_time() - start

    with fastpipe.install():
        seconds()  # checks, and fills caches
        return 1e6 * (seconds() - own(seconds)) / 50


def own(seconds: Callable[[], float]) -> float:
    """The time by the libraries alone."""
    with plainly():
        return seconds()


def main() -> None:
    parser = command_line(__doc__, rounds=7, photos="--photos")
    options = parser.parse_args()
    if options.photos is None:
        parser.error("the following arguments are required: --photos")
    bench = Benchmark(options, "around the pixels")
    train = fastpipe.ImageFolder(bench.options.photos, training(T))
    if len(train) < BATCH:
        raise SystemExit(f"{bench.options.photos} holds {len(train)} photos: name a folder with {BATCH} or more")
    policy = fastpipe.ImageFolder(bench.options.photos, training(T, T.RandAugment()))
    shapes = [ImageShape(*readers.read_header(path).size) for path, _ in train.samples]
    rows: dict[str, Callable[[int], float]] = {
        "train, batches": lambda number: overhead(lambda: batches(train)),
        "train, dataset[i]": lambda number: overhead(lambda: singly(train)),
        "RandAugment, batches": lambda number: overhead(lambda: batches(policy)),
        "draws of a crop and a flip": lambda number: draws(train, shapes),
        "draws with RandAugment": lambda number: draws(policy, shapes),
        "torchvision's draws of a crop and a flip": lambda number: draws_of_torchvision(shapes),
        **small_images(),
    }
    timings = take_turns({name: row for name, row in rows.items() if bench.wants(name)}, bench.options.rounds)
    for name, timing in timings.items():
        most = MORE_US if name.startswith("more, ") else MARKS_US.get(name)
        mark = "" if most is None else f" (at most {most} µs)"
        bench.add(name + mark, {"fastpipe": timing}, None)
    print(f"core: {core.isa() if core.available() else 'none'}")
    bench.finish()


if __name__ == "__main__":
    main()
