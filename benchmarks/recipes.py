"""Recipes as people have them: a library's own objects in torchvision's ImageFolder, and the same in fastpipe's.

albumentations' are compared with its own way: a class with cv2.imread, cvtColor and the Compose.

    python benchmarks/recipes.py PHOTOS [--files 120] [--rounds 3] [--only WORD] [--json FILE]

PHOTOS is a folder as ImageFolder takes it (root/class/….jpg). Both datasets get the very same transform; each file is
asked of both, one after the other and in turns, in one thread. A figure is processor time; the ratio is the median over
the rounds of the ratio of the sums. Before it is timed, each recipe is compared: `equal` says that all samples and the
states of torch's, Python's and numpy's generators were the same; of albumentations', that they were what the Compose
gives on Pillow's pixels (cv2 decodes some others), and the states of its own generators.
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
from PIL import Image
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


class ByCv2:
    """albumentations' own way to samples."""

    def __init__(self, samples: list[tuple[str, int]], transform: Any) -> None:
        self.samples, self.transform = samples, transform
        self.cv2 = module("cv2")

    def __getitem__(self, index: int) -> Any:
        path, target = self.samples[index]
        image = self.cv2.cvtColor(self.cv2.imread(path), self.cv2.COLOR_BGR2RGB)
        return self.transform(image=image)["image"], target


class ByPillow(ByCv2):
    """The same, of Pillow's pixels."""

    def __getitem__(self, index: int) -> Any:
        path, target = self.samples[index]
        with Image.open(path) as image:
            return self.transform(image=np.array(image.convert("RGB")))["image"], target


def _albumentations(*names: str, end: bool = True) -> Any:
    """A Compose of transforms by name, with their usual arguments."""
    A = module("albumentations")
    arguments = {"RandomResizedCrop": ((224, 224),), "RandomCrop": (224, 224), "CenterCrop": (224, 224)}
    arguments |= {"SmallestMaxSize": (256,), "PadIfNeeded": (224, 224)}
    members = [getattr(A, name)(*arguments.get(name, ())) for name in names]
    last = [A.Normalize(MEAN, STD), module("albumentations.pytorch").ToTensorV2()]
    return A.Compose([*members, *(last if end else ())], seed=1)


ALBUMENTATIONS: dict[str, Callable[[], Any]] = {
    "albumentations: RandomResizedCrop, flip": lambda: _albumentations("RandomResizedCrop", "HorizontalFlip"),
    "albumentations: the same, jitter, dropout": lambda: _albumentations(
        "RandomResizedCrop", "HorizontalFlip", "ColorJitter", "CoarseDropout"
    ),
    "albumentations: PadIfNeeded, RandomCrop, D4": lambda: _albumentations("PadIfNeeded", "RandomCrop", "D4"),
    "albumentations: evaluation": lambda: _albumentations("SmallestMaxSize", "CenterCrop"),
}


def own_states(transform: Any) -> list[Any]:
    """The states of an albumentations Compose's generators, and of those of its members."""
    members = [transform, *transform.transforms]
    return [(repr(one.random_generator.bit_generator.state), one.py_random.getstate()) for one in members]


def datasets(photos: Path, name: str, make: Callable[[], Any], files: int) -> tuple[Any, Any, int, bool]:
    """The library's own dataset and fastpipe's, how many samples are taken, and whether these are equal."""
    transform = make()
    ours = fastpipe.ImageFolder(photos, transform)
    count = min(files, len(ours))
    if name not in ALBUMENTATIONS:
        theirs = torchvision.datasets.ImageFolder(str(photos), transform)
        return theirs, ours, count, same(theirs, ours, count)
    reference = ByPillow(ours.samples[:count], make())
    equal = all(flat(ours[index]) == flat(reference[index]) for index in range(count))
    equal = equal and own_states(transform) == own_states(reference.transform)
    return ByCv2(ours.samples[:count], make()), ours, count, equal


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
    for name, make in (RECIPES | ALBUMENTATIONS).items():
        if options.only not in name:
            continue
        try:
            theirs, ours, count, equal = datasets(options.photos, name, make, options.files)
        except ImportError as error:
            table.add_row(name, str(error))
            continue
        first, second, ratio = measure(theirs, ours, count, options.rounds)
        found.append({"recipe": name, "library_ms": first, "fastpipe_ms": second, "ratio": ratio, "equal": equal})
        table.add_row(name, f"{first:.2f}", f"{second:.2f}", f"{ratio:.2f}x", "yes" if equal else "NO")
    Console().print(table)
    for word in ("torchvision", "timm", "albumentations"):
        ratios = [one["ratio"] for one in found if word in str(one["recipe"])]
        if ratios:
            print(f"{word}: {float(np.exp(np.mean(np.log(ratios)))):.2f}x (geometric mean of {len(ratios)})")
    if options.json:
        options.json.write_text(json.dumps({"schema": "fastpipe-recipes/1", "recipes": found}, indent=1))


if __name__ == "__main__":
    main()
