"""Recipes as people have them: a library's own objects in torchvision's ImageFolder, and the same in fastpipe's.

    python benchmarks/recipes.py PHOTOS [--files 120] [--rounds 3] [--only WORD] [--block 20] [--json FILE]

PHOTOS is a folder as ImageFolder takes it (root/class/….jpg). Both datasets get the very same transform; some files in
a row are asked of one and then of the other, in turns, in one thread. A figure is processor time; the ratio is the
median over the rounds of the ratio of the sums. (With ``--block 1`` they take turns for each file, as nobody uses
them: each finds the processor's caches as the other has left them, which costs fastpipe's short samples a fifth.) Where
fastpipe has the same names, a third dataset has the recipe in these: `own names`. Before it is timed, each recipe
is compared: `equal` says that all samples and the states of torch's, Python's and numpy's generators were the same.
albumentations' own way is a class with cv2.imread, cvtColor and the Compose; there `equal` says that samples are what
the Compose gives on Pillow's pixels (cv2 decodes some others), and the states of its own generators.
"""

from __future__ import annotations

import argparse
import json
import operator
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
from fastpipe.transforms import v2

V1 = module("torchvision.transforms"), fastpipe.transforms
V2 = module("torchvision.transforms.v2"), v2
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def _v1(T: Any, *middle: Any, end: Any = ()) -> Any:
    crop = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()]
    return T.Compose([*crop, *middle, T.ToTensor(), T.Normalize(MEAN, STD), *end])


def _v1_evaluation(T: Any) -> Any:
    return T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(), T.Normalize(MEAN, STD)])


def _v2(V: Any, *middle: Any, tensor_first: bool = False) -> Any:
    crop = [V.RandomResizedCrop(224), V.RandomHorizontalFlip(), *middle]
    crop = [V.ToImage(), *crop] if tensor_first else [*crop, V.ToImage()]
    return V.Compose([*crop, V.ToDtype(torch.float32, scale=True), V.Normalize(MEAN, STD)])


def _v2_evaluation(V: Any) -> Any:
    return V.Compose(
        [V.ToImage(), V.Resize(256), V.CenterCrop(224), V.ToDtype(torch.float32, scale=True), V.Normalize(MEAN, STD)]
    )


def _timm(**arguments: Any) -> Any:
    return module("timm.data").create_transform(224, **arguments)


RECIPES: dict[str, tuple[Any, Callable[..., Any]]] = {
    "torchvision v1: crop, flip": (V1, _v1),
    "torchvision v1: crop, flip, ColorJitter": (V1, lambda T: _v1(T, T.ColorJitter(0.4, 0.4, 0.4))),
    "torchvision v1: evaluation": (V1, _v1_evaluation),
    "torchvision v1: RandAugment, RandomErasing": (V1, lambda T: _v1(T, T.RandAugment(), end=[T.RandomErasing(0.25)])),
    "torchvision v2: crop, flip": (V2, _v2),
    "torchvision v2: TrivialAugmentWide": (V2, lambda V: _v2(V, V.TrivialAugmentWide())),
    "torchvision v2, ToImage first": (V2, lambda V: _v2(V, tensor_first=True)),
    "torchvision v2, ToImage first: evaluation": (V2, _v2_evaluation),
    "torchvision v2, ToImage first: RandAugment": (V2, lambda V: _v2(V, V.RandAugment(), tensor_first=True)),
    "torchvision v2, ToImage first: TrivialAugmentWide": (
        V2,
        lambda V: _v2(V, V.TrivialAugmentWide(), tensor_first=True),
    ),
    "timm: rand-m6-mstd0.5-inc1, bicubic, erasing": (
        (),
        lambda: _timm(
            is_training=True,
            auto_augment="rand-m6-mstd0.5-inc1",
            interpolation="bicubic",
            re_prob=0.25,
            re_mode="pixel",
        ),
    ),
    "timm: 3a, color jitter": ((), lambda: _timm(is_training=True, auto_augment="3a", color_jitter=0.3)),
    "timm: color jitter, random filter": ((), lambda: _timm(is_training=True, interpolation="random")),
    "timm: evaluation, bicubic": ((), lambda: _timm(interpolation="bicubic", crop_pct=0.9)),
    "timm: uint8 for its prefetcher": (
        (),
        lambda: _timm(is_training=True, use_prefetcher=True, color_jitter=None),
    ),
}
"""Recipes, each with the modules that have its names: its library's, and fastpipe's; none where it names its own."""


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


