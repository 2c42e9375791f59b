"""Code that these pipelines share: the registry, and datasets and transforms as in most repositories.

A repository's own dataset is a function of an index, or of a file's name, whatever class the repository has for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import MEAN, STD
from PIL import Image, ImageFilter
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision_here import module, torchvision

T = module("torchvision.transforms")
F = module("torchvision.transforms.functional")
V = module("torchvision.transforms.v2")
BICUBIC = T.InterpolationMode.BICUBIC
HALF = [0.5, 0.5, 0.5]


@dataclass(frozen=True)
class Photos:
    """A folder with a folder for each class; ``files`` are some of its files, evenly from all classes."""

    root: Path
    files: list[str]


# -- the registry

Make = Callable[[Photos], Iterable[Any]]
PIPELINES: dict[str, Make] = {}
"""Functions that each make the loader or dataset over which a repository iterates."""


def pipeline(name: str) -> Callable[[Make], Make]:
    """Registers a function of the photos by the repository's name."""

    def add(make: Make) -> Make:
        PIPELINES[name] = make
        return make

    return add


def of_file(name: str, batch: int | None = 16) -> Callable[[Callable[[str], Any]], Any]:
    """Registers a function that makes a sample of a file's name, as `by_file` does."""

    def add(make: Callable[[str], Any]) -> Any:
        PIPELINES[name] = by_file(make, batch)
        return make

    return add


def chains(dataset: Callable[[Any], Make], made: Mapping[str, Callable[[], Any]]) -> None:
    """Registers a dataset (`folder` or `own`) with each of some transforms, by functions that make them."""
    for name, make in made.items():
        PIPELINES[name] = lambda photos, make=make: dataset(make())(photos)


# -- datasets


class Samples(Dataset[Any]):
    """A repository's own dataset: a function of an index."""

    def __init__(self, length: int, make: Callable[[int], Any]) -> None:
        self.length, self.make = length, make

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def loader(length: int, make: Callable[[int], Any], batch: int | None = 16, **options: Any) -> Any:
    """torch's loader of a repository's own dataset. Without `batch`, it gives single samples, of any size."""
    return DataLoader(Samples(length, make), batch, **options)


def opened(file: Any) -> Any:
    """The image of a file as nearly all repositories open it."""
    return Image.open(file).convert("RGB")


def by_file(make: Callable[[str], Any], batch: int | None = 16) -> Make:
    """The repository's own dataset, which makes a sample of a file's name."""
    return lambda photos: loader(len(photos.files), lambda index: make(photos.files[index]), batch)


def own(transform: Any, batch: int = 16) -> Make:
    """The repository's own dataset, which opens, converts and transforms an image."""

    def make(photos: Photos) -> Iterable[Any]:
        return loader(len(photos.files), lambda index: (transform(opened(photos.files[index])), index), batch)

    return make


def folder(transform: Any) -> Make:
    """torchvision's ImageFolder in torch's loader."""

    def make(photos: Photos) -> Iterable[Any]:
        whole = torchvision.datasets.ImageFolder(str(photos.root), transform)
        numbers = {path: number for number, (path, _) in enumerate(whole.samples)}
        return DataLoader(Subset(whole, [numbers[path] for path in photos.files]), 16)

    return make


# -- transforms


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


# -- files made of the photos


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
