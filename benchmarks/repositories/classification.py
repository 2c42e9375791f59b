"""Training and evaluating classifiers: ImageFolder, or the repository's own dataset, with one chain of transforms."""

from __future__ import annotations

import csv
import glob
import io
import os
import random
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _pipelines import (
    BICUBIC,
    HALF,
    DataLoader,
    F,
    Photos,
    T,
    V,
    chains,
    evaluation,
    folder,
    loader,
    opened,
    own,
    pipeline,
    squares,
    tensor,
    training,
)
from harness import MEAN, STD
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from torchvision_here import module, torchvision


def timm(**arguments: Any) -> Any:
    """A chain of timm's."""
    return module("timm.data").create_transform(224, **arguments)


class Preset:
    """vision's references: a class around a Compose."""

    def __init__(self, *, policy: Any = None, erasing: float = 0.0, evaluates: bool = False) -> None:
        if evaluates:
            chain = [T.Resize(256, antialias=True), T.CenterCrop(224)]
        else:
            chain = [T.RandomResizedCrop(224, antialias=True), T.RandomHorizontalFlip(0.5)]
        if policy is not None:
            chain.append(policy)
        chain += [T.PILToTensor(), T.ConvertImageDtype(torch.float), T.Normalize(MEAN, STD)]
        if erasing:
            chain.append(T.RandomErasing(p=erasing))
        self.transforms = T.Compose(chain)

    def __call__(self, image: Any) -> Any:
        return self.transforms(image)


class PresetV2:
    """The same with v2, which begins with tensors or not."""

    def __init__(self, *, tensor_first: bool) -> None:
        chain = [V.PILToTensor()] if tensor_first else []
        chain += [V.RandomResizedCrop(224, antialias=True), V.RandomHorizontalFlip(0.5), V.TrivialAugmentWide()]
        chain += [] if tensor_first else [V.PILToTensor()]
        chain += [V.ToDtype(torch.float, scale=True), V.Normalize(MEAN, STD), V.RandomErasing(0.1), V.ToPureTensor()]
        self.transforms = V.Compose(chain)

    def __call__(self, image: Any) -> Any:
        return self.transforms(image)


MILD = T.ColorJitter(0.3, 0.3, 0.3)


@pipeline("zoogzog/chexnet: ten crops")
def ten_crops(photos: Photos) -> Iterable[Any]:
    """Ten crops, each made a tensor by a function."""
    normalize = T.Normalize(MEAN, STD)
    chain = [
        T.Resize(256),
        T.TenCrop(224),
        T.Lambda(lambda crops: torch.stack([T.ToTensor()(crop) for crop in crops])),
        T.Lambda(lambda crops: torch.stack([normalize(crop) for crop in crops])),
    ]
    return own(T.Compose(chain), 8)(photos)


class TwoSizes:
    """BEiT's: one crop, resized to the model's size and to the tokenizer's."""

    def __init__(self) -> None:
        self.common = T.Compose([T.ColorJitter(0.4, 0.4, 0.4), T.RandomHorizontalFlip(0.5)])
        self.patch, self.visual = T.Compose(tensor()), T.Compose([T.ToTensor()])

    def __call__(self, image: Any) -> Any:
        image = self.common(image)
        box = T.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))
        first = F.resized_crop(image, *box, [224, 224], BICUBIC)
        second = F.resized_crop(image, *box, [112, 112], T.InterpolationMode.LANCZOS)
        return self.patch(first), self.visual(second)


class ImageJitter:
    """CloserLookFewShot's: Pillow's enhancers by torch's numbers."""

    def __call__(self, image: Any) -> Any:
        alphas = torch.rand(3)
        kinds = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
        for kind, alpha in zip(kinds, alphas, strict=True):
            image = kind(image).enhance(0.4 * (alpha * 2.0 - 1.0).item() + 1).convert("RGB")
        return image


