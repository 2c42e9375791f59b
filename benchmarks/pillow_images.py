"""Pillow's images in the core: four bytes a pixel beside three, their memory, and Pillow's blurs.

    python benchmarks/pillow_images.py [--size 224 224] [--rounds 9] [--json FILE]

One thread. Each row is one job of the core's from pixels to pixels: array to array (three bytes a pixel), image to
image (four, into an image that is there), and Pillow's own function. Rounds are interleaved; a figure is the median
over rounds of the processor time for one call. Before anything is timed, all bytes are compared with Pillow's, the
fourth among them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from rich.console import Console
from rich.table import Table

from fastpipe import core
from fastpipe.core import Filter, Kind

CALLS = 20
NEGATIVE = bytes(range(255, -1, -1)) * 3
Operations = list[tuple[Any, ...]]


def rows(height: int, width: int) -> dict[str, tuple[Operations, Callable[[Image.Image], Image.Image]]]:
    """Name → the core's operations, which keep the size, and Pillow's function."""
    half = (height + 1) // 2, (width + 1) // 2
    back = ("pad", 0, 0, width - half[1], height - half[0], core.Padding.CONSTANT, (0, 0, 0), 0)
    resize = ("resize", None, (0, 0), (height, width), (0, 0, height, width), Filter.BILINEAR, 2)
    blurs: dict[str, tuple[Operations, Callable[[Image.Image], Image.Image]]] = {
        f"{kind.__name__}({radius})": (
            [("blur", Kind.BOX_BLUR if kind is ImageFilter.BoxBlur else Kind.GAUSSIAN_BLUR, radius, radius)],
            lambda image, kind=kind, radius=radius: image.filter(kind(radius)),
        )
        for kind, radius in ((ImageFilter.GaussianBlur, 1), (ImageFilter.GaussianBlur, 10), (ImageFilter.BoxBlur, 2))
    }
    return {
        "copy": ([], lambda image: image.copy()),
        "flip": ([("flip",)], lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)),
        "invert": ([("look_up", NEGATIVE)], ImageOps.invert),
        "saturation": ([("blend", Kind.SATURATION, 0.7)], lambda image: ImageEnhance.Color(image).enhance(0.7)),
        "sharpness": ([("blend", Kind.SHARPNESS, 1.5)], lambda image: ImageEnhance.Sharpness(image).enhance(1.5)),
        "crop, resize": (
            [("crop", 0, 0, *half), resize],
            lambda image: image.crop((0, 0, half[1], half[0])).resize((width, height), Image.Resampling.BILINEAR),
        ),
        "crop, pad": (
            [("crop", 0, 0, *half), back],
            lambda image: image.crop((0, 0, half[1], half[0])).crop((0, 0, width, height)),
        ),
        **blurs,
    }


def contenders(image: Image.Image, operations: Operations, own: Callable[[Image.Image], Image.Image]) -> dict[str, Any]:
    """The three ways, the core's with their results in place; compared with each other."""
    found: dict[str, Any] = {}
    array = np.asarray(image)
    out, new = np.empty_like(array), core.new_image(*array.shape)
    memory = core.memory_of(image)
    if new is None or memory is None:
        raise SystemExit("this Pillow doesn't share its images' memory")
    for name in ("array", "image"):
        job = core.Job()
        if name == "array":
            job.read_pixels(array)
            job.write_array(out)
        else:
            job.read_image(memory)
            job.write_image(new[1])
        for method, *arguments in operations:
            getattr(job, method)(*arguments)
        found[name] = lambda job=job, kept=(out, new): core.run(job)
        core.check(found[name]())
    expected = own(image)
    if not np.array_equal(out, expected) or new[0].tobytes("raw", "RGBX") != expected.tobytes("raw", "RGBX"):
        raise SystemExit("the core's bytes aren't Pillow's")
    found["pillow"] = lambda: own(image)
    return found


def measure(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Microseconds of processor time for each."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.process_time_ns()
            for _ in range(CALLS):
                way()
            times[name].append((time.process_time_ns() - began) / CALLS / 1000)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs=2, default=(224, 224), help="height and width (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="(%(default)s)")
    parser.add_argument("--json", type=Path, help="also write everything there")
    given = parser.parse_args()
    if not core.available():
        raise SystemExit(core.why_not())
    height, width = given.size
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8))
    found = {
        name: measure(contenders(image, operations, own), given.rounds)
        for name, (operations, own) in rows(height, width).items()
    }
    memory = {
        "memory_of": lambda: core.memory_of(image),
        "new_image": lambda: core.new_image(height, width, 3),
        "Image.new": lambda: Image.new("RGB", (width, height), None),
    }
    around = measure(memory, given.rounds)
    columns = "", "array, µs", "image, µs", "Pillow, µs", "image beside Pillow"
    table = Table(*columns, title=f"{height}×{width}, {core.isa()}")
    for name, times in found.items():
        ratio = times["pillow"] / times["image"]
        table.add_row(name, *(f"{times[way]:.1f}" for way in ("array", "image", "pillow")), f"{ratio:.1f}×")
    Console().print(table)
    Console().print(", ".join(f"{name} {spent:.1f} µs" for name, spent in around.items()))
    if given.json:
        given.json.write_text(json.dumps({"size": given.size, "rows": found, "around": around}, indent=1) + "\n")


if __name__ == "__main__":
    main()
