"""Compares typical recipes: a library's objects run by the library itself, and the same objects run by fastpipe.

    python benchmarks/recipes.py PHOTOS [--files 96] [--rounds 3] [--only WORD] [--json FILE]

A row is one recipe: transforms of torchvision, timm and albumentations in an ImageFolder, several views of an image in
`MultiView`, files opened by Pillow with fastpipe's opener and by `open_image`, loaders of other libraries' datasets
converted by `fastpipe.convert`, a Compose called on loaded images, samples with boxes or masks, photos in archives, raw
arrays, and operations on batches of tensors. A row's name begins with the library, or the interface. One thread, no
workers. For whole scripts, see `benchmarks/untouched.py`.

Samples have eight boxes, or a mask file; the larger the photos, the more is saved by decoding only a part. Detection is
RandomPhotometricDistort, RandomZoomOut, RandomIoUCrop, a flip and SanitizeBoundingBoxes; segmentation is
RandomResizedCrop, a flip and colour; each begins with PIL images or with tensors.

With albumentations, users decode by cv2, whose pixels differ a little; fastpipe's result has to equal that of the
Compose on Pillow's pixels.
"""

from __future__ import annotations

import functools
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import (
    MEAN,
    STD,
    Benchmark,
    Pass,
    calls,
    command_line,
    evaluation,
    module,
    pictures,
    samples,
    spread,
    torchvision,
    training,
)
from PIL import Image, ImageOps
from recipe_conformance import Blur
from recipe_datasets import ByNumpy, WithTargets, cifar, hugging_face, mnist, subset, tensors
from torch.utils.data import DataLoader

import fastpipe
from fastpipe import transforms as ours

T, V = module("torchvision.transforms"), module("torchvision.transforms.v2")
BICUBIC = T.InterpolationMode.BICUBIC


@dataclass(frozen=True)
class Row:
    """A recipe run by its library and by fastpipe; and the expected result, if it isn't the library's."""

    theirs: Pass
    ours: Pass
    count: int
    reference: Pass | None = None
    least_s: float = 0.0  # the least duration of a pass, for short calls


Make = Callable[[Path, int], Row]
"""Makes a row from a folder of photos, with at most that many samples."""


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
    """The solarization of DINO and VICReg."""

    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        return ImageOps.solarize(image) if random.random() < self.p else image


def view(size: int, scale: tuple[float, float], *behind: Any) -> Any:
    jitter = [T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), T.RandomGrayscale(p=0.2)]
    crop = [T.RandomResizedCrop(size, scale=scale, interpolation=BICUBIC), T.RandomHorizontalFlip()]
    return T.Compose([*crop, *jitter, *behind, T.ToTensor(), T.Normalize(MEAN, STD)])


def two_views() -> list[Any]:
    """The two views of MoCo v3 and VICReg."""
    return [view(224, (0.08, 1.0), Blur(1.0)), view(224, (0.08, 1.0), Blur(0.1), Solarization(0.2))]


def ten_crops() -> list[Any]:
    """The ten views of DINO."""
    large = [view(224, (0.4, 1.0), Blur(1.0)), view(224, (0.4, 1.0), Blur(0.1), Solarization(0.2))]
    return large + 8 * [view(96, (0.05, 0.4), Blur(0.5))]


class OneByOne:
    """Makes the views one by one, as the repositories' classes do."""

    def __init__(self, views: list[Any]) -> None:
        self.views = views

    def __call__(self, image: Any) -> list[Any]:
        return [transform(image) for transform in self.views]


def in_multi_view(make: Callable[[], list[Any]]) -> Make:
    """torchvision's ImageFolder with `OneByOne`, and fastpipe's with a MultiView of the same views."""

    def row(photos: Path, files: int) -> Row:
        views = make()
        theirs = torchvision.datasets.ImageFolder(str(photos), OneByOne(views))
        indices = spread(len(theirs), files)
        together = fastpipe.ImageFolder(photos, fastpipe.MultiView(views, [1] * len(views)))
        return Row(samples(theirs, indices), samples(together, indices), len(indices))

    return row


# -- albumentations


class Read:
    """The dataset that users write around an albumentations Compose."""

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
    """A seeded Compose of albumentations' transforms, by name, with their usual arguments."""

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
    """torchvision's dataset and transforms, without fastpipe's opener and with it."""

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
    """A dataset that a user wrote."""

    def __init__(self, paths: list[str], transform: Any, open_image: Callable[[str], Any]) -> None:
        self.paths, self.transform, self.open_image = paths, transform, open_image

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.open_image(self.paths[index]).convert("RGB"))


