"""Small images: words to be read, faces and people to be recognised."""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from _pipelines import BICUBIC, HALF, Photos, T, loader, opened, pipeline, tensor
from PIL import Image
from torchvision_here import module


def small(photos: Photos, change: Callable[[Any], Any]) -> list[bytes]:
    """A JPEG of what is made of each photo."""
    found = []
    for name in photos.files:
        file = io.BytesIO()
        change(opened(name)).save(file, "JPEG", quality=92)
        found.append(file.getvalue())
    return found


def words(photos: Photos) -> list[bytes]:
    """As large as a word is, in a table of bytes as lmdb has them."""
    return small(photos, lambda image: image.crop((0, 0, min(image.width, 240), min(image.height, 64))))


@pipeline("clovaai/deep-text-recognition-benchmark")
def deep_text(photos: Photos) -> Iterable[Any]:
    """Words resized where they are collated, each padded by its last column."""
    table = words(photos)

    def padded(image: Any) -> Any:
        width = min(100, math.ceil(32 * image.width / image.height))
        pixels = _TO_TENSOR(image.resize((width, 32), Image.BICUBIC))
        pixels.sub_(0.5).div_(0.5)
        result = torch.zeros(3, 32, 100)
        result[:, :, :width] = pixels
        if width < 100:
            result[:, :, width:] = pixels[:, :, width - 1].unsqueeze(2).expand(3, 32, 100 - width)
        return result

    def collate(samples: Any) -> Any:
        images, labels = zip(*samples, strict=True)
        return torch.cat([padded(image).unsqueeze(0) for image in images], 0), labels

    return loader(len(table), lambda index: (opened(io.BytesIO(table[index])), str(index)), 16, collate_fn=collate)


_TO_TENSOR = T.ToTensor()


@pipeline("meijieru/crnn.pytorch")
def crnn(photos: Photos) -> Iterable[Any]:
    """Gray words, all as wide as the widest of the batch."""
    table = words(photos)

    def collate(samples: Any) -> Any:
        images, labels = zip(*samples, strict=True)
        width = max(32, int(np.floor(max(image.width / image.height for image in images) * 32)))
        resized = [_TO_TENSOR(image.resize((width, 32), Image.BILINEAR)).sub_(0.5).div_(0.5) for image in images]
        return torch.cat([one.unsqueeze(0) for one in resized], 0), labels

    return loader(
        len(table),
        lambda index: (Image.open(io.BytesIO(table[index])).convert("L"), str(index)),
        16,
        collate_fn=collate,
    )


@pipeline("baudm/parseq")
def parseq(photos: Photos) -> Iterable[Any]:
    """Words with timm's RandAugment."""
    table = words(photos)
    policy = module("timm.data").rand_augment_transform("rand-m5-n3-inc1", {"translate_const": 10})
    chain = T.Compose([policy, T.Resize((32, 128), BICUBIC), T.ToTensor(), T.Normalize(0.5, 0.5)])
    return loader(len(table), lambda index: (chain(opened(io.BytesIO(table[index]))), index), 16)


@pipeline("deepinsight/insightface: arcface_torch")
def arcface(photos: Photos) -> Iterable[Any]:
    """Records that cv2 decodes, made images again."""
    table = small(photos, lambda image: image.resize((112, 112)))
    chain = T.Compose([T.ToPILImage(), T.RandomHorizontalFlip(), *tensor(HALF, HALF)])

    def sample(index: int) -> Any:
        image = cv2.cvtColor(cv2.imdecode(np.frombuffer(table[index], np.uint8), 1), cv2.COLOR_BGR2RGB)
        return chain(image), torch.tensor(index, dtype=torch.long)

    return loader(len(table), sample, 32)


@pipeline("timesler/facenet-pytorch")
def facenet(photos: Photos) -> Iterable[Any]:
    """An image made an array of floats, which makes a tensor without division."""
    table = small(photos, lambda image: image.resize((160, 160)))
    chain = T.Compose([np.float32, T.ToTensor(), lambda pixels: (pixels - 127.5) / 128.0])
    return loader(len(table), lambda index: (chain(opened(io.BytesIO(table[index]))), index), 32)


@pipeline("damo-cv/TransReID: training")
def transreid(photos: Photos) -> Iterable[Any]:
    """A person, with timm's erasing by noise behind torchvision's chain."""
    folder = Path(tempfile.mkdtemp())
    for number, data in enumerate(small(photos, lambda image: image.resize((64, 128)))):
        (folder / f"{number}.jpg").write_bytes(data)
    erasing = module("timm.data.random_erasing").RandomErasing(0.5, mode="pixel", max_count=1, device="cpu")
    chain = T.Compose(
        [
            T.Resize([256, 128], interpolation=BICUBIC),
            T.RandomHorizontalFlip(0.5),
            T.Pad(10),
            T.RandomCrop([256, 128]),
            *tensor(HALF, HALF),
            erasing,
        ]
    )

    def collate(samples: Any) -> Any:
        images, people, names = zip(*samples, strict=True)
        return torch.stack(images, dim=0), torch.tensor(people), names

    def sample(index: int) -> Any:
        return chain(opened(folder / f"{index}.jpg")), index, f"{index}.jpg"

    return loader(len(photos.files), sample, 16, collate_fn=collate)


@pipeline("yunjey/stargan: CelebA")
def celeba(photos: Photos) -> Iterable[Any]:
    """Aligned faces, which nobody converts to RGB."""
    table = small(photos, lambda image: image.resize((178, 218)))
    chain = T.Compose([T.RandomHorizontalFlip(), T.CenterCrop(178), T.Resize(128), *tensor(HALF, HALF)])

    def sample(index: int) -> Any:
        return chain(Image.open(io.BytesIO(table[index]))), torch.FloatTensor([True, False, True])

    return loader(len(table), sample, 16)
