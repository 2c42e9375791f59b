"""Files that Pillow opens: torchvision's way to samples beside the opener's, `open_image`'s and fastpipe's datasets'.

    python benchmarks/pillow_files.py PHOTOS [--images 60] [--samples 60] [--rounds 5] [--only TEXT] [--json FILE]

PHOTOS is a folder of photos in one folder a class. One thread; files are in the operating system's cache. A figure is
the median of rounds in which both take turns, in µs of processor time a sample; a ratio the median of each round's.
Before a row is timed, its samples have to be torchvision's, bit for bit, and leave torch's generator where torchvision
leaves it: so many as ``--samples`` says, of as many seeds as that takes.

Marks: torchvision's ImageFolder and transforms untouched behind the opener, 3 times torchvision for training and for
evaluation, timm's ``create_transform`` with RandAugment 1.7 times; a dataset of one's own with fastpipe's transforms
1.35 times with ``Image.open``, 4.5 times with `open_image`; vision's preset on fastpipe's dataset 4.5 times; DINO's ten
crops, and SimCLR's two, 3 times.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import torch
from multi_view import Solarization
from PIL import Image
from recipe_conformance import Blur
from rich.console import Console
from rich.table import Table
from torchvision_here import torchvision

import fastpipe
from fastpipe import transforms as ours

try:
    from timm.data import create_transform
except ImportError:  # an extra's: its row is left out
    create_transform = None

theirs = torchvision.transforms
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
BICUBIC = theirs.InterpolationMode.BICUBIC


def training(T: Any) -> Any:
    return T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])


def evaluation(T: Any) -> Any:
    return T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(), T.Normalize(MEAN, STD)])


def timms() -> Any:
    """timm's training recipe; its transforms are torchvision's and its own, on PIL images."""
    return create_transform(224, is_training=True, auto_augment="rand-m9-mstd0.5-inc1")


class Preset:
    """vision's ``ClassificationPresetTrain``, of references/classification/presets.py, with its defaults."""

    def __init__(self, T: Any) -> None:
        steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(0.5), T.PILToTensor()]
        steps += [T.ConvertImageDtype(torch.float), T.Normalize(mean=MEAN, std=STD)]
        self.transforms = T.Compose(steps)

    def __call__(self, image: Any) -> Any:
        return self.transforms(image)


class Dino:
    """``DataAugmentationDINO`` of DINO's main_dino.py: two large crops and eight small ones."""

    def __init__(self, T: Any) -> None:
        jitter = [T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), T.RandomGrayscale(p=0.2)]
        flip = T.Compose([T.RandomHorizontalFlip(p=0.5), *jitter])
        normalize = T.Compose([T.ToTensor(), T.Normalize(MEAN, STD)])

        def crop(size: int, scale: tuple[float, float], *behind: Any) -> Any:
            return T.Compose([T.RandomResizedCrop(size, scale=scale, interpolation=BICUBIC), flip, *behind, normalize])

        self.first = crop(224, (0.4, 1.0), Blur(1.0))
        self.second = crop(224, (0.4, 1.0), Blur(0.1), Solarization(0.2))
        self.local = crop(96, (0.05, 0.4), Blur(0.5))

    def __call__(self, image: Any) -> list[Any]:
        return [self.first(image), self.second(image), *(self.local(image) for _ in range(8))]


class TwoCrops:
    """SimCLR's and MoCo v3's: two views of each image."""

    def __init__(self, T: Any) -> None:
        steps = [T.RandomResizedCrop(224, scale=(0.2, 1.0)), T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)]
        steps += [T.RandomGrayscale(p=0.2), T.RandomApply([Blur(1.0)], p=0.5), T.RandomHorizontalFlip()]
        self.view = T.Compose([*steps, T.ToTensor(), T.Normalize(MEAN, STD)])

    def __call__(self, image: Any) -> list[Any]:
        return [self.view(image), self.view(image)]


