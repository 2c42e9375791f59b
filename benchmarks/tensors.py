"""Operations on batches of uint8 tensors, by fastpipe and by torchvision on the same tensors.

    python benchmarks/tensors.py [--images 8] [--size 256] [--rounds 7] [--json FILE]

v2's functions and v1's, in one thread (`torch.set_num_threads(1)`). Both sides take turns; a figure is processor time
for the whole batch, a ratio the median of each round's ratio. Before it is timed, each operation is compared: `equal`
says that bytes and strides were the same. Operations that only copy or turn bits (flips, crops, `invert`, `posterize`)
are torch's own in fastpipe, too, and stand in no row, as do blurs and elastic warps.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import torch
from rich.console import Console
from rich.table import Table
from torchvision_here import module

from fastpipe.transforms import functional as our_v1
from fastpipe.transforms import v2

START, END = [[0, 0], [255, 0], [255, 255], [0, 255]], [[20, 13], [239, 5], [250, 230], [9, 244]]
OPERATIONS: dict[str, tuple[Any, ...]] = {
    "adjust_brightness": (1.3,),
    "adjust_contrast": (1.3,),
    "adjust_gamma": (2.2,),
    "adjust_hue": (0.1,),
    "adjust_saturation": (1.3,),
    "adjust_sharpness": (2.0,),
    "affine": (10.0, [9, -5], 1.1, [5.0, 0.0]),
    "autocontrast": (),
    "equalize": (),
    "perspective": (START, END),
    "resize": ([224, 224],),
    "resized_crop": (10, 20, 200, 180, [224, 224]),
    "rgb_to_grayscale": (3,),
    "rotate": (23.0,),
    "solarize": (128,),
}


def photos(count: int, size: int) -> torch.Tensor:
    """Soft shapes with some grain."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, size // 16, size // 16, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (size, size), mode="bicubic") * 255
    grain = torch.randn(smooth.shape, generator=generator) * 5
    return (smooth + grain).clamp(0, 255).to(torch.uint8)


def measure(theirs: Callable[[], Any], ours: Callable[[], Any], rounds: int) -> tuple[float, float, float]:
    """Milliseconds, theirs and ours, and the median ratio."""
    spent: tuple[list[float], list[float]] = [], []
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            start = time.process_time()
            (theirs, ours)[which]()
            spent[which].append(time.process_time() - start)
    ratio = statistics.median(one / other for one, other in zip(*spent, strict=True))
    return statistics.median(spent[0]) * 1e3, statistics.median(spent[1]) * 1e3, ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    batch = photos(options.images, options.size)
    found = []
    for title, theirs, ours in (
        ("v2", module("torchvision.transforms.v2.functional"), v2.functional),
        ("v1", module("torchvision.transforms.functional"), our_v1),
    ):
        table, ratios = (
            Table(f"{title} on {tuple(batch.shape)}", "torchvision, ms", "fastpipe, ms", "ratio", "equal"),
            [],
        )
        for name, arguments in OPERATIONS.items():
            calls = [functools.partial(getattr(one, name), batch, *arguments) for one in (theirs, ours)]
            first, second = (call() for call in calls)
            equal = torch.equal(first, second) and first.stride() == second.stride()
            their_ms, our_ms, ratio = measure(calls[0], calls[1], options.rounds)
            ratios.append(ratio)
            found.append({"module": title, "operation": name, "ratio": ratio, "equal": equal})
            table.add_row(name, f"{their_ms:.2f}", f"{our_ms:.2f}", f"{ratio:.1f}x", "yes" if equal else "NO")
        Console().print(table)
        print(f"{title}: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}x (geometric mean of {len(ratios)})")
    if options.json:
        options.json.write_text(json.dumps({"schema": "fastpipe-tensors/1", "operations": found}, indent=1))


if __name__ == "__main__":
    main()
