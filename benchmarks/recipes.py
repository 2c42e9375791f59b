"""Recipes as people have them: a library's own objects as it runs them, and the same objects run by fastpipe.

    python benchmarks/recipes.py PHOTOS [--files 96] [--rounds 3] [--only WORD] [--json FILE]

A row is one recipe: transforms of torchvision, timm and albumentations in an ImageFolder, several views of an image in
`MultiView`, files opened by Pillow behind fastpipe's opener and by `open_image`, and loaders of other libraries' data
sets behind `fastpipe.convert`. What stands before a row's colon is the library, or the way in. One thread, no workers.
Whole scripts, untouched, are in `benchmarks/untouched.py`.

albumentations' own way decodes by cv2, whose pixels are some others; there, fastpipe has to make what the Compose makes
of Pillow's pixels.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import MEAN, STD, Benchmark, Pass, command_line, evaluation, module, samples, spread, torchvision, training
from PIL import Image, ImageOps
from recipe_conformance import Blur
from torch.utils.data import DataLoader, Subset, TensorDataset

import fastpipe
from fastpipe import transforms as ours

T, V = module("torchvision.transforms"), module("torchvision.transforms.v2")
BICUBIC = T.InterpolationMode.BICUBIC


@dataclass(frozen=True)
class Row:
    """A recipe by its library and by fastpipe; what is expected, where it isn't what the library makes itself."""

    theirs: Pass
    ours: Pass
    count: int
    reference: Pass | None = None


Make = Callable[[Path, int], Row]
"""Makes a row of a folder of photos, of at most that many samples."""


# -- a transform in both ImageFolders


def in_folders(make: Callable[[], Any]) -> Make:
    """The same transform in torchvision's ImageFolder and in fastpipe's."""

    def row(photos: Path, files: int) -> Row:
        transform = make()
        theirs = torchvision.datasets.ImageFolder(str(photos), transform)
        indices = spread(len(theirs), files)
        return Row(samples(theirs, indices), samples(fastpipe.ImageFolder(photos, transform), indices), len(indices))

    return row


def v2_training(*middle: Any, tensor_first: bool = False) -> Any:
    steps = [V.RandomResizedCrop(224), V.RandomHorizontalFlip(), *middle]
    steps = [V.ToImage(), *steps] if tensor_first else [*steps, V.ToImage()]
    return V.Compose([*steps, V.ToDtype(torch.float32, scale=True), V.Normalize(MEAN, STD)])


def v2_evaluation() -> Any:
    end = [V.ToDtype(torch.float32, scale=True), V.Normalize(MEAN, STD)]
    return V.Compose([V.ToImage(), V.Resize(256), V.CenterCrop(224), *end])


def timm(**arguments: Any) -> Any:
    return module("timm.data").create_transform(224, **arguments)


RAND_AUGMENT = {"auto_augment": "rand-m6-mstd0.5-inc1", "interpolation": "bicubic", "re_prob": 0.25, "re_mode": "pixel"}
FOLDERS: dict[str, Callable[[], Any]] = {
    "torchvision v1: crop, flip": lambda: training(T),
    "torchvision v1: crop, flip, ColorJitter": lambda: training(T, T.ColorJitter(0.4, 0.4, 0.4)),
    "torchvision v1: RandAugment": lambda: training(T, T.RandAugment()),
    "torchvision v1: evaluation": lambda: evaluation(T),
    "torchvision v2: crop, flip": v2_training,
    "torchvision v2: TrivialAugmentWide": lambda: v2_training(V.TrivialAugmentWide()),
    "torchvision v2: ToImage first": lambda: v2_training(tensor_first=True),
    "torchvision v2: ToImage first, evaluation": v2_evaluation,
    "torchvision v2: ToImage first, RandAugment": lambda: v2_training(V.RandAugment(), tensor_first=True),
    "timm: RandAugment, bicubic, erasing": lambda: timm(is_training=True, **RAND_AUGMENT),
    "timm: 3a, color jitter": lambda: timm(is_training=True, auto_augment="3a", color_jitter=0.3),
    "timm: color jitter, random filter": lambda: timm(is_training=True, interpolation="random"),
    "timm: evaluation, bicubic": lambda: timm(interpolation="bicubic", crop_pct=0.9),
    "timm: uint8 for its prefetcher": lambda: timm(is_training=True, use_prefetcher=True, color_jitter=None),
}


# -- several views of an image


class Solarization:
    """DINO's and VICReg's."""

    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        return ImageOps.solarize(image) if random.random() < self.p else image


