"""torchvision's v2 in fastpipe and in torchvision, in one run: speed, equality, and what a million boxes take.

    python benchmarks/v2.py PHOTOS LARGE [--rounds 5] [--json FILE]
    python benchmarks/v2.py PHOTOS LARGE --equality 500
    python benchmarks/v2.py PHOTOS LARGE --boxes 1000000

PHOTOS is a folder as ImageFolder takes it, LARGE a folder with JPEGs of large photos, at any depth. One process, one
thread, files from disk. Rounds are interleaved; a figure is the median over the rounds, a ratio the median of each
round's.

The rows: classification with v1's transforms and with v2's; detection (RandomPhotometricDistort, RandomZoomOut,
RandomIoUCrop, RandomHorizontalFlip, SanitizeBoundingBoxes, ToDtype) on large photos, as PIL images and as tensors from
the start; segmentation (RandomResizedCrop, a flip, colour) with a mask file for each photo. Each sample is drawn from a
seed of its own, the same for both, and samples differ much: detection draws a canvas of up to 16 times the photo.
"""

from __future__ import annotations

import argparse
import json
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from rich.table import Table

import fastpipe
from fastpipe.reporting.output import make_console
from fastpipe.tools.timing import one_thread
from fastpipe.tools.torchvision_mirror import import_torchvision

torchvision = import_torchvision()

import torchvision.transforms.v2 as theirs  # noqa: E402 - behind what makes torchvision importable
from torchvision import tv_tensors  # noqa: E402 - behind what makes torchvision importable

from fastpipe import transforms as T  # noqa: E402 - behind what makes torchvision importable
from fastpipe.transforms import v2  # noqa: E402 - behind what makes torchvision importable

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def classification(module: Any) -> Any:
    return module.Compose(
        [
            module.RandomResizedCrop(224),
            module.RandomHorizontalFlip(),
            module.ToImage(),
            module.ToDtype(torch.float32, scale=True),
            module.Normalize(MEAN, STD),
        ]
    )


def detection(module: Any, tensors: bool) -> Any:
    first, last = ([module.ToImage()], []) if tensors else ([], [module.ToImage()])
    return module.Compose(
        [
            *first,
            module.RandomPhotometricDistort(),
            module.RandomZoomOut(),
            module.RandomIoUCrop(),
            module.RandomHorizontalFlip(),
            module.SanitizeBoundingBoxes(),
            *last,
            module.ToDtype(torch.float32, scale=True),
        ]
    )


def segmentation(module: Any, tensors: bool) -> Any:
    first, last = ([module.ToImage()], []) if tensors else ([], [module.ToImage()])
    return module.Compose(
        [
            *first,
            module.RandomResizedCrop((480, 480)),
            module.RandomHorizontalFlip(),
            module.ColorJitter(0.3, 0.3, 0.3),
            *last,
            module.ToDtype(torch.float32, scale=True),
            module.Normalize(MEAN, STD),
        ]
    )