@pipeline("microsoft/Swin-Transformer: zip")
def swin_zip(photos: Photos) -> Iterable[Any]:
    """Bytes out of an archive."""
    path = os.path.join(tempfile.mkdtemp(), "photos.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for name in photos.files:
            archive.write(name, os.path.basename(name) + str(len(archive.namelist())))
        names = archive.namelist()
    chain = timm(is_training=True, auto_augment="rand-m9-mstd0.5-inc1", interpolation="bicubic", re_prob=0.25)
    archive = zipfile.ZipFile(path)
    return loader(len(names), lambda index: (chain(opened(io.BytesIO(archive.read(names[index])))), index))


@pipeline("mlfoundations/open_clip: CSV")
def open_clip_csv(photos: Photos) -> Iterable[Any]:
    """Rows of a CSV file: a path and a caption."""
    chain = T.Compose(
        [
            T.RandomResizedCrop(224, scale=(0.9, 1.0), interpolation=BICUBIC),
            lambda image: image.convert("RGB"),
            *tensor(),
        ]
    )
    text = io.StringIO()
    csv.writer(text, delimiter="\t").writerows([name, "a caption"] for name in photos.files)
    rows = list(csv.reader(io.StringIO(text.getvalue()), delimiter="\t"))

    def sample(index: int) -> Any:
        return chain(Image.open(str(rows[index][0]))), torch.tensor([ord(c) for c in rows[index][1]])

    return loader(len(rows), sample)


@pipeline("Kaggle notebooks: cats and dogs")
def cats_and_dogs(photos: Photos) -> Iterable[Any]:
    """A glob, and files opened within ``with``."""
    chain = T.Compose([T.Resize((224, 224)), T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor()])
    files = sorted(glob.glob(str(photos.root / "*" / "*")))[: len(photos.files)]

    def sample(index: int) -> Any:
        with Image.open(files[index]) as image:
            return chain(image.convert("RGB")), 1 if "dog" in Path(files[index]).name else 0

    return loader(len(files), sample)


@pipeline("kuangliu/pytorch-cifar: training")
def cifar(photos: Photos) -> Iterable[Any]:
    """torchvision's CIFAR10."""
    return DataLoader(_cifar10(photos, T.Compose([T.RandomCrop(32, 4), T.RandomHorizontalFlip(), *tensor()])), 128)


@pipeline("pytorch/examples mnist: training")
def mnist(photos: Photos) -> Iterable[Any]:
    """torchvision's MNIST."""
    kind = torchvision.datasets.MNIST
    dataset = kind.__new__(kind)
    torchvision.datasets.VisionDataset.__init__(dataset, "data", transform=T.Compose(tensor([0.1307], [0.3081])))
    pixels = torch.from_numpy(squares(photos, 28, "L")).repeat(20, 1, 1)
    dataset.train, dataset.data, dataset.targets = True, pixels, torch.arange(len(pixels))
    return DataLoader(dataset, 64)


def _cifar10(photos: Photos, transform: Any) -> Any:
    kind = torchvision.datasets.CIFAR10
    dataset = kind.__new__(kind)
    torchvision.datasets.VisionDataset.__init__(dataset, "data", transform=transform)
    dataset.data = squares(photos, 32).repeat(20, axis=0)
    dataset.train, dataset.targets = True, list(range(len(dataset.data)))
    return dataset


@pipeline("kekmodel/FixMatch-pytorch: weak and strong")
def fixmatch(photos: Photos) -> Iterable[Any]:
    """Two chains of one small image."""
    base = [T.RandomHorizontalFlip(), T.RandomCrop(32, padding=int(32 * 0.125), padding_mode="reflect")]

    class Both:
        weak = T.Compose(base)
        strong = T.Compose([*base, T.RandAugment(2, 10)])
        last = T.Compose(tensor())

        def __call__(self, image: Any) -> Any:
            return self.last(self.weak(image)), self.last(self.strong(image))

    return DataLoader(_cifar10(photos, Both()), 64)


@pipeline("HobbitLong/SupContrast: CIFAR")
def supcontrast(photos: Photos) -> Iterable[Any]:
    """One chain, twice."""
    jitter = T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    crop = T.RandomResizedCrop(size=32, scale=(0.2, 1.0))
    chain = T.Compose([crop, T.RandomHorizontalFlip(), jitter, T.RandomGrayscale(p=0.2), *tensor()])

    class Twice:
        def __call__(self, image: Any) -> Any:
            return [chain(image), chain(image)]

    return DataLoader(_cifar10(photos, Twice()), 64)


class Cutout:
    """Cutout's: a square of zeros in a tensor, by numpy's numbers."""

    def __call__(self, image: Any) -> Any:
        height, width = image.shape[1:]
        mask = np.ones((height, width), np.float32)
        y, x = np.random.randint(height), np.random.randint(width)
        mask[max(0, y - 28) : y + 28, max(0, x - 28) : x + 28] = 0.0
        return image * torch.from_numpy(mask).expand_as(image)


class FlexMatch:
    """TorchSSL's: Pillow's functions by chance, and a gray square, on the second of two views."""

    weak = T.Compose([T.Resize(256), T.RandomCrop(224, padding=28, padding_mode="reflect"), T.RandomHorizontalFlip()])
    last = T.Compose(tensor())

    def __call__(self, image: Any) -> Any:
        return self.last(self.weak(image)), self.last(self._strong(self.weak(image)))

    def _strong(self, image: Any) -> Any:
        operations: list[Any] = [
            ImageOps.autocontrast,
            ImageOps.equalize,
            lambda one: ImageEnhance.Brightness(one).enhance(random.uniform(0.1, 1.9)),
            lambda one: ImageEnhance.Sharpness(one).enhance(random.uniform(0.1, 1.9)),
            lambda one: ImageOps.posterize(one, random.randint(4, 8)),
            lambda one: ImageOps.solarize(one, random.randint(0, 256)),
            lambda one: one.rotate(random.uniform(-30, 30)),
            lambda one: one.transform(one.size, Image.AFFINE, (1, random.uniform(-0.3, 0.3), 0, 0, 1, 0)),
        ]
        for operation in random.choices(operations, k=2):
            image = operation(image)
        x, y = random.randrange(image.width), random.randrange(image.height)
        image = image.copy()
        ImageDraw.Draw(image).rectangle((x, y, x + 16, y + 16), (127, 127, 127))
        return image


class FloatTensor:
    """FastReID's ToTensor: floats up to 255."""

    def __call__(self, image: Any) -> Any:
        pixels = torch.as_tensor(np.array(image, copy=True))
        return pixels.view(image.size[1], image.size[0], 3).permute(2, 0, 1).float()


chains(
    folder,
    {
        "pytorch/examples imagenet: training": lambda: training(),
        "pytorch/examples imagenet: evaluation": lambda: evaluation(),
        "pytorch/vision classification: training": lambda: Preset(),
        "pytorch/vision classification: TrivialAugment, erasing": lambda: Preset(
            policy=T.TrivialAugmentWide(), erasing=0.1
        ),
        "pytorch/vision classification: AutoAugment": lambda: Preset(policy=T.AutoAugment()),
        "pytorch/vision classification: AugMix": lambda: Preset(policy=T.AugMix()),
        "pytorch/vision classification: evaluation": lambda: Preset(evaluates=True),
        "pytorch/vision classification: v2, tensors": lambda: PresetV2(tensor_first=True),
        "pytorch/vision classification: v2, PIL": lambda: PresetV2(tensor_first=False),
        "timm: training": lambda: timm(is_training=True),
        "timm: RandAugment, erasing": lambda: timm(is_training=True, auto_augment="rand-m9-mstd0.5-inc1", re_prob=0.25),
        "timm: AugMix": lambda: timm(is_training=True, auto_augment="augmix-m5-w4-d2"),
        "timm: evaluation": lambda: timm(interpolation="bicubic", crop_pct=0.9),
        "facebookresearch/mae: pretraining": lambda: training(scale=(0.2, 1.0), interpolation=BICUBIC),
        "facebookresearch/mae: fine-tuning": lambda: timm(
            is_training=True,
            auto_augment="rand-m9-mstd0.5-inc1",
            interpolation="bicubic",
            re_prob=0.25,
            re_mode="pixel",
        ),
        "facebookresearch/deit: training": lambda: timm(
            is_training=True,
            color_jitter=0.4,
            auto_augment="rand-m9-mstd0.5-inc1",
            interpolation="bicubic",
            re_prob=0.25,
        ),
        "facebookresearch/deit: 3Augment": lambda: timm(is_training=True, auto_augment="3a", color_jitter=0.3),
        "facebookresearch/ConvNeXt: evaluation": lambda: evaluation(256, interpolation=BICUBIC),
        "microsoft/Swin-Transformer: evaluation": lambda: evaluation(256, interpolation=BICUBIC),
        "facebookresearch/ijepa: pretraining": lambda: training(scale=(0.3, 1.0)),
        "microsoft/SimMIM: pretraining": lambda: training(size=192, scale=(0.67, 1.0), ratio=(3 / 4, 4 / 3)),
        "openai/CLIP: preprocess": lambda: T.Compose(
            [T.Resize(224, BICUBIC), T.CenterCrop(224), lambda image: image.convert("RGB"), *tensor(HALF, HALF)]
        ),
        "mosaicml/examples: ResNet": lambda: training(size=176),
        "clovaai/CutMix-PyTorch: ImageNet": lambda: training(T.ColorJitter(0.4, 0.4, 0.4)),
        "pytorch tutorial: transfer learning": lambda: evaluation(),
        "microsoft/unilm BEiT: pretraining": TwoSizes,
        "TorchSSL: FlexMatch": FlexMatch,
    },
)


@pipeline("NVIDIA/apex imagenet: training")
def apex(photos: Photos) -> Iterable[Any]:
    """Images that the collate function makes arrays."""
    chain = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip()])

    def collate(samples: list[tuple[Any, int]]) -> tuple[Any, Any]:
        batch = torch.zeros((len(samples), 3, 224, 224), dtype=torch.uint8)
        for number, (image, _) in enumerate(samples):
            batch[number] += torch.from_numpy(np.rollaxis(np.asarray(image, dtype=np.uint8), 2))
        return batch, torch.tensor([target for _, target in samples], dtype=torch.int64)

    return loader(len(photos.files), lambda index: (chain(opened(photos.files[index])), index), collate_fn=collate)


