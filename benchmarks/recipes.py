"""Recipes as people have them: a library's own objects in torchvision's ImageFolder, and the same in fastpipe's.

    python benchmarks/recipes.py PHOTOS [--files 120] [--rounds 3] [--only WORD] [--json FILE]

PHOTOS is a folder as ImageFolder takes it (root/class/….jpg). Both datasets get the very same transform; each file is
asked of both, one after the other and in turns, in one thread. A figure is processor time; the ratio is the median over
the rounds of the ratio of the sums. Before it is timed, each recipe is compared: `equal` says that all samples and the
states of torch's, Python's and numpy's generators were the same.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import torch
from recipe_conformance import flat, seed_all, states
from rich.console import Console
from rich.table import Table
from torchvision_here import module, torchvision

import fastpipe

T, V = module("torchvision.transforms"), module("torchvision.transforms.v2")
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
END = [T.ToTensor(), T.Normalize(MEAN, STD)]


def _v1(*middle: Any, end: Any = END) -> Any:
    return T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *middle, *end])


def _v2(*middle: Any, tensor_first: bool = False) -> Any:
    crop = [V.RandomResizedCrop(224), V.RandomHorizontalFlip(), *middle]
    crop = [V.ToImage(), *crop] if tensor_first else [*crop, V.ToImage()]
    return V.Compose([*crop, V.ToDtype(torch.float32, scale=True), V.Normalize(MEAN, STD)])


def _timm(**arguments: Any) -> Any:
    return module("timm.data").create_transform(224, **arguments)


RECIPES: dict[str, Callable[[], Any]] = {
    "torchvision v1: crop, flip": _v1,
    "torchvision v1: crop, flip, ColorJitter": lambda: _v1(T.ColorJitter(0.4, 0.4, 0.4)),
    "torchvision v1: evaluation": lambda: T.Compose([T.Resize(256), T.CenterCrop(224), *END]),
    "torchvision v1: RandAugment, RandomErasing": lambda: _v1(T.RandAugment(), end=[*END, T.RandomErasing(0.25)]),
    "torchvision v2: crop, flip": _v2,
    "torchvision v2: TrivialAugmentWide": lambda: _v2(V.TrivialAugmentWide()),
    "torchvision v2, ToImage first": lambda: _v2(tensor_first=True),
    "torchvision v2, ToImage first: evaluation": lambda: V.Compose(
        [V.ToImage(), V.Resize(256), V.CenterCrop(224), V.ToDtype(torch.float32, scale=True), V.Normalize(MEAN, STD)]
    ),
    "torchvision v2, ToImage first: RandAugment": lambda: _v2(V.RandAugment(), tensor_first=True),
    "torchvision v2, ToImage first: TrivialAugmentWide": lambda: _v2(V.TrivialAugmentWide(), tensor_first=True),
    "timm: rand-m6-mstd0.5-inc1, bicubic, erasing": lambda: _timm(
        is_training=True,
        auto_augment="rand-m6-mstd0.5-inc1",
        interpolation="bicubic",
        re_prob=0.25,
        re_mode="pixel",
    ),
    "timm: 3a, color jitter": lambda: _timm(is_training=True, auto_augment="3a", color_jitter=0.3),
    "timm: color jitter, random filter": lambda: _timm(is_training=True, interpolation="random"),
    "timm: evaluation, bicubic": lambda: _timm(interpolation="bicubic", crop_pct=0.9),
    "timm: uint8 for its prefetcher": lambda: _timm(is_training=True, use_prefetcher=True, color_jitter=None),
}


def same(theirs: Any, ours: Any, count: int) -> bool:
    """Whether both datasets give the same samples and leave the generators where the other does."""
    results = []
    for dataset in (theirs, ours):
        seed_all(1)
        results.append(([flat(dataset[index]) for index in range(count)], states()))
    return bool(results[0] == results[1])


def measure(theirs: Any, ours: Any, count: int, rounds: int) -> tuple[float, float, float]:
    """Milliseconds of a sample, theirs and ours, and the median ratio."""
    sums = []
    for _ in range(rounds):
        spent = [0.0, 0.0]
        for index in range(count):
            for which in random.sample((0, 1), 2):
                dataset = (theirs, ours)[which]
                start = time.process_time()
                dataset[index]
                spent[which] += time.process_time() - start
        sums.append(spent)
    first, second = (statistics.median(spent[which] for spent in sums) / count * 1e3 for which in (0, 1))
    return first, second, statistics.median(one / other for one, other in sums)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--files", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="recipes whose name has this word")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("recipe", "its library, ms", "fastpipe, ms", "ratio", "equal")
    found = []
    for name, make in RECIPES.items():
        if options.only not in name:
            continue
        try:
            transform = make()
        except ImportError as error:
            table.add_row(name, str(error))
            continue
        theirs, ours = torchvision.datasets.ImageFolder(str(options.photos), transform), None
        ours = fastpipe.ImageFolder(options.photos, transform)
        count = min(options.files, len(ours))
        equal = same(theirs, ours, count)
        first, second, ratio = measure(theirs, ours, count, options.rounds)
        found.append({"recipe": name, "library_ms": first, "fastpipe_ms": second, "ratio": ratio, "equal": equal})
        table.add_row(name, f"{first:.2f}", f"{second:.2f}", f"{ratio:.2f}x", "yes" if equal else "NO")
    Console().print(table)
    for word in ("torchvision", "timm"):
        ratios = [one["ratio"] for one in found if word in str(one["recipe"])]
        if ratios:
            print(f"{word}: {float(np.exp(np.mean(np.log(ratios)))):.2f}x (geometric mean of {len(ratios)})")
    if options.json:
        options.json.write_text(json.dumps({"schema": "fastpipe-recipes/1", "recipes": found}, indent=1))


if __name__ == "__main__":
    main()