class Own:
    """A dataset of one's own."""

    def __init__(self, paths: list[str], transform: Any, open_image: Callable[[str], Any]) -> None:
        self.paths, self.transform, self.open_image = paths, transform, open_image

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.transform(self.open_image(self.paths[index]).convert("RGB")), index


def rows(folder: Path, paths: list[str]) -> dict[str, tuple[float, Any, Any, bool]]:
    """For each row the mark, torchvision's dataset, the one beside it, and whether that has the opener."""
    folders = torchvision.datasets.ImageFolder
    found: dict[str, tuple[float, Any, Any, bool]] = {}
    for name, build in (("training", training), ("evaluation", evaluation)):
        dataset = folders(folder, build(theirs))
        found[f"torchvision untouched, opener: {name}"] = 3, dataset, dataset, True
    if create_transform is not None:
        dataset = folders(folder, timms())
        found["timm untouched, opener: RandAugment"] = 1.7, dataset, dataset, True
    for name, opener, mark in (("Image.open", Image.open, 1.35), ("open_image", fastpipe.open_image, 4.5)):
        before = Own(paths, training(theirs), Image.open)
        found[f"own dataset, our transforms, {name}"] = mark, before, Own(paths, training(ours), opener), False
    for name, kind, mark in (("preset", Preset, 4.5), ("DINO", Dino, 3), ("two crops", TwoCrops, 3)):
        pair = folders(folder, kind(theirs)), fastpipe.ImageFolder(folder, kind(ours))
        found[f"our dataset and transforms: {name}"] = mark, *pair, False
    return found


@contextlib.contextmanager
def opener(wanted: bool) -> Iterator[None]:
    with fastpipe.register_pillow_opener() if wanted else contextlib.nullcontext():
        yield


def sample_of(dataset: Any, index: int) -> Any:
    """A sample, or the words of its error: timm posterizes to no bits, now and then, which Pillow 13 refuses."""
    try:
        return dataset[index][0]
    except ValueError as error:
        return str(error)


def one_pass(dataset: Any, indices: list[int], with_opener: bool, seed: int = 0) -> tuple[float, list[Any]]:
    """µs of processor time a sample, and the samples with the generators' end state."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - which timm draws from
    with opener(with_opener):
        begin = time.process_time()
        samples = [sample_of(dataset, index) for index in indices]
        seconds = time.process_time() - begin
    return 1e6 * seconds / len(indices), [*samples, [torch.get_rng_state(), torch.tensor(random.random())]]


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and (one == other if isinstance(one, str) else torch.equal(one, other))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--samples", type=int, default=0, help="compared of each row; a pass over the images or more")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    paths = [path for path, _ in torchvision.datasets.ImageFolder(given.photos).samples]
    step = max(1, len(paths) // given.images)
    indices = [*range(0, len(paths), step)][: given.images]
    table = Table("way to samples", "torchvision, µs", "fastpipe, µs", "times", "mark")
    figures: dict[str, Any] = {}
    for name, (mark, before, after, with_opener) in rows(given.photos, paths).items():
        if given.only not in name:
            continue
        compared, wanted = 0, max(given.samples, len(indices))
        while compared < wanted:
            some = indices[: wanted - compared]
            if not equal(one_pass(before, some, False, compared)[1], one_pass(after, some, with_opener, compared)[1]):
                raise SystemExit(f"{name}: the samples aren't torchvision's")
            compared += len(some)
        print(f"{name}: {compared:,} of {compared:,} samples are torchvision's")
        pairs = [
            (one_pass(before, indices, False)[0], one_pass(after, indices, with_opener)[0]) for _ in range(given.rounds)
        ]
        slow, fast = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
        ratio = statistics.median(one / other for one, other in pairs)
        figures[name] = {"torchvision_us": slow, "fastpipe_us": fast, "ratio": ratio, "mark": mark}
        table.add_row(name, f"{slow:,.0f}", f"{fast:,.0f}", f"{ratio:.2f}", f"{mark}")
    Console().print(table)
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