chains(
    own,
    {
        "jeonsworth/ViT-pytorch: training": lambda: T.Compose(
            [T.RandomResizedCrop((224, 224), scale=(0.05, 1.0)), *tensor(HALF, HALF)]
        ),
        "TACJu/TransFG: CUB training": lambda: T.Compose(
            [T.Resize((600, 600)), T.RandomCrop((448, 448)), T.RandomHorizontalFlip(), *tensor()]
        ),
        "TACJu/TransFG: CUB evaluation": lambda: T.Compose([T.Resize((600, 600)), T.CenterCrop((448, 448)), *tensor()]),
        "tjddus9597/Proxy-Anchor: training": lambda: training(),
        "KevinMusgrave/pytorch-metric-learning: CUB": lambda: T.Compose(
            [T.Resize(64), T.RandomResizedCrop(64, scale=(0.16, 1)), T.RandomHorizontalFlip(0.5), *tensor()]
        ),
        "michuanhaohao/reid-strong-baseline: training": lambda: T.Compose(
            [T.Resize([256, 128]), T.RandomHorizontalFlip(0.5), T.Pad(10), T.RandomCrop([256, 128]), *tensor()]
        ),
        "KaiyangZhou/deep-person-reid: training": lambda: T.Compose(
            [T.Resize((256, 128)), T.RandomHorizontalFlip(), MILD, *tensor()]
        ),
        "zoogzog/chexnet: training": lambda: training(),
        "facebookresearch/DomainBed: training": lambda: training(
            T.ColorJitter(0.3, 0.3, 0.3, 0.3), T.RandomGrayscale(), scale=(0.7, 1.0)
        ),
        "facebookresearch/classifier-balancing: training": lambda: training(T.ColorJitter(0.4, 0.4, 0.4, 0)),
        "thuml/Transfer-Learning-Library: Office-Home": lambda: T.Compose(
            [lambda image: image.resize((256, 256)), T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *tensor()]
        ),
        "yinboc/few-shot-meta-baseline: training": lambda: training(size=80),
        "ISIC melanoma notebooks: training": lambda: T.Compose(
            [
                T.RandomRotation(20),
                T.Resize((224, 224)),
                T.RandomHorizontalFlip(),
                T.RandomVerticalFlip(),
                T.ColorJitter(0.1, 0.1, 0.1),
                *tensor(),
            ]
        ),
        "Kaggle notebooks: affine, jitter": lambda: T.Compose(
            [T.Resize((256, 256)), T.RandomAffine(15, (0.1, 0.1), (0.9, 1.1)), T.ColorJitter(0.2, 0.2), *tensor()]
        ),
        "Kaggle notebooks: perspective, gray": lambda: T.Compose(
            [T.Resize(256), T.RandomCrop(224), T.RandomPerspective(0.3), T.RandomGrayscale(0.1), *tensor()]
        ),
        "kentsyx/Neural-IMage-Assessment: training": lambda: T.Compose(
            [T.Resize(256), T.RandomCrop(224), T.RandomHorizontalFlip(), T.ToTensor()]
        ),
        "yassouali/prototypical: miniImageNet": lambda: T.Compose([T.Resize(92), T.CenterCrop(84), *tensor()]),
        "wyharveychen/CloserLookFewShot: evaluation": lambda: T.Compose(
            [T.Resize([int(224 * 1.15)] * 2), T.CenterCrop(224), *tensor()]
        ),
        "wyharveychen/CloserLookFewShot: training": lambda: T.Compose(
            [T.RandomResizedCrop(224), ImageJitter(), T.RandomHorizontalFlip(), *tensor()]
        ),
        "uoguelph-mlrg/Cutout": lambda: T.Compose(
            [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *tensor(), Cutout()]
        ),
        "pytorch/vision documentation: v2, floats first": lambda: V.Compose(
            [
                V.ToImage(),
                V.ToDtype(torch.float32, scale=True),
                V.RandomResizedCrop(224, antialias=True),
                V.RandomHorizontalFlip(),
                V.Normalize(MEAN, STD),
            ]
        ),
        "Kaggle notebooks: floats first": lambda: T.Compose(
            [T.ToTensor(), T.Resize((224, 224), antialias=True), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)]
        ),
        "lukemelas/EfficientNet-PyTorch: advprop": lambda: T.Compose(
            [T.Resize(248, BICUBIC), T.CenterCrop(224), T.ToTensor(), lambda image: image * 2.0 - 1.0]
        ),
        "JDAI-CV/fast-reid": lambda: T.Compose(
            [
                T.Resize((256, 128), BICUBIC),
                T.RandomHorizontalFlip(0.5),
                T.Pad(10),
                T.RandomCrop((256, 128)),
                FloatTensor(),
                T.RandomErasing(0.5, value=[123.0, 116.0, 103.0]),
            ]
        ),
    },
)
