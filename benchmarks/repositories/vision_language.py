"""Images beside text: Hugging Face's processors, CLIP's adapters, what models of both are trained on."""

from __future__ import annotations

import base64
import io
import random
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _pipelines import (
    BICUBIC,
    DataLoader,
    Make,
    Photos,
    T,
    by_file,
    chains,
    loader,
    of_file,
    opened,
    own,
    pipeline,
    tensor,
)
from PIL import Image
from torch.utils.data import IterableDataset
from torchvision_here import module

CLIP_MEAN, CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]


def _training(least: float) -> Any:
    crop = T.RandomResizedCrop(224, scale=(least, 1.0), interpolation=BICUBIC)
    return T.Compose([crop, T.RandomHorizontalFlip(), *tensor(CLIP_MEAN, CLIP_STD)])


chains(
    own,
    {
        "KaiyangZhou/CoOp: training": lambda: _training(0.08),
        "gaopengcuhk/Tip-Adapter: training": lambda: _training(0.5),
        "salesforce/LAVIS: evaluation": lambda: T.Compose(
            [T.Resize((384, 384), BICUBIC), *tensor(CLIP_MEAN, CLIP_STD)]
        ),
        "Vision-CAIR/MiniGPT-4: training": lambda: T.Compose(
            [T.RandomResizedCrop(224, scale=(0.5, 1.0), interpolation=BICUBIC), *tensor(CLIP_MEAN, CLIP_STD)]
        ),
    },
)


def hf() -> Any:
    return module("transformers")


def processor(process: Any) -> Make:
    """A Hugging Face processor of one image as the repository's own dataset."""
    return by_file(lambda name: process(opened(name), return_tensors="pt")["pixel_values"][0])


chains(
    processor,
    {
        "huggingface/transformers CLIP: processor": lambda: hf().CLIPImageProcessor(),
        "huggingface/transformers ViT: processor": lambda: hf().ViTImageProcessor(),
        "huggingface/transformers SigLIP: processor": lambda: hf().SiglipImageProcessor(
            size={"height": 384, "width": 384}
        ),
        "huggingface/transformers ViT: PIL processor": lambda: hf().ViTImageProcessorPil(),
    },
)


@pipeline("huggingface/transformers ViT: processor that collates")
def collated(photos: Photos) -> Iterable[Any]:
    """Images that a processor makes a batch of."""
    process = hf().ViTImageProcessor()
    dataset = [Path(name) for name in photos.files]

    def collate(names: list[Path]) -> Any:
        return dict(process([opened(name) for name in names], return_tensors="pt"))

    return DataLoader(dataset, 16, collate_fn=collate)


@pipeline("haotian-liu/LLaVA: squares")
def llava(photos: Photos) -> Iterable[Any]:
    """An image on a square of the mean colour, then CLIP's processor."""
    options = {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}}
    process = hf().CLIPImageProcessorPil(**options)
    colour = tuple(int(value * 255) for value in process.image_mean)

    def sample(name: str) -> Any:
        image = _on_square(opened(name), colour)
        return process.preprocess(image, return_tensors="pt")["pixel_values"][0]

    return by_file(sample, 8)(photos)


def _on_square(image: Any, colour: Any) -> Any:
    width, height = image.size
    if width == height:
        return image
    side = max(width, height)
    square = Image.new(image.mode, (side, side), colour)
    square.paste(image, ((side - width) // 2, (side - height) // 2))
    return square


@pipeline("mlfoundations/open_flamingo: interleaved")
def open_flamingo(photos: Photos) -> Iterable[Any]:
    """Four images a sample, in base64, from a stream."""
    chain = T.Compose(
        [
            T.Resize(224, BICUBIC),
            T.CenterCrop(224),
            lambda image: image.convert("RGB"),
            *tensor(CLIP_MEAN, CLIP_STD),
        ]
    )
    texts = [base64.b64encode(Path(name).read_bytes()).decode() for name in photos.files]
    flip = T.RandomHorizontalFlip(p=0.5)

    class Documents(IterableDataset[Any]):
        def __iter__(self) -> Any:
            for start in range(0, len(texts), 4):
                files = map(io.BytesIO, map(base64.b64decode, texts[start : start + 4]))
                images = [opened(file) for file in files]
                yield flip(torch.cat([chain(image).unsqueeze(0) for image in images], dim=0))

    return DataLoader(Documents(), batch_size=None)


@of_file("huggingface/diffusers instruct_pix2pix")
def instruct_pix2pix(name: str) -> Any:
    """An array that is resized by Pillow, then cut and flipped as a tensor."""
    image = np.array(opened(name).resize((256, 256))).transpose(2, 0, 1)
    return _PAIRED(2 * (torch.tensor(image) / 255) - 1)


_PAIRED = T.Compose([T.CenterCrop(256), T.RandomHorizontalFlip()])


@pipeline("tencent-ailab/IP-Adapter: training")
def ip_adapter(photos: Photos) -> Iterable[Any]:
    """One opened file for a chain and a processor, and batches of the repository's own."""
    chain = T.Compose([T.Resize(512, T.InterpolationMode.BILINEAR), T.CenterCrop(512), *tensor([0.5], [0.5])])
    process = hf().CLIPImageProcessor()

    def sample(index: int) -> Any:
        raw = Image.open(photos.files[index])
        image = chain(raw.convert("RGB"))
        return image, process(images=raw, return_tensors="pt").pixel_values, int(random.random() < 0.05)

    def collate(samples: Any) -> Any:
        images, clip, dropped = zip(*samples, strict=True)
        return {"images": torch.stack(images), "clip_images": torch.cat(clip, dim=0), "dropped": dropped}

    return loader(len(photos.files), sample, 8, collate_fn=collate)


@pipeline("lucidrains/DALLE-pytorch: skipped files")
def dalle(photos: Photos) -> Iterable[Any]:
    """Files that end too early or are no images, in whose place the next one is taken."""
    root = Path(tempfile.mkdtemp())
    for number, name in enumerate(photos.files):
        data = Path(name).read_bytes()
        broken = {3: data[: len(data) // 2], 5: b"no image"}.get(number % 10, data)
        (root / f"{number}.jpg").write_bytes(broken)
    square = T.RandomResizedCrop(128, scale=(0.75, 1.0), ratio=(1.0, 1.0))
    to_rgb = T.Lambda(lambda image: image.convert("RGB") if image.mode != "RGB" else image)
    chain = T.Compose([to_rgb, square, T.ToTensor()])

    def sample(index: int) -> Any:
        try:
            return index, chain(Image.open(root / f"{index}.jpg"))
        except OSError:
            return sample((index + 1) % len(photos.files))

    return loader(len(photos.files), sample)
