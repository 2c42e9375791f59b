"""Training scripts' own inputs beside what the page about presets makes of them.

    python benchmarks/presets.py PHOTOS [--files 96] [--rounds 3] [--only WORD] [--json FILE]

PHOTOS is a folder as ImageFolder takes it (root/class/….jpg). Boxes and masks are made up for it. Each round makes the
same epoch by the original and by what the page shows, in turns, in one thread; a figure is processor time, workers' own
included where there are some; the ratio is the median over the rounds. `equal` says that all batches were the same;
workers are told apart by their order, so it is left out there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import torch
from multi_view import DINO, OneByOne, moco
from paired import in_turns
from PIL import Image
from recipe_conformance import flat, seed_all
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader, Subset
from torchvision_here import module, torchvision

import fastpipe

T, V = module("torchvision.transforms"), module("torchvision.transforms.v2")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
Pair = tuple[Any, Any]


class ClassificationPresetTrain:
    """references/classification/presets.py, with the arguments of the recipe for ResNet-50."""

    def __init__(self) -> None:
        steps = [T.RandomResizedCrop(176), T.RandomHorizontalFlip(0.5), T.TrivialAugmentWide(), T.PILToTensor()]
        steps += [T.ConvertImageDtype(torch.float), T.Normalize(MEAN, STD), T.RandomErasing(p=0.1)]
        self.transforms = T.Compose(steps)

    def __call__(self, image: Any) -> Any:
        return self.transforms(image)


def detection() -> Any:
    """references/detection/presets.py: "hflip", on PIL images, with v2."""
    steps = [V.RandomHorizontalFlip(p=0.5), V.ToImage(), V.ToDtype(torch.float, scale=True)]
    return V.Compose([*steps, V.ConvertBoundingBoxFormat("XYXY"), V.SanitizeBoundingBoxes(), V.ToPureTensor()])


def segmentation() -> Any:
    """references/segmentation/presets.py with v2: base size 520, crop 480."""
    steps = [V.RandomResize(260, 1040), V.RandomHorizontalFlip(0.5), V.RandomCrop(480, pad_if_needed=True), V.ToImage()]
    return V.Compose([*steps, V.ToDtype(torch.float32, scale=True), V.Normalize(MEAN, STD), V.ToPureTensor()])


def few(dataset: Any, files: int) -> Subset[Any]:
    count = min(files, len(dataset))
    return Subset(dataset, [number * len(dataset) // count for number in range(count)])


def folder(photos: Path, transform: Any) -> Any:
    return torchvision.datasets.ImageFolder(str(photos), transform)


def _classification(photos: Path, files: int, scratch: Path) -> Pair:
    preset = ClassificationPresetTrain()
    before = DataLoader(few(folder(photos, preset), files), batch_size=32)
    after = fastpipe.convert(DataLoader(few(folder(photos, preset.transforms), files), batch_size=32))
    return before, after


def _detection(photos: Path, files: int, scratch: Path) -> Pair:
    images, annotations = [], []
    for number, (path, _) in enumerate(few_samples(photos, files)):
        images.append({"id": number, "file_name": path})
        boxes = [{"bbox": [10 * n, 20, 60 + n, 50], "category_id": n, "area": 100, "iscrowd": 0} for n in range(1, 6)]
        annotations += [{"id": 10 * number + n, "image_id": number, **box} for n, box in enumerate(boxes)]
    file = scratch / "coco.json"
    file.write_text(json.dumps({"images": images, "annotations": annotations, "categories": []}))
    with contextlib.redirect_stdout(None):
        dataset = torchvision.datasets.CocoDetection("/", str(file), transforms=detection())
    wrapped = torchvision.datasets.wrap_dataset_for_transforms_v2(dataset)
    before = DataLoader(wrapped, batch_size=8, collate_fn=fastpipe.collate_fn)
    return before, fastpipe.convert(before)


def _segmentation(photos: Path, files: int, scratch: Path) -> Pair:
    base = scratch / "VOCdevkit" / "VOC2012"
    for part in ("ImageSets/Segmentation", "JPEGImages", "SegmentationClass"):
        (base / part).mkdir(parents=True)
    names = []
    for number, (path, _) in enumerate(few_samples(photos, files)):
        names.append(f"{number:06d}")
        (base / "JPEGImages" / f"{names[-1]}.jpg").symlink_to(path)
        with Image.open(path) as image:
            rows, columns = np.mgrid[: image.height, : image.width] // 40
        Image.fromarray(((rows + columns) % 21).astype(np.uint8)).convert("P").save(
            base / "SegmentationClass" / f"{names[-1]}.png"
        )
    (base / "ImageSets" / "Segmentation" / "train.txt").write_text("\n".join(names))
    dataset = torchvision.datasets.VOCSegmentation(str(scratch), transforms=segmentation())
    before = DataLoader(torchvision.datasets.wrap_dataset_for_transforms_v2(dataset), batch_size=8)
    return before, fastpipe.convert(before)


def _timm(photos: Path, files: int, scratch: Path) -> Pair:
    data = module("timm.data")
    dataset = few(data.ImageDataset(str(photos)), files)
    dataset.transform = None
    given = {"is_training": True, "auto_augment": "rand-m6-mstd0.5-inc1", "re_prob": 0.25, "interpolation": "bicubic"}
    given |= {"num_workers": 0, "persistent_workers": False, "device": torch.device("cpu")}
    before = data.create_loader(dataset, (3, 224, 224), 32, **given)
    dataset.dataset.transform = dataset.transform  # create_loader gives it to the data set that it sees
    return before, fastpipe.convert(before)


def _dino(photos: Path, files: int, scratch: Path) -> Pair:
    counts = [1, 1, 8]
    before = DataLoader(few(folder(photos, OneByOne(DINO, counts)), files), batch_size=16)
    after = fastpipe.convert(DataLoader(few(folder(photos, fastpipe.MultiView(DINO, counts)), files), batch_size=16))
    return before, after


def _simclr(photos: Path, files: int, scratch: Path) -> Pair:
    view = moco(0.5, 0.0)
    before = DataLoader(few(folder(photos, OneByOne([view], [2])), files), batch_size=16)
    return before, fastpipe.convert(DataLoader(few(folder(photos, fastpipe.MultiView(view, 2)), files), batch_size=16))


def _workers(loader: type[Any]) -> Callable[[Path, int, Path], Pair]:
    def make(photos: Path, files: int, scratch: Path) -> Pair:
        steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
        dataset = few(folder(photos, T.Compose(steps)), 8 * files)
        given = {"batch_size": 32, "num_workers": 2}
        return DataLoader(dataset, **given), loader(fastpipe.convert(dataset), **given)

    return make


def few_samples(photos: Path, files: int) -> list[tuple[str, int]]:
    subset = few(folder(photos, None), files)
    return [(str(Path(path).resolve()), label) for path, label in (subset.dataset.samples[n] for n in subset.indices)]


ROWS: dict[str, Callable[[Path, int, Path], Pair]] = {
    "timm's train.py: rand-m6-mstd0.5-inc1, erasing": _timm,
    "references/classification: TrivialAugmentWide, erasing": _classification,
    "references/detection: hflip, COCO, v2": _detection,
    "references/segmentation: VOC, v2": _segmentation,
    "DINO: ten crops": _dino,
    "SimCLR: two crops": _simclr,
    "two workers: fastpipe's data set in torch's DataLoader": _workers(DataLoader),
    "two workers: fastpipe.DataLoader": _workers(fastpipe.DataLoader),
}


def seconds() -> float:
    """Processor time of this process, and of workers that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def one_pass(loader: Any, keep: bool = False) -> tuple[float, Any]:
    seed_all(1)
    start = seconds()
    kept = [flat(batch) if keep else None for batch in loader]
    return seconds() - start, kept


def microseconds(pair: Sequence[Any], count: int, side: int) -> float:
    """The processor time of a sample of one of two loaders, over a whole pass."""
    return one_pass(pair[side])[0] / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--files", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("script", "its own, µs an image", "as on the page, µs", "ratio", "equal")
    found = []
    for name, make in ROWS.items():
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            try:
                pair = make(options.photos, options.files, Path(scratch))
            except ImportError as error:
                table.add_row(name, str(error))
                continue
            equal = None
            if "workers" not in name:
                equal = one_pass(pair[0], True)[1] == one_pass(pair[1], True)[1]
            count = len(getattr(pair[0], "loader", pair[0]).dataset)
            task = partial(microseconds, pair, count)
            before, after, ratio = in_turns([task], options.rounds)
        found.append({"script": name, "theirs_us": before, "fastpipe_us": after, "ratio": ratio, "equal": equal})
        same = "" if equal is None else "yes" if equal else "NO"
        table.add_row(name, f"{before:,.0f}", f"{after:,.0f}", f"{ratio:.2f}x", same)
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps({"schema": "fastpipe-presets/1", "scripts": found}, indent=1))


if __name__ == "__main__":
    main()
