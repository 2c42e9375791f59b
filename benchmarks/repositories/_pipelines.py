"""Code that these pipelines share: a registry, photos, and datasets as in most repositories."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFilter
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision_here import module, torchvision

T = module("torchvision.transforms")
F = module("torchvision.transforms.functional")
V = module("torchvision.transforms.v2")
BICUBIC = T.InterpolationMode.BICUBIC
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
HALF = [0.5, 0.5, 0.5]


@dataclass(frozen=True)
class Photos:
    """A folder with a folder for each class; ``files`` are some of its files, evenly from all classes."""

    root: Path
    files: list[str]


Make = Callable[[Photos], Iterable[Any]]
PIPELINES: dict[str, Make] = {}
"""Functions that each make the loader or dataset over which a repository iterates."""


def pipeline(name: str) -> Callable[[Make], Make]:
    """Registers what a repository does by its name."""

    def add(make: Make) -> Make:
        PIPELINES[name] = make
        return make

    return add


def folder(transform: Any) -> Make:
    """torchvision's ImageFolder in torch's loader."""

    def make(photos: Photos) -> Iterable[Any]:
        whole = torchvision.datasets.ImageFolder(str(photos.root), transform)
        numbers = {path: number for number, (path, _) in enumerate(whole.samples)}
        return DataLoader(Subset(whole, [numbers[path] for path in photos.files]), 16)

    return make


class Own(Dataset[Any]):
    """The repository's own dataset: opens, converts and transforms an image."""

    def __init__(self, files: Sequence[str], transform: Any) -> None:
        self.files, self.transform = files, transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(self.files[index]).convert("RGB")), index


def own(transform: Any) -> Make:
    """The repository's own dataset in torch's loader."""
    return lambda photos: DataLoader(Own(photos.files, transform), 16)


class Views:
    """A repository's class that makes views one after the other."""

    def __init__(self, *views: Any) -> None:
        self.views = views

    def __call__(self, image: Any) -> list[Any]:
        return [view(image) for view in self.views]


class Blur:
    """SimCLR's blur by Pillow, as MoCo, SimSiam and others have it."""

    def __init__(self, sigma: Sequence[float] = (0.1, 2.0), p: float = 1.0) -> None:
        self.sigma, self.p = sigma, p

    def __call__(self, image: Any) -> Any:
        if random.random() > self.p:
            return image
        return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(*self.sigma)))


def tensor(mean: Sequence[float] = MEAN, std: Sequence[float] = STD) -> list[Any]:
    """The conversion and normalisation at the end of nearly all pipelines."""
    return [T.ToTensor(), T.Normalize(mean, std)]


def training(*middle: Any, size: int = 224, **crop: Any) -> Any:
    """The crop and the flip that nearly all begin with."""
    return T.Compose([T.RandomResizedCrop(size, **crop), T.RandomHorizontalFlip(), *middle, *tensor()])


def evaluation(resize: Any = 256, size: int = 224, **more: Any) -> Any:
    """The resized centre."""
    return T.Compose([T.Resize(resize, **more), T.CenterCrop(size), *tensor()])


def squares(photos: Photos, size: int, mode: str = "RGB") -> np.ndarray[Any, Any]:
    """The photos as one array, like datasets of small images."""
    images = []
    for name in photos.files:
        with Image.open(name) as image:
            images.append(np.asarray(image.convert(mode).resize((size, size))))
    return np.stack(images)


def masks_of(photos: Photos, folder: Path) -> list[tuple[str, str]]:
    """Each file with a mask of its size: a PNG of 20 classes with a palette, as Pascal VOC has them."""
    pairs = []
    for number, name in enumerate(photos.files):
        with Image.open(name) as image:
            small = np.random.default_rng(number).integers(0, 20, (6, 8), np.uint8)
            mask = Image.fromarray(small, "P").resize(image.size, Image.Resampling.NEAREST)
        mask.putpalette([value for color in range(256) for value in (color, color * 7 % 256, color * 13 % 256)])
        path = folder / f"{number}.png"
        mask.save(path)
        pairs.append((name, str(path)))
    return pairs