def boxes_of(number: int, size: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(number)
    corners = rng.uniform(0, 0.7, (8, 2)) * (size[1], size[0])
    return np.concatenate([corners, corners + rng.uniform(0.1, 0.3, (8, 2)) * (size[1], size[0])], 1).astype(np.float32)


class Samples:
    """The photos with boxes and masks, as fastpipe's `SampleDataset` has them, and as people write them."""

    def __init__(self, photos: list[Path], masks: Path) -> None:
        self.photos = [str(path) for path in photos]
        self.sizes, self.masks = [], []
        for number, path in enumerate(photos):
            with Image.open(path) as image:
                size = (image.height, image.width)
            rng = np.random.default_rng(number)
            rough = rng.integers(0, 21, (size[0] // 64 + 1, size[1] // 64 + 1), dtype=np.uint8)
            mask = masks / f"{number}.png"
            Image.fromarray(rough.repeat(64, 0).repeat(64, 1)[: size[0], : size[1]]).save(mask)
            self.sizes.append(size)
            self.masks.append(str(mask))

    def detection(self, index: int) -> tuple[Any, ...]:
        target = {"boxes": fastpipe.Boxes(boxes_of(index, self.sizes[index])), "labels": torch.arange(8)}
        return self.photos[index], target

    def segmentation(self, index: int) -> tuple[Any, ...]:
        return self.photos[index], fastpipe.MaskFile(self.masks[index])

    def their_detection(self, index: int, transform: Any) -> Any:
        image = Image.open(self.photos[index]).convert("RGB")
        size = self.sizes[index]
        boxes = tv_tensors.BoundingBoxes(boxes_of(index, size), format="XYXY", canvas_size=size)
        return transform(image, {"boxes": boxes, "labels": torch.arange(8)})

    def their_segmentation(self, index: int, transform: Any) -> Any:
        image = Image.open(self.photos[index]).convert("RGB")
        return transform(image, tv_tensors.Mask(Image.open(self.masks[index])))


def rows(photos: str, samples: Samples) -> dict[str, tuple[dict[str, Callable[[int], Any]], int]]:
    """For each row its contenders, fastpipe the one that others are compared with, and the samples of a round."""
    v1_chain = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])
    with_v1 = fastpipe.ImageFolder(photos, v1_chain)
    with_v2 = fastpipe.ImageFolder(photos, classification(v2))
    their_folder = torchvision.datasets.ImageFolder(photos, classification(theirs))
    found: dict[str, tuple[dict[str, Callable[[int], Any]], int]] = {
        "classification": (
            {
                "fastpipe": lambda index: with_v2[index],
                "fastpipe v1": lambda index: with_v1[index],
                "torchvision": lambda index: their_folder[index],
            },
            min(200, len(with_v2)),
        )
    }
    count = len(samples.photos)
    for tensors in (False, True):
        kind = "tensors" if tensors else "PIL"
        for name, make, sample, their_sample in (
            ("detection", detection, samples.detection, samples.their_detection),
            ("segmentation", segmentation, samples.segmentation, samples.their_segmentation),
        ):
            dataset = fastpipe.SampleDataset(sample, count, make(v2, tensors))
            chain = make(theirs, tensors)
            found[f"{name}, {kind}"] = (
                {
                    "fastpipe": lambda index, dataset=dataset: dataset[index % count],
                    "torchvision": lambda index, chain=chain, run=their_sample: run(index % count, chain),
                },
                2 * count,
            )
    return found


def measured(contenders: dict[str, Callable[[int], Any]], count: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds a sample, one figure a round; each sample from a seed of its own."""

    def run(sample: Callable[[int], Any]) -> Callable[[int], float]:
        def one_round(number: int) -> float:
            start = time.perf_counter()
            for index in range(count):
                torch.manual_seed(1000 * number + index)
                sample(index)
            return (time.perf_counter() - start) * 1000 / count

        return one_round

    figures: dict[str, list[float]] = {name: [] for name in contenders}
    runs = {name: run(sample) for name, sample in contenders.items()}
    for sample in contenders.values():
        sample(0)
    for number in range(rounds):
        for name in runs if number % 2 else reversed(runs):
            figures[name].append(runs[name](number))
    return figures


def equality(photos: str, samples: Samples, count: int) -> dict[str, int]:
    """Random pipelines on whole samples, planned and not: how many differ in a draw, a box, a mask, a byte, a state."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from v2_pipelines import pipeline, same

    folder, their_folder = fastpipe.ImageFolder(photos), torchvision.datasets.ImageFolder(photos)
    differences = dict.fromkeys(("image, planned", "sample, planned", "sample, unplanned"), 0)
    for seed in range(count):
        index = seed % len(samples.photos)

        def outcome(run: Callable[[], Any], seed: int = seed) -> Any:
            torch.manual_seed(seed)
            try:
                return run(), torch.get_rng_state()
            except (TypeError, ValueError, RuntimeError) as error:
                return type(error)

        folder.transform = v2.Compose(pipeline(v2, seed))
        their_folder.transform = theirs.Compose(pipeline(theirs, seed))
        number = seed % len(folder)
        if not same(outcome(lambda: folder[number][0]), outcome(lambda: their_folder[number][0])):  # noqa: B023
            differences["image, planned"] += 1

        def function(index: int) -> tuple[Any, ...]:
            return (*samples.detection(index), fastpipe.MaskFile(samples.masks[index]))

        def expected(index: int = index, seed: int = seed) -> Any:
            transform = theirs.Compose(pipeline(theirs, seed, boxes=True))
            mask = tv_tensors.Mask(Image.open(samples.masks[index]))
            return samples.their_detection(index, lambda image, target: transform(image, target, mask))

        wanted = outcome(expected)
        members = pipeline(v2, seed, boxes=True)
        plain = {"loader": lambda path: Image.open(path).convert("RGB")}
        for name, options in (("sample, planned", {}), ("sample, unplanned", plain)):
            dataset = fastpipe.SampleDataset(function, len(samples.photos), v2.Compose(members), **options)
            if not same(outcome(lambda: dataset[index]), wanted):  # noqa: B023 - called now
                differences[name] += 1
    return differences


def many_boxes(count: int, photo: str) -> dict[str, float]:
    """A dataset of that many boxes: the bytes that it pickles to, and a worker's private memory after epoch 1 and 3."""
    import psutil

    with tempfile.TemporaryDirectory() as folder:
        images = [{"id": number, "file_name": photo} for number in range(count // 10)]
        annotations = (
            {"id": n, "image_id": n // 10, "bbox": [n % 50, 5.5, 20, 30], "category_id": n % 80} for n in range(count)
        )
        path = Path(folder) / "instances.json"
        path.write_text(json.dumps({"images": images, "annotations": list(annotations)}))
        transforms = v2.Compose([v2.RandomResizedCrop(32), v2.ToImage()])
        dataset = fastpipe.wrap_dataset_for_transforms_v2(fastpipe.CocoDetection("", path, transforms=transforms))
        size = len(pickle.dumps(dataset))
        # An epoch touches all boxes and decodes few images.
        loader = fastpipe.DataLoader(
            _Touched(dataset), batch_size=50, num_workers=1, persistent_workers=True, collate_fn=fastpipe.collate_fn
        )
        taken = []
        for _ in range(3):
            for _ in loader:
                pass
            worker = psutil.Process().children()[-1]
            taken.append(worker.memory_full_info().uss / 2**20)
    return {"pickle_bytes": size, "first_epoch_mib": taken[0], "third_epoch_mib": taken[-1]}


class _Touched(torch.utils.data.Dataset[Any]):
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return 500

    def __getitem__(self, index: int) -> Any:
        step = len(self.dataset) // len(self)
        annotations = self.dataset.annotations
        boxes = sum(float(annotations.boxes(number).sum()) for number in range(index * step, (index + 1) * step))
        return self.dataset[index * step][0], boxes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("large")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", default="", help="only those that have this in their name")
    parser.add_argument("--equality", type=int, default=0, metavar="N")
    parser.add_argument("--boxes", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = make_console()
    result: dict[str, Any] = {}
    large = sorted(path for path in Path(options.large).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not large:
        parser.error(f"{options.large} holds no .jpg or .jpeg file: name a folder with large photos")
    with tempfile.TemporaryDirectory() as masks, one_thread():
        if options.boxes:
            result = many_boxes(options.boxes, str(sorted(Path(options.photos).glob("*/*"))[0]))
        elif options.equality:
            some = sorted(path for path in Path(options.photos).glob("*/*") if path.is_file())[:50]
            result = equality(options.photos, Samples(some, Path(masks)), options.equality)
        else:
            table = Table("row", "contender", "ms a sample", "times as long as fastpipe")
            for row, (contenders, count) in rows(options.photos, Samples(large, Path(masks))).items():
                if options.rows not in row:
                    continue
                figures = measured(contenders, count, options.rounds)
                result[row] = {name: round(statistics.median(values), 3) for name, values in figures.items()}
                for name, values in figures.items():
                    ratio = statistics.median(b / a for a, b in zip(figures["fastpipe"], values, strict=True))
                    table.add_row(row, name, f"{statistics.median(values):.2f}", f"{ratio:.2f}")
            console.print(table)
    if options.equality or options.boxes:
        console.print(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
