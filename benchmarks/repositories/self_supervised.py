"""Several views of an image, each made by a chain, in a class of the repository's own."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from _pipelines import (
    BICUBIC,
    Blur,
    DataLoader,
    Photos,
    T,
    Views,
    chains,
    folder,
    loader,
    of_file,
    opened,
    own,
    pipeline,
    tensor,
)
from PIL import ImageFilter, ImageOps
from torchvision_here import torchvision


class Solarize:
    """By Pillow, as most repositories have it."""

    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        return ImageOps.solarize(image) if random.random() < self.p else image


class NumpyBlur:
    """VICReg's and Barlow Twins': numbers of Python's generator or numpy's."""

    def __init__(self, p: float, numpy: bool = False) -> None:
        self.p, self.numpy = p, numpy

    def __call__(self, image: Any) -> Any:
        if (np.random.rand() if self.numpy else random.random()) < self.p:
            sigma = (np.random.rand() if self.numpy else random.random()) * 1.9 + 0.1
            return image.filter(ImageFilter.GaussianBlur(sigma))
        return image


def jitter(*amounts: float, p: float = 0.8, gray: float = 0.2) -> list[Any]:
    """Colours as SimCLR changes them."""
    return [T.RandomApply([T.ColorJitter(*amounts)], p=p), T.RandomGrayscale(p=gray)]


def crop(size: int, low: float, high: float = 1.0, **more: Any) -> list[Any]:
    """A crop and a flip."""
    return [T.RandomResizedCrop(size, scale=(low, high), **more), T.RandomHorizontalFlip()]


def chain(*members: Any) -> Any:
    """Members, and the tensor."""
    return T.Compose([*members, *tensor()])


def bicubic(size: int, low: float, high: float, *behind: Any) -> Any:
    """A view of DINO's kind."""
    first = [T.RandomResizedCrop(size, scale=(low, high), interpolation=BICUBIC), T.RandomHorizontalFlip(0.5)]
    return chain(*first, *jitter(0.4, 0.4, 0.2, 0.1), *behind)


def twice(view: Any) -> Views:
    """The same chain two times."""
    return Views(view, view)


def moco() -> Any:
    """MoCo v2's view."""
    first, flip = crop(224, 0.2)
    return chain(first, *jitter(0.4, 0.4, 0.4, 0.1), T.RandomApply([Blur()], 0.5), flip)


class Dinov2:
    """DINOv2's: geometry and colours apart, crops shared by both."""

    def __init__(self) -> None:
        self.geometric = T.Compose(crop(224, 0.32, interpolation=BICUBIC))
        self.local = T.Compose(crop(98, 0.05, 0.32, interpolation=BICUBIC))
        color = T.Compose(jitter(0.4, 0.4, 0.2, 0.1))
        blur = T.RandomApply([T.GaussianBlur(9, (0.1, 2.0))], 0.5)
        solarize = T.RandomSolarize(threshold=128, p=0.2)
        last = T.Compose(tensor())
        self.first = T.Compose([color, T.GaussianBlur(9, (0.1, 2.0)), last])
        self.second = T.Compose([color, T.RandomApply([T.GaussianBlur(9)], 0.1), solarize, last])
        self.small = T.Compose([color, blur, last])

    def __call__(self, image: Any) -> dict[str, Any]:
        one, two = self.geometric(image), self.geometric(image)
        output = {"global_crops": [self.first(one), self.second(two)]}
        output["local_crops"] = [self.small(self.local(image)) for _ in range(6)]
        return output


class AugMixed:
    """AugMix's: chains of Pillow's operations, mixed as tensors."""

    def __init__(self) -> None:
        self.crop = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip()])
        self.last = T.Compose(tensor())

    def __call__(self, image: Any) -> Any:
        image = self.crop(image)
        operations = [ImageOps.autocontrast, ImageOps.equalize, lambda one: ImageOps.posterize(one, 4), ImageOps.invert]
        weights = np.float32(np.random.dirichlet([1] * 3))
        mixed = 0
        for weight in weights:
            changed = image.copy()
            for _ in range(np.random.randint(1, 4)):
                changed = operations[np.random.randint(4)](changed)
            mixed = mixed + float(weight) * self.last(changed)
        return 0.5 * self.last(image) + 0.5 * mixed