def view(size: int, scale: tuple[float, float], *behind: Any) -> Any:
    jitter = [T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), T.RandomGrayscale(p=0.2)]
    crop = [T.RandomResizedCrop(size, scale=scale, interpolation=BICUBIC), T.RandomHorizontalFlip()]
    return T.Compose([*crop, *jitter, *behind, T.ToTensor(), T.Normalize(MEAN, STD)])


def two_views() -> list[Any]:
    """MoCo v3's and VICReg's."""
    return [view(224, (0.08, 1.0), Blur(1.0)), view(224, (0.08, 1.0), Blur(0.1), Solarization(0.2))]


def ten_crops() -> list[Any]:
    """DINO's."""
    large = [view(224, (0.4, 1.0), Blur(1.0)), view(224, (0.4, 1.0), Blur(0.1), Solarization(0.2))]
    return large + 8 * [view(96, (0.05, 0.4), Blur(0.5))]


class OneByOne:
    """The views as a repository's class makes them."""

    def __init__(self, views: list[Any]) -> None:
        self.views = views

    def __call__(self, image: Any) -> list[Any]:
        return [transform(image) for transform in self.views]


def in_multi_view(make: Callable[[], list[Any]]) -> Make:
    """torchvision's ImageFolder with a class that makes the views, and fastpipe's with a MultiView of them."""

    def row(photos: Path, files: int) -> Row:
        views = make()
        theirs = torchvision.datasets.ImageFolder(str(photos), OneByOne(views))
        indices = spread(len(theirs), files)
        together = fastpipe.ImageFolder(photos, fastpipe.MultiView(views, [1] * len(views)))
        return Row(samples(theirs, indices), samples(together, indices), len(indices))

    return row


# -- albumentations


class Read:
    """The data set that people write around an albumentations Compose."""

    def __init__(self, paths: list[tuple[str, int]], transform: Any, read: Callable[[str], Any]) -> None:
        self.paths, self.transform, self.read = paths, transform, read

    def __getitem__(self, index: int) -> Any:
        path, target = self.paths[index]
        return self.transform(image=self.read(path))["image"], target


def by_cv2(path: str) -> Any:
    cv2 = module("cv2")
    return cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)


def by_pillow(path: str) -> Any:
    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


def with_albumentations(*names: str) -> Make:
    """A Compose of transforms by name, of a seed, with their usual arguments."""

    def compose() -> Any:
        A = module("albumentations")
        arguments = {"RandomResizedCrop": ((224, 224),), "RandomCrop": (224, 224), "CenterCrop": (224, 224)}
        arguments |= {"SmallestMaxSize": (256,), "PadIfNeeded": (224, 224)}
        members = [getattr(A, name)(*arguments.get(name, ())) for name in names]
        last = [A.Normalize(MEAN, STD), module("albumentations.pytorch").ToTensorV2()]
        return A.Compose([*members, *last], seed=1)

    def row(photos: Path, files: int) -> Row:
        folder = fastpipe.ImageFolder(photos, compose())
        indices = spread(len(folder), files)
        paths = list(folder.samples)
        expected = samples(Read(paths, compose(), by_pillow), indices)
        return Row(samples(Read(paths, compose(), by_cv2), indices), samples(folder, indices), len(indices), expected)

    return row


# -- files that Pillow opens


def behind_the_opener(transform: Any) -> Make:
    """torchvision's data set and transforms as they are, without the opener and with it."""

    def row(photos: Path, files: int) -> Row:
        dataset = torchvision.datasets.ImageFolder(str(photos), transform)
        indices = spread(len(dataset), files)
        plain = samples(dataset, indices)

        def opened() -> Iterator[Any]:
            with fastpipe.register_pillow_opener():
                yield from plain()

        return Row(plain, opened, len(indices))

    return row


class Own:
    """A data set of one's own."""

    def __init__(self, paths: list[str], transform: Any, open_image: Callable[[str], Any]) -> None:
        self.paths, self.transform, self.open_image = paths, transform, open_image

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.open_image(self.paths[index]).convert("RGB"))


def opened_by(open_image: Callable[[str], Any]) -> Make:
    """A data set of one's own with torchvision's transforms, and with fastpipe's transforms and function to open."""

    def row(photos: Path, files: int) -> Row:
        paths = [path for path, _ in torchvision.datasets.ImageFolder(str(photos)).samples]
        indices = spread(len(paths), files)
        theirs, mine = Own(paths, training(T), Image.open), Own(paths, training(ours), open_image)
        return Row(samples(theirs, indices), samples(mine, indices), len(indices))

    return row


# -- loaders behind `fastpipe.convert`