ALBUMENTATIONS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "albumentations: RandomResizedCrop, flip": ((), lambda: _albumentations("RandomResizedCrop", "HorizontalFlip")),
    "albumentations: the same, jitter, dropout": (
        (),
        lambda: _albumentations("RandomResizedCrop", "HorizontalFlip", "ColorJitter", "CoarseDropout"),
    ),
    "albumentations: PadIfNeeded, RandomCrop, D4": ((), lambda: _albumentations("PadIfNeeded", "RandomCrop", "D4")),
    "albumentations: evaluation": ((), lambda: _albumentations("SmallestMaxSize", "CenterCrop")),
}


def own_states(transform: Any) -> list[Any]:
    """The states of an albumentations Compose's generators, and of those of its members."""
    members = [transform, *transform.transforms]
    return [(repr(one.random_generator.bit_generator.state), one.py_random.getstate()) for one in members]


def same_by_pillow(ours: Any, transform: Any, count: int) -> bool:
    """Whether fastpipe's samples, and its Compose's generators, are those of the Compose on Pillow's pixels."""
    reference = ByPillow(ours.samples[:count], transform)
    equal = all(flat(ours[index]) == flat(reference[index]) for index in range(count))
    return equal and own_states(ours.transform) == own_states(transform)


def same(theirs: Any, ours: Any, count: int) -> bool:
    """Whether both datasets give the same samples and leave the generators where the other does."""
    results = []
    for dataset in (theirs, ours):
        seed_all(1)
        results.append(([flat(dataset[index]) for index in range(count)], states()))
    return bool(results[0] == results[1])


def measure(datasets: list[Any], count: int, rounds: int, block: int) -> tuple[list[float], list[float]]:
    """Milliseconds of a sample of each dataset, and how many times as long the first takes: medians."""
    sums = []
    for _ in range(rounds):
        spent = [0.0] * len(datasets)
        for first in range(0, count, block):
            for which in random.sample(range(len(datasets)), len(datasets)):
                start = time.process_time()
                for index in range(first, min(first + block, count)):
                    datasets[which][index]
                spent[which] += time.process_time() - start
        sums.append(spent)
    columns = list(zip(*sums, strict=True))
    ratios = [statistics.median(map(operator.truediv, columns[0], column)) for column in columns]
    return [statistics.median(column) / count * 1e3 for column in columns], ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--files", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="recipes whose name has this word")
    parser.add_argument("--block", type=int, default=20, help="files in a row that one library is asked for")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("recipe", "its library, ms", "fastpipe, ms", "ratio", "own names", "equal")
    found: list[dict[str, Any]] = []
    for name, (modules, make) in (RECIPES | ALBUMENTATIONS).items():
        if options.only not in name:
            continue
        try:
            transform, *own = [make(names) for names in modules] if modules else [make()]
        except ImportError as error:
            table.add_row(name, str(error))
            continue
        ours = fastpipe.ImageFolder(options.photos, transform)
        more = [fastpipe.ImageFolder(options.photos, one) for one in own]
        count = min(options.files, len(ours))
        if name in ALBUMENTATIONS:
            theirs: Any = ByCv2(ours.samples[:count], make())
            equal = same_by_pillow(ours, make(), count)
        else:
            theirs = torchvision.datasets.ImageFolder(str(options.photos), transform)
            equal = same(theirs, ours, count)
        spent, ratios = measure([theirs, ours, *more], count, options.rounds, options.block)
        found.append({"recipe": name, "ms": spent, "ratios": ratios, "equal": equal})
        by_hand = f"{ratios[2]:.2f}x" if more else "-"
        table.add_row(name, *(f"{ms:.2f}" for ms in spent[:2]), f"{ratios[1]:.2f}x", by_hand, "yes" if equal else "NO")
    Console().print(table)
    for word in ("torchvision", "timm", "albumentations"):
        ratios = [one["ratios"][1] for one in found if word in one["recipe"]]
        if ratios:
            print(f"{word}: {float(np.exp(np.mean(np.log(ratios)))):.2f}x (geometric mean of {len(ratios)})")
    if options.json:
        options.json.write_text(json.dumps({"schema": "fastpipe-recipes/2", "recipes": found}, indent=1))


if __name__ == "__main__":
    main()