@pipeline("facebookresearch/swav: multi-crop")
def swav(photos: Photos) -> Iterable[Any]:
    """A dataset derived from ImageFolder."""
    color = [*jitter(0.8, 0.8, 0.8, 0.2), NumpyBlur(0.5)]
    views = [chain(T.RandomResizedCrop(224, (0.14, 1)), T.RandomHorizontalFlip(0.5), *color)] * 2
    views += [chain(T.RandomResizedCrop(96, (0.05, 0.14)), T.RandomHorizontalFlip(0.5), *color)] * 6

    class MultiCrop(torchvision.datasets.ImageFolder):
        def __getitem__(self, index: int) -> Any:
            path, _ = self.samples[index]
            image = self.loader(path)
            return [view(image) for view in views]

    dataset = MultiCrop(str(photos.root))
    dataset.samples = dataset.samples[: len(photos.files)]
    return DataLoader(dataset, 16)


@pipeline("yaohungt/Barlow-Twins-HSIC: pairs")
def pairs(photos: Photos) -> Iterable[Any]:
    """The repository's own dataset, which calls one chain twice."""
    view = chain(*crop(64, 0.08), *jitter(0.4, 0.4, 0.4, 0.1))

    def sample(index: int) -> Any:
        image = opened(photos.files[index])
        return view(image), view(image), index

    return loader(len(photos.files), sample)


@pipeline("facebookresearch/PIRL: jigsaw")
def pirl(photos: Photos) -> Iterable[Any]:
    """The image, and nine patches of another crop of it in any order."""
    whole = chain(*crop(224, 0.2), *jitter(0.4, 0.4, 0.4, 0.4))
    base = T.Compose(crop(255, 0.6))
    patch = chain(T.RandomCrop(64), T.ColorJitter(0.4, 0.4, 0.4, 0.4))

    def sample(index: int) -> Any:
        image = opened(photos.files[index])
        big = base(image)
        corners = [(x, y) for y in (0, 85, 170) for x in (0, 85, 170)]
        patches = [patch(big.crop((x, y, x + 85, y + 85))) for x, y in corners]
        random.shuffle(patches)
        return {"original": whole(image), "patches": torch.stack(patches), "index": index}

    return loader(len(photos.files), sample, 8)


@of_file("gidariss/FeatureLearningRotNet", 8)
def rotnet(name: str) -> Any:
    """Four turns of an array, each made a tensor."""
    image = np.asarray(_ROTNET(opened(name)))
    turns = [np.rot90(image, number).copy() for number in range(4)]
    return torch.stack([_TENSOR(one) for one in turns]), torch.arange(4)


_ROTNET, _TENSOR = T.Compose(crop(224, 0.08)), T.Compose(tensor())


