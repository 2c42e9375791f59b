"""Views of self-supervised training as their repositories have them, and the same transforms in `fastpipe.MultiView`.

    python benchmarks/multi_view.py PHOTOS [--files 60] [--rounds 3] [--only WORD] [--json FILE]

PHOTOS is a folder as ImageFolder takes it (root/class/….jpg). The transforms are torchvision's, with each repository's
own classes among them (Pillow's blur, solarization). torchvision's ImageFolder calls them one after the other on the
image; fastpipe's has them in a MultiView. Files are asked of both in turns, in one thread; a figure is processor time,
the ratio the median over the rounds. `equal` says that all samples and the states of the generators were the same.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import torch
from paired import in_turns
from PIL import ImageOps
from recipe_conformance import Blur, flat, seed_all, states
from rich.console import Console
from rich.table import Table
from torchvision_here import module, torchvision

import fastpipe

T = module("torchvision.transforms")
BICUBIC = T.InterpolationMode.BICUBIC
END = [T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]


class Solarization:
    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        return ImageOps.solarize(image) if random.random() < self.p else image


def jitter() -> list[Any]:
    return [T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), T.RandomGrayscale(p=0.2)]


def vicreg(blur: float, solarize: float) -> Any:
    crop = [T.RandomResizedCrop(224, interpolation=BICUBIC), T.RandomHorizontalFlip(), *jitter()]
    return T.Compose([*crop, Blur(blur), Solarization(solarize), *END])


def moco(blur: float, solarize: float) -> Any:
    crop = [T.RandomResizedCrop(224, scale=(0.08, 1.0)), *jitter(), T.RandomApply([Blur(1.0)], p=blur)]
    behind = [T.RandomApply([Solarization(1.0)], p=solarize)] if solarize else []
    return T.Compose([*crop, *behind, T.RandomHorizontalFlip(), *END])


def dino(size: int, scale: tuple[float, float], *behind: Any) -> Any:
    flip = T.Compose([T.RandomHorizontalFlip(), *jitter()])
    return T.Compose([T.RandomResizedCrop(size, scale=scale, interpolation=BICUBIC), flip, *behind, *END])


DINO = [
    dino(224, (0.4, 1.0), Blur(1.0)),
    dino(224, (0.4, 1.0), Blur(0.1), Solarization(0.2)),
    dino(96, (0.05, 0.4), Blur(0.5)),
]
VIEWS = {
    "VICReg": ([vicreg(1.0, 0.0), vicreg(0.1, 0.2)], [1, 1]),
    "MoCo v3": ([moco(1.0, 0.0), moco(0.1, 0.2)], [1, 1]),
    "DINO": (DINO, [1, 1, 8]),
}


class OneByOne:
    """The views as a repository's class makes them."""

    def __init__(self, transforms: list[Any], counts: list[int]) -> None:
        self.each = [one for one, count in zip(transforms, counts, strict=True) for _ in range(count)]

    def __call__(self, image: Any) -> list[Any]:
        return [transform(image) for transform in self.each]


def milliseconds(pair: Sequence[Any], indices: list[int], count: int, side: int) -> float:
    """The processor time of some samples of one of two datasets, divided by a number."""
    start = time.process_time()
    for index in indices:
        pair[side][index]
    return (time.process_time() - start) / count * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("views", "torchvision, ms", "MultiView, ms", "ratio", "equal")
    found = []
    for name, (transforms, counts) in VIEWS.items():
        if options.only not in name:
            continue
        theirs = torchvision.datasets.ImageFolder(str(options.photos), OneByOne(transforms, counts))
        pair = theirs, fastpipe.ImageFolder(options.photos, fastpipe.MultiView(transforms, counts))
        count = min(options.files, len(theirs))
        indices = [number * len(theirs) // count for number in range(count)]
        results = []
        for dataset in pair:
            seed_all(1)
            results.append(([flat(dataset[index]) for index in indices], states()))
        blocks = [indices[first : first + 20] for first in range(0, count, 20)]
        tasks = [partial(milliseconds, pair, block, count) for block in blocks]
        before, after, ratio = in_turns(tasks, options.rounds)
        equal = results[0] == results[1]
        found.append({"views": name, "torchvision_ms": before, "fastpipe_ms": after, "ratio": ratio, "equal": equal})
        table.add_row(name, f"{before:.2f}", f"{after:.2f}", f"{ratio:.2f}x", "yes" if equal else "NO")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps({"schema": "fastpipe-multi-view/1", "views": found}, indent=1))


if __name__ == "__main__":
    main()
