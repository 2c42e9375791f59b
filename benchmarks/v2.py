"""Compares v2 transforms of samples with boxes and masks in fastpipe's datasets and in datasets that users write.

    python benchmarks/v2.py PHOTOS [--rounds 5] [--only WORD] [--json FILE]

PHOTOS is a folder with JPEGs at any depth; with large ones, decoding only a part saves more. One process, one thread,
files from disk. Detection is RandomPhotometricDistort, RandomZoomOut, RandomIoUCrop, a flip and SanitizeBoundingBoxes;
segmentation is RandomResizedCrop, a flip and colour, with a mask file for each photo; each begins with PIL images or
with tensors. For transforms of images only, see `benchmarks/recipes.py`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import MEAN, STD, Benchmark, calls, command_line, module, photos, samples
from PIL import Image

import fastpipe
from fastpipe.transforms import v2 as ours

theirs = module("torchvision.transforms.v2")
tv_tensors = module("torchvision.tv_tensors")
COUNT = 24


def detection(module: Any, tensors: bool) -> Any:
    steps = [
        module.RandomPhotometricDistort(),
        module.RandomZoomOut(),
        module.RandomIoUCrop(),
        module.RandomHorizontalFlip(),
        module.SanitizeBoundingBoxes(),
    ]
    return module.Compose([*_with_tensors(module, steps, tensors), module.ToDtype(torch.float32, scale=True)])


def segmentation(module: Any, tensors: bool) -> Any:
    steps = [
        module.RandomResizedCrop((480, 480)),
        module.RandomHorizontalFlip(),
        module.ColorJitter(0.3, 0.3, 0.3),
    ]
    end = [module.ToDtype(torch.float32, scale=True), module.Normalize(MEAN, STD)]
    return module.Compose([*_with_tensors(module, steps, tensors), *end])


def _with_tensors(module: Any, steps: list[Any], first: bool) -> list[Any]:
    return [module.ToImage(), *steps] if first else [*steps, module.ToImage()]


class Samples:
    """Photos with boxes and masks, for fastpipe's `SampleDataset` and for datasets that users write."""

    def __init__(self, paths: list[Path], masks: Path) -> None:
        self.photos = [str(path) for path in paths]
        self.sizes: list[tuple[int, int]] = []
        self.masks: list[str] = []
        for number, path in enumerate(paths):
            with Image.open(path) as image:
                height, width = image.height, image.width
            rough = np.random.default_rng(number).integers(0, 21, (height // 64 + 1, width // 64 + 1), dtype=np.uint8)
            mask = masks / f"{number}.png"
            Image.fromarray(rough.repeat(64, 0).repeat(64, 1)[:height, :width]).save(mask)
            self.sizes.append((height, width))
            self.masks.append(str(mask))

    def boxes(self, index: int) -> np.ndarray:
        """Eight boxes ``(8, 4)`` in XYXY format."""
        rng = np.random.default_rng(index)
        size = np.array(self.sizes[index][::-1])
        corners = rng.uniform(0, 0.7, (8, 2)) * size
        return np.concatenate([corners, corners + rng.uniform(0.1, 0.3, (8, 2)) * size], 1).astype(np.float32)

    def detection(self, index: int) -> tuple[Any, ...]:
        return self.photos[index], {"boxes": fastpipe.Boxes(self.boxes(index)), "labels": torch.arange(8)}

    def segmentation(self, index: int) -> tuple[Any, ...]:
        return self.photos[index], fastpipe.MaskFile(self.masks[index])

    def their_detection(self, index: int) -> tuple[Any, ...]:
        boxes = tv_tensors.BoundingBoxes(self.boxes(index), format="XYXY", canvas_size=self.sizes[index])
        return Image.open(self.photos[index]).convert("RGB"), {"boxes": boxes, "labels": torch.arange(8)}

    def their_segmentation(self, index: int) -> tuple[Any, ...]:
        return Image.open(self.photos[index]).convert("RGB"), tv_tensors.Mask(Image.open(self.masks[index]))


def main() -> None:
    bench = Benchmark(command_line(__doc__).parse_args(), "v2", "sample")
    with tempfile.TemporaryDirectory() as masks:
        data = Samples(photos(bench.options.photos, COUNT), Path(masks))
        count = len(data.photos)
        for name, make, ours_of, theirs_of in (
            ("detection", detection, data.detection, data.their_detection),
            ("segmentation", segmentation, data.segmentation, data.their_segmentation),
        ):
            for tensors in (False, True):
                dataset = fastpipe.SampleDataset(ours_of, count, make(ours, tensors))
                chain = make(theirs, tensors)
                contenders = {
                    "torchvision": calls(lambda index, made=theirs_of, run=chain: run(*made(index)), range(count)),
                    "fastpipe": samples(dataset, count),
                }
                bench.row(f"{name}, {'tensors' if tensors else 'PIL'} first", contenders, count)
    bench.finish()


if __name__ == "__main__":
    main()