def converted(make: Callable[[Path, int], Any], batch: int) -> Make:
    """A loader of a data set, and the same loader converted."""

    def row(photos: Path, files: int) -> Row:
        dataset = make(photos, files)
        loader = DataLoader(dataset, batch_size=batch)
        mine = fastpipe.convert(DataLoader(dataset, batch_size=batch))
        return Row(lambda: loader, lambda: mine, len(dataset))

    return row


def in_memory(name: str, shape: tuple[int, int, int], transform: Any, photos: Path, files: int) -> Any:
    """torchvision's data set of that name as its constructor leaves it, of random pixels."""
    kind = getattr(torchvision.datasets, name)
    dataset, count = kind.__new__(kind), 8 * files
    torchvision.datasets.VisionDataset.__init__(dataset, "data", transform=transform)
    pixels = np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)
    dataset.train = True
    if name == "MNIST":
        dataset.data, dataset.targets = torch.from_numpy(pixels[..., 0]), torch.arange(count)
    else:
        dataset.data, dataset.targets = pixels, list(range(count))
    return dataset


def cifar(photos: Path, files: int) -> Any:
    crop = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
    return in_memory("CIFAR10", (32, 32, 3), T.Compose(crop), photos, files)


def mnist(photos: Path, files: int) -> Any:
    return in_memory("MNIST", (28, 28, 1), T.Compose([T.ToTensor(), T.Normalize(0.1307, 0.3081)]), photos, files)


def tensors(photos: Path, files: int) -> Any:
    return TensorDataset(torch.randint(0, 256, (8 * files, 3, 32, 32), dtype=torch.uint8), torch.arange(8 * files))


def subset(photos: Path, files: int) -> Any:
    dataset = torchvision.datasets.ImageFolder(str(photos), training(T, T.TrivialAugmentWide()))
    return Subset(dataset, spread(len(dataset), files))


def hugging_face(photos: Path, files: int) -> Any:
    """Rows with a function that calls a Compose."""
    hf, transform = module("datasets"), training(T)
    paths = [path for path, _ in torchvision.datasets.ImageFolder(str(photos)).samples]
    paths = [paths[index] for index in spread(len(paths), files)]
    features = hf.Features({"image": hf.Image(), "label": hf.Value("int64")})
    rows = hf.Dataset.from_dict({"image": paths, "label": list(range(len(paths)))}, features=features)

    def augment(batch: dict[str, Any]) -> dict[str, Any]:
        images = [transform(image.convert("RGB")) for image in batch["image"]]
        return {"pixel_values": images, "label": batch["label"]}

    return rows.with_transform(augment)


ROWS: dict[str, Make] = {
    **{name: in_folders(make) for name, make in FOLDERS.items()},
    "views: two": in_multi_view(two_views),
    "views: DINO's ten": in_multi_view(ten_crops),
    "albumentations: crop, flip": with_albumentations("RandomResizedCrop", "HorizontalFlip"),
    "albumentations: crop, flip, jitter, dropout": with_albumentations(
        "RandomResizedCrop", "HorizontalFlip", "ColorJitter", "CoarseDropout"
    ),
    "albumentations: PadIfNeeded, RandomCrop, D4": with_albumentations("PadIfNeeded", "RandomCrop", "D4"),
    "albumentations: evaluation": with_albumentations("SmallestMaxSize", "CenterCrop"),
    "opener: torchvision's training": behind_the_opener(training(T)),
    "opener: torchvision's evaluation": behind_the_opener(evaluation(T)),
    "own data set: our transforms, Image.open": opened_by(Image.open),
    "own data set: our transforms, open_image": opened_by(fastpipe.open_image),
    "convert: CIFAR10": converted(cifar, 128),
    "convert: MNIST": converted(mnist, 128),
    "convert: TensorDataset": converted(tensors, 128),
    "convert: Subset of ImageFolder, TrivialAugmentWide": converted(subset, 32),
    "convert: Hugging Face's Dataset": converted(hugging_face, 32),
}
MARKS = {
    "convert: CIFAR10": 6.0,
    "opener: torchvision's training": 3.2,
    "own data set: our transforms, open_image": 4.5,
}


def main() -> None:
    parser = command_line(__doc__, rounds=3)
    parser.add_argument("--files", type=int, default=96, help="samples of a row (8 times as many in memory)")
    bench = Benchmark(parser.parse_args(), "recipes")
    for name, make in ROWS.items():
        if not bench.wants(name):
            continue
        try:
            row = make(bench.options.photos, bench.options.files)
        except ImportError as error:
            print(f"{name} is left out: {error}")
            continue
        contenders = {"its library": row.theirs, "fastpipe": row.ours}
        bench.row(name, contenders, row.count, equal=["fastpipe"], reference=row.reference, mark=MARKS.get(name))
    bench.finish()


if __name__ == "__main__":
    main()