def opened_by(open_image: Callable[[str], Any]) -> Make:
    """A user's dataset with torchvision's transforms, and with fastpipe's transforms and `open_image`."""

    def row(photos: Path, files: int) -> Row:
        paths = [path for path, _ in torchvision.datasets.ImageFolder(str(photos)).samples]
        indices = spread(len(paths), files)
        theirs, mine = Own(paths, training(T), Image.open), Own(paths, training(ours), open_image)
        return Row(samples(theirs, indices), samples(mine, indices), len(indices))

    return row


# -- loaders behind `fastpipe.convert`


def converted(make: Callable[[Path, int], Any], batch: int) -> Make:
    """A loader of a dataset, and the same loader converted."""

    def row(photos: Path, files: int) -> Row:
        dataset = make(photos, files)
        loader = DataLoader(dataset, batch_size=batch)
        mine = fastpipe.convert(DataLoader(dataset, batch_size=batch))
        return Row(lambda: loader, lambda: mine, len(dataset))

    return row


# -- a Compose called on loaded images


def crop(T: Any, *behind: Any) -> list[Any]:
    return [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *behind]


# The members of a library's Compose before the tensor, the images' size (None for the photos'), and their mode.
LOADED: dict[str, tuple[Callable[[Any], list[Any]], tuple[int, int] | None, str]] = {
    "crop, flip": (crop, None, "RGB"),
    "crop, flip, ColorJitter": (lambda T: crop(T, T.ColorJitter(0.4, 0.4, 0.4, 0.1)), None, "RGB"),
    "crop, flip, RandAugment": (lambda T: crop(T, T.RandAugment()), None, "RGB"),
    "evaluation": (lambda T: [T.Resize(256), T.CenterCrop(224)], None, "RGB"),
    "CIFAR's": (lambda T: [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip()], (32, 32), "RGB"),
    "MNIST's": (lambda T: [], (28, 28), "L"),
}


def on_loaded(name: str, by_v2: bool) -> Make:
    """The same Compose of torchvision's classes and of fastpipe's, called on PIL images."""

    def row(photos: Path, files: int) -> Row:
        members, size, mode = LOADED[name]
        images = pictures(photos, min(files, 8), size, mode)
        passes = []
        for library in (V, module("fastpipe.transforms.v2")) if by_v2 else (T, ours):
            tail = [library.ToImage(), library.ToDtype(torch.float32, scale=True)] if by_v2 else [library.ToTensor()]
            normalize = library.Normalize(MEAN, STD) if mode == "RGB" else library.Normalize((0.1307,), (0.3081,))
            passes.append(calls(library.Compose([*members(library), *tail, normalize]), images))
        return Row(*passes, len(images), least_s=0.03)

    return row


# -- samples with boxes or masks, in v2


def detection(library: Any) -> tuple[list[Any], list[Any]]:
    """The transforms before and after the tensor."""
    crop = [library.RandomPhotometricDistort(), library.RandomZoomOut(), library.RandomIoUCrop()]
    steps = [*crop, library.RandomHorizontalFlip(), library.SanitizeBoundingBoxes()]
    return steps, [library.ToDtype(torch.float32, scale=True)]


def segmentation(library: Any) -> tuple[list[Any], list[Any]]:
    """The transforms before and after the tensor."""
    crop = [library.RandomResizedCrop((480, 480)), library.RandomHorizontalFlip()]
    end = [library.ToDtype(torch.float32, scale=True), library.Normalize(MEAN, STD)]
    return [*crop, library.ColorJitter(0.3, 0.3, 0.3)], end


TASKS = {
    "detection": (detection, WithTargets.their_detection, WithTargets.detection),
    "segmentation": (segmentation, WithTargets.their_segmentation, WithTargets.segmentation),
}


def with_targets(task: str, tensor_first: bool) -> Make:
    """The same transforms by torchvision in a dataset that a user wrote, and by fastpipe in `SampleDataset`."""

    def compose(library: Any) -> Any:
        steps, end = TASKS[task][0](library)
        steps = [library.ToImage(), *steps] if tensor_first else [*steps, library.ToImage()]
        return library.Compose([*steps, *end])

    def row(photos: Path, files: int) -> Row:
        paths = [path for path, _ in torchvision.datasets.ImageFolder(str(photos)).samples]
        targets = WithTargets([paths[index] for index in spread(len(paths), min(files, 24))], Path(scratch().name))
        theirs, ours_of = (functools.partial(sample_of, targets) for sample_of in TASKS[task][1:])
        count, chain = len(targets.photos), compose(V)
        mine = fastpipe.SampleDataset(ours_of, count, compose(module("fastpipe.transforms.v2")))
        return Row(calls(lambda index: chain(*theirs(index)), range(count)), samples(mine, count), count)

    return row