chains(
    folder,
    {
        "facebookresearch/moco: v1": lambda: twice(
            chain(
                T.RandomResizedCrop(224, (0.2, 1.0)),
                T.RandomGrayscale(0.2),
                T.ColorJitter(0.4, 0.4, 0.4, 0.4),
                T.RandomHorizontalFlip(),
            )
        ),
        "facebookresearch/moco: v2": lambda: twice(moco()),
        "facebookresearch/moco-v3": lambda: Views(
            chain(
                T.RandomResizedCrop(224, (0.08, 1.0)),
                *jitter(0.4, 0.4, 0.2, 0.1),
                T.RandomApply([Blur()], 1.0),
                T.RandomHorizontalFlip(),
            ),
            chain(
                T.RandomResizedCrop(224, (0.08, 1.0)),
                *jitter(0.4, 0.4, 0.2, 0.1),
                T.RandomApply([Blur()], 0.1),
                T.RandomApply([Solarize(1.0)], 0.2),
                T.RandomHorizontalFlip(),
            ),
        ),
        "facebookresearch/simsiam": lambda: twice(moco()),
        "facebookresearch/dino": lambda: Views(
            bicubic(224, 0.4, 1.0, NumpyBlur(1.0)),
            bicubic(224, 0.4, 1.0, NumpyBlur(0.1), Solarize(0.2)),
            *[bicubic(96, 0.05, 0.4, NumpyBlur(0.5))] * 6,
        ),
        "facebookresearch/dinov2": Dinov2,
        "facebookresearch/barlowtwins": lambda: Views(
            bicubic(224, 0.08, 1.0, NumpyBlur(1.0), Solarize(0.0)),
            bicubic(224, 0.08, 1.0, NumpyBlur(0.1), Solarize(0.2)),
        ),
        "facebookresearch/vicreg": lambda: Views(
            bicubic(224, 0.08, 1.0, NumpyBlur(1.0, True), Solarize(0.0)),
            bicubic(224, 0.08, 1.0, NumpyBlur(0.1, True), Solarize(0.2)),
        ),
        "facebookresearch/msn": lambda: Views(
            bicubic(224, 0.3, 1.0, NumpyBlur(0.5)), *[bicubic(96, 0.05, 0.3, NumpyBlur(0.5))] * 4
        ),
        "bytedance/ibot": lambda: Views(
            *[bicubic(224, 0.25, 1.0, NumpyBlur(1.0))] * 2, *[bicubic(96, 0.05, 0.25, NumpyBlur(0.5))] * 4
        ),
        "sthalles/SimCLR": lambda: twice(
            T.Compose(
                [
                    T.RandomResizedCrop(96),
                    T.RandomHorizontalFlip(),
                    *jitter(0.8, 0.8, 0.8, 0.2),
                    T.GaussianBlur(9),
                    T.ToTensor(),
                ]
            )
        ),
        "sthalles/PyTorch-BYOL": lambda: twice(
            T.Compose([*crop(96, 0.08), *jitter(0.8, 0.8, 0.8, 0.2), T.GaussianBlur(9), T.ToTensor()])
        ),
        "Lightning-AI/bolts SimCLR": lambda: Views(
            *[
                T.Compose(
                    [
                        *crop(224, 0.08),
                        *jitter(0.8, 0.8, 0.8, 0.2),
                        T.RandomApply([T.GaussianBlur(23)], 0.5),
                        T.ToTensor(),
                    ]
                )
            ]
            * 2,
            T.Compose([*crop(224, 0.08), T.ToTensor()]),
        ),
        "vturrisi/solo-learn: BYOL": lambda: Views(
            bicubic(224, 0.08, 1.0, T.RandomApply([Blur()], 1.0)),
            bicubic(224, 0.08, 1.0, T.RandomApply([Blur()], 0.1), Solarize(0.2)),
        ),
        "lightly-ai/lightly: SimCLR": lambda: twice(
            chain(
                *crop(224, 0.08), T.RandomVerticalFlip(0.0), *jitter(0.8, 0.8, 0.8, 0.2), T.RandomApply([Blur()], 0.5)
            )
        ),
        "WXinlong/DenseCL": lambda: twice(
            chain(
                T.RandomResizedCrop(224, scale=(0.2, 1.0)),
                *jitter(0.4, 0.4, 0.4, 0.4),
                T.RandomApply([Blur()], 0.5),
                T.RandomHorizontalFlip(),
            )
        ),
        "PatrickHua/SimSiam": lambda: twice(
            chain(*crop(224, 0.2), *jitter(0.4, 0.4, 0.4, 0.1), T.RandomApply([T.GaussianBlur(23, (0.1, 2.0))], 0.5))
        ),
        "htdt/self-supervised: W-MSE": lambda: twice(
            chain(T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8), T.RandomGrayscale(0.1), *crop(224, 0.2))
        ),
        "google-research/AugMix": AugMixed,
    },
)
chains(
    own,
    {"lucidrains/byol-pytorch: examples": lambda: T.Compose([T.Resize(256), T.CenterCrop(256), T.ToTensor()])},
)