# -- photos in archives, and raw arrays


@functools.cache
def scratch() -> tempfile.TemporaryDirectory[str]:
    """A temporary folder, which also holds the indexes of archives."""
    made = tempfile.TemporaryDirectory()
    os.environ["FASTPIPE_CACHE"] = os.path.join(made.name, "cache")
    return made


def in_archive(kind: str) -> Make:
    """torchvision's ImageFolder over files, and fastpipe's over an archive of the same files."""

    def row(photos: Path, files: int) -> Row:
        import archives  # from tests/

        path = Path(scratch().name, f"photos.{kind}")
        {"zip": archives.zipped, "tar": archives.tarred}[kind](photos, path)
        theirs = torchvision.datasets.ImageFolder(str(photos), training(T))
        indices = spread(len(theirs), files)
        return Row(samples(theirs, indices), samples(fastpipe.ImageFolder(path, training(T)), indices), len(indices))

    return row


def raw_arrays(photos: Path, files: int) -> Row:
    """Batches of float32 arrays of 4 MB each."""
    paths = [os.path.join(scratch().name, f"{number}.npy") for number in range(16)]
    for number, path in enumerate(paths):
        np.save(path, np.full((4, 500, 500), number, np.float32))
    plain: Any = DataLoader(ByNumpy(paths), len(paths))
    loader = fastpipe.DataLoader(fastpipe.ArrayList((paths, [0] * len(paths))), len(paths))
    return Row(lambda: plain, lambda: loader, len(paths))


# -- operations on batches of uint8 tensors


CORNERS = [[0, 0], [255, 0], [255, 255], [0, 255]], [[20, 13], [239, 5], [250, 230], [9, 244]]
ON_TENSORS: dict[str, tuple[Any, ...]] = {
    "adjust_brightness": (1.3,),
    "adjust_contrast": (1.3,),
    "adjust_gamma": (2.2,),
    "adjust_hue": (0.1,),
    "adjust_saturation": (1.3,),
    "adjust_sharpness": (2.0,),
    "affine": (10.0, [9, -5], 1.1, [5.0, 0.0]),
    "autocontrast": (),
    "equalize": (),
    "perspective": CORNERS,
    "resize": ([224, 224],),
    "resized_crop": (10, 20, 200, 180, [224, 224]),
    "rgb_to_grayscale": (3,),
    "rotate": (23.0,),
    "solarize": (128,),
}


def on_tensors(name: str, by_v2: bool) -> Make:
    """A function of torchvision's and of fastpipe's on eight photos in one tensor."""

    def row(photos: Path, files: int) -> Row:
        images = [torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in pictures(photos, 8, (256, 256))]
        batch = torch.stack(images).contiguous()
        modules = ("torchvision.transforms.v2.functional", "fastpipe.transforms.v2.functional")
        if not by_v2:
            modules = ("torchvision.transforms.functional", "fastpipe.transforms.functional")
        passes = []
        for one in modules:
            function = functools.partial(getattr(module(one), name), batch, *ON_TENSORS[name])
            passes.append(lambda function=function: [function()])
        return Row(*passes, len(batch), least_s=0.03)

    return row


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
    **{f"loaded, v{1 + by_v2}: {name}": on_loaded(name, by_v2) for name in LOADED for by_v2 in (False, True)},
    **{
        f"samples: {task}, {'tensors' if tensor_first else 'PIL images'} first": with_targets(task, tensor_first)
        for task in TASKS
        for tensor_first in (False, True)
    },
    "archives: zip": in_archive("zip"),
    "archives: tar": in_archive("tar"),
    "arrays: np.load": raw_arrays,
    **{f"tensors, v{1 + by_v2}: {name}": on_tensors(name, by_v2) for by_v2 in (True, False) for name in ON_TENSORS},
}
MARKS = {
    "convert: CIFAR10": 6.0,
    "opener: torchvision's training": 3.2,
    "own data set: our transforms, open_image": 4.5,
}


def main() -> None:
    parser = command_line(__doc__, rounds=3)
    parser.add_argument("--files", type=int, default=96, help="samples in a row (8 times as many in memory)")
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
        options = {"reference": row.reference, "mark": MARKS.get(name), "least_s": row.least_s}
        bench.row(name, contenders, row.count, equal=["fastpipe"], **options)
    bench.finish()


if __name__ == "__main__":
    main()
