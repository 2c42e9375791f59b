"""Generative models and restoration: pixels as they are, resized by Pillow, by numpy or by transforms."""

from __future__ import annotations

import io
import math
import os
import random
import tempfile
import zipfile
from collections.abc import Iterable
from functools import partial
from typing import Any

import cv2
import numpy as np
import torch
from _pipelines import BICUBIC, HALF, DataLoader, F, Photos, T, chains, loader, of_file, opened, own, pipeline, tensor
from harness import MEAN, STD
from PIL import Image
from torchvision_here import module

SYMMETRIC = partial(tensor, HALF, HALF)


@of_file("openai/guided-diffusion")
def guided_diffusion(name: str) -> Any:
    """Halved by BOX as long as it goes, then bicubic; the rest by numpy."""
    array = _center_crop(opened(name), 256)
    if random.random() < 0.5:
        array = array[:, ::-1]
    return np.transpose(array.astype(np.float32) / 127.5 - 1, [2, 0, 1])


def _center_crop(image: Any, size: int) -> Any:
    while min(*image.size) >= 2 * size:
        image = image.resize(tuple(x // 2 for x in image.size), resample=Image.BOX)
    scale = size / min(*image.size)
    image = image.resize(tuple(round(x * scale) for x in image.size), resample=Image.BICUBIC)
    array = np.array(image)
    y, x = (array.shape[0] - size) // 2, (array.shape[1] - size) // 2
    return array[y : y + size, x : x + size]


class DiTCrop:
    """DiT's: the same, made an image again."""

    def __call__(self, image: Any) -> Any:
        return Image.fromarray(_center_crop(image, 256))


@of_file("rinongal/textual_inversion")
def textual_inversion(name: str) -> Any:
    """A square cut by numpy, resized by Pillow."""
    image = Image.open(name)
    if image.mode != "RGB":
        image = image.convert("RGB")
    array = np.array(image).astype(np.uint8)
    side = min(array.shape[0], array.shape[1])
    y, x = (array.shape[0] - side) // 2, (array.shape[1] - side) // 2
    image = Image.fromarray(array[y : y + side, x : x + side]).resize((512, 512), resample=Image.BICUBIC)
    image = _FLIP(image)
    return torch.from_numpy((np.array(image).astype(np.uint8) / 127.5 - 1.0).astype(np.float32)).permute(2, 0, 1)


_FLIP = T.RandomHorizontalFlip(p=0.5)


@of_file("CompVis/latent-diffusion: LSUN")
def latent_diffusion(name: str) -> Any:
    """The same with a float array at the end, of size 256."""
    image = Image.open(name)
    array = np.array(image if image.mode == "RGB" else image.convert("RGB")).astype(np.uint8)
    side = min(array.shape[0], array.shape[1])
    y, x = (array.shape[0] - side) // 2, (array.shape[1] - side) // 2
    image = Image.fromarray(array[y : y + side, x : x + side]).resize((256, 256), resample=Image.BICUBIC)
    return (np.array(_FLIP(image)).astype(np.uint8) / 127.5 - 1.0).astype(np.float32)


_DREAM = T.Compose([T.Resize(512, T.InterpolationMode.BILINEAR), T.CenterCrop(512), *SYMMETRIC()])


@of_file("huggingface/diffusers dreambooth")
def dreambooth(name: str) -> Any:
    """Turned as EXIF says, then a chain."""
    from PIL.ImageOps import exif_transpose

    image = exif_transpose(Image.open(name))
    return _DREAM(image if image.mode == "RGB" else image.convert("RGB"))


@of_file("huggingface/diffusers SDXL")
def sdxl(name: str) -> Any:
    """The crop's place belongs to the sample."""
    image = _SDXL_RESIZE(opened(name))
    original = image.height, image.width
    if random.random() < 0.5:
        image = F.hflip(image)
    y, x, height, width = _SDXL_CROP.get_params(image, (512, 512))
    image = F.crop(image, y, x, height, width)
    return _SYMMETRIC(image), torch.tensor([*original, y, x])


_SDXL_RESIZE, _SDXL_CROP, _SYMMETRIC = T.Resize(512), T.RandomCrop(512), T.Compose(SYMMETRIC())


@of_file("lllyasviel/ControlNet")
def control_net(name: str) -> Any:
    """cv2, and floats."""
    image = cv2.cvtColor(cv2.imread(name), cv2.COLOR_BGR2RGB)
    target = cv2.resize(image, (512, 512), interpolation=cv2.INTER_AREA)
    return (target.astype(np.float32) / 127.5) - 1.0


@of_file("junyanz/pix2pix: aligned", batch=None)
def aligned(name: str) -> Any:
    """Two halves with the same crop."""
    both = opened(name)
    half = both.size[0] // 2
    x, y, flips = random.randint(0, 30), random.randint(0, 30), random.random() > 0.5
    parts = []
    for part in (both.crop((0, 0, half, both.size[1])), both.crop((half, 0, 2 * half, both.size[1]))):
        part = part.resize((286, 286), Image.BICUBIC).crop((x, y, x + 256, y + 256))
        parts.append(_SYMMETRIC(part.transpose(Image.FLIP_LEFT_RIGHT) if flips else part))
    return parts


@of_file("pytorch/examples super_resolution", batch=None)
def super_resolution(name: str) -> Any:
    """The luma alone, and it smaller."""
    y, _, _ = Image.open(name).convert("YCbCr").split()
    return _SR_INPUT(y), _SR_TARGET(y)


_SR_INPUT = T.Compose([T.CenterCrop(256), T.Resize(128), T.ToTensor()])
_SR_TARGET = T.Compose([T.CenterCrop(256), T.ToTensor()])


@of_file("leftthomas/SRGAN")
def srgan(name: str) -> Any:
    """A crop that goes to a tensor and back."""
    high = _SRGAN_HIGH(opened(name))
    return _SRGAN_LOW(high), high


_SRGAN_HIGH = T.Compose([T.RandomCrop(128, pad_if_needed=True), T.ToTensor()])
_SRGAN_LOW = T.Compose([T.ToPILImage(), T.Resize(32, interpolation=BICUBIC), T.ToTensor()])


@of_file("xinntao/BasicSR: paired crops")
def basic_sr(name: str) -> Any:
    """cv2, floats, a patch."""
    image = cv2.imdecode(np.fromfile(name, np.uint8), cv2.IMREAD_COLOR).astype(np.float32) / 255.0
    y, x = random.randint(0, max(image.shape[0] - 128, 0)), random.randint(0, max(image.shape[1] - 128, 0))
    patch = np.resize(image[y : y + 128, x : x + 128], (128, 128, 3))
    if random.random() < 0.5:
        patch = np.ascontiguousarray(patch[:, ::-1])
    return torch.from_numpy(np.ascontiguousarray(patch[:, :, ::-1].transpose(2, 0, 1)))


@of_file("CompVis/stable-diffusion: by aspect", batch=None)
def by_aspect(name: str) -> Any:
    """Each image to the nearest of some sizes."""
    image = opened(name)
    ratio = image.width / image.height
    width, height = min(((512, 512), (576, 448), (448, 576)), key=lambda size: abs(math.log(size[0] / size[1] / ratio)))
    return _SYMMETRIC(F.center_crop(F.resize(image, max(width, height)), [height, width]))


@pipeline("huggingface/transformers image-classification")
def image_classification(photos: Photos) -> Iterable[Any]:
    """A function of a batch by `set_transform`."""
    hf = module("datasets")
    chain = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *tensor()])
    columns = {"image": photos.files, "label": list(range(len(photos.files)))}
    dataset = hf.Dataset.from_dict(columns).cast_column("image", hf.Image())

    def train_transforms(batch: Any) -> Any:
        batch["pixel_values"] = [chain(image.convert("RGB")) for image in batch["image"]]
        del batch["image"]
        return batch

    dataset.set_transform(train_transforms)
    return DataLoader(dataset, 16)


@pipeline("huggingface/accelerate cv_example")
def cv_example(photos: Photos) -> Iterable[Any]:
    """The repository's own dataset, whose batches are normalised after the loader."""
    chain = T.Compose([T.RandomResizedCrop((224, 224), scale=(0.5, 1.0)), T.ToTensor()])
    mean, std = torch.tensor(MEAN)[None, :, None, None], torch.tensor(STD)[None, :, None, None]

    def sample(index: int) -> Any:
        return {"image": chain(opened(photos.files[index])), "label": index}

    class Epoch:
        def __iter__(self) -> Any:
            for batch in loader(len(photos.files), sample):
                yield (batch["image"] - mean) / std

    return Epoch()


@pipeline("NVlabs/stylegan2-ada-pytorch: zip")
def stylegan(photos: Photos) -> Iterable[Any]:
    """PNGs that aren't compressed in an archive, as arrays and mirrored."""
    path = os.path.join(tempfile.mkdtemp(), "photos.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for number, name in enumerate(photos.files):
            file = io.BytesIO()
            _SQUARE_256(opened(name)).save(file, "PNG", compress_level=0)
            archive.writestr(f"{number}.png", file.getvalue())
    archives: list[zipfile.ZipFile] = []

    def make(index: int) -> Any:
        if not archives:  # each worker opens its own
            archives.append(zipfile.ZipFile(path))
        with archives[0].open(f"{index // 2}.png") as file:
            image = np.array(Image.open(file)).transpose(2, 0, 1)
        return (image[:, :, ::-1] if index % 2 else image).copy(), np.zeros(0, np.float32)

    return loader(2 * len(photos.files), make)


_SQUARE_256 = T.Compose([T.Resize(256, T.InterpolationMode.LANCZOS), T.CenterCrop(256)])


@of_file("taesungp/CUT: a chain for each image")
def chain_for_each(name: str) -> Any:
    """A Compose of the numbers that were drawn for the image."""
    x, y, flips = random.randint(0, 30), random.randint(0, 30), random.random() > 0.5
    members = [
        T.Resize([286, 286], BICUBIC),
        T.Lambda(lambda image: image.crop((x, y, x + 256, y + 256))),
        T.Lambda(lambda image: image.transpose(Image.FLIP_LEFT_RIGHT) if flips else image),
    ]
    return T.Compose([*members, *SYMMETRIC()])(opened(name))


@of_file("xinntao/Real-ESRGAN", batch=8)
def real_esrgan(name: str) -> Any:
    """cv2's floats, turned, and cut to 400 pixels or mirrored to them."""
    image = cv2.imdecode(np.fromfile(name, np.uint8), cv2.IMREAD_COLOR).astype(np.float32) / 255.0
    if random.random() < 0.5:
        cv2.flip(image, 1, image)
    if random.random() < 0.5:
        image = image.transpose(1, 0, 2)
    down, right = (max(0, 400 - side) for side in image.shape[:2])
    if down or right:
        image = cv2.copyMakeBorder(image, 0, down, 0, right, cv2.BORDER_REFLECT_101)
    y, x = (random.randint(0, side - 400) for side in image.shape[:2])
    image = cv2.cvtColor(np.ascontiguousarray(image[y : y + 400, x : x + 400]), cv2.COLOR_BGR2RGB)
    return torch.from_numpy(image.transpose(2, 0, 1)).float()


@of_file("openai/improved-diffusion")
def improved_diffusion(name: str) -> Any:
    """A file that is loaded while it is open, halved by BOX, then bicubic; converted at the end."""
    with open(name, "rb") as file:
        image = Image.open(file)
        image.load()
    while min(*image.size) >= 128:
        image = image.resize(tuple(side // 2 for side in image.size), resample=Image.BOX)
    scale = 64 / min(*image.size)
    image = image.resize(tuple(round(side * scale) for side in image.size), resample=Image.BICUBIC)
    array = np.array(image.convert("RGB"))
    y, x = (array.shape[0] - 64) // 2, (array.shape[1] - 64) // 2
    return np.transpose(array[y : y + 64, x : x + 64].astype(np.float32) / 127.5 - 1, [2, 0, 1])


@of_file("NVlabs/edm: center-crop")
def edm(name: str) -> Any:
    """A square of an array, made an image again and resized."""
    array = np.array(opened(name))
    side = min(array.shape[:2])
    y, x = (array.shape[0] - side) // 2, (array.shape[1] - side) // 2
    image = Image.fromarray(array[y : y + side, x : x + side])
    return np.array(image.resize((256, 256), Image.LANCZOS)).transpose(2, 0, 1)


@of_file("crowsonkb/k-diffusion")
def k_diffusion(name: str) -> Any:
    """LANCZOS, the centre, and floats of an array."""
    with open(name, "rb") as file:
        image = Image.open(file).convert("RGB")
    array = np.array(_K_DIFFUSION(image), dtype=np.float32) / 255
    return torch.as_tensor(array).movedim(2, 0) * 2 - 1


_K_DIFFUSION = T.Compose([T.Resize(128, interpolation=T.InterpolationMode.LANCZOS), T.CenterCrop(128)])


@of_file("kohya-ss/sd-scripts", batch=None)
def sd_scripts(name: str) -> Any:
    """The nearest of some sizes: cv2's AREA down to it, Pillow's LANCZOS up."""
    with Image.open(name) as image:
        array = np.array(image if image.mode == "RGB" else image.convert("RGB"), np.uint8)
    height, width = array.shape[:2]
    across, down = min(((512, 512), (576, 448), (448, 576)), key=lambda size: abs(size[0] / size[1] - width / height))
    scale = max(across / width, down / height)
    size = max(across, int(width * scale + 0.5)), max(down, int(height * scale + 0.5))
    if width >= size[0] and height >= size[1]:
        array = cv2.resize(array, size, interpolation=cv2.INTER_AREA)
    else:
        array = np.array(Image.fromarray(array).resize(size, Image.LANCZOS))
    x, y = random.randint(0, size[0] - across), random.randint(0, size[1] - down)
    return _SYMMETRIC(array[y : y + down, x : x + across].copy())


@of_file("swz30/Restormer: denoising", batch=8)
def restormer(name: str) -> Any:
    """Bytes that cv2 decodes, floats, a patch and noise."""
    with open(name, "rb") as file:
        image = cv2.imdecode(np.frombuffer(file.read(), np.uint8), cv2.IMREAD_COLOR).astype(np.float32) / 255.0
    y, x = random.randint(0, image.shape[0] - 128), random.randint(0, image.shape[1] - 128)
    patch = cv2.cvtColor(np.ascontiguousarray(image[y : y + 128, x : x + 128]), cv2.COLOR_BGR2RGB)
    high = torch.from_numpy(patch.transpose(2, 0, 1)).float()
    return high + torch.randn(high.size()).mul_(random.choice([15, 25, 50]) / 255.0), high


chains(
    own,
    {
        "pytorch/examples dcgan": lambda: T.Compose([T.Resize(64), T.CenterCrop(64), *SYMMETRIC()]),
        "pytorch/examples fast_neural_style": lambda: T.Compose(
            [T.Resize(256), T.CenterCrop(256), T.ToTensor(), T.Lambda(lambda x: x.mul(255))]
        ),
        "lucidrains/denoising-diffusion-pytorch": lambda: T.Compose(
            [T.Lambda(lambda x: x), T.Resize(128), T.RandomHorizontalFlip(), T.CenterCrop(128), T.ToTensor()]
        ),
        "ermongroup/ddim: CelebA": lambda: T.Compose([T.Resize([64, 64]), T.RandomHorizontalFlip(0.5), T.ToTensor()]),
        "rosinality/stylegan2-pytorch": lambda: T.Compose(
            [T.Resize((256, 256)), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(HALF, HALF, inplace=True)]
        ),
        "clovaai/stargan-v2": lambda: T.Compose(
            [
                T.Lambda(
                    lambda x: (
                        T.RandomResizedCrop(256, scale=[0.8, 1.0], ratio=[0.9, 1.1])(x) if random.random() < 0.5 else x
                    )
                ),
                T.Resize([256, 256]),
                T.RandomHorizontalFlip(),
                *SYMMETRIC(),
            ]
        ),
        "junyanz/CycleGAN: load, crop": lambda: T.Compose(
            [T.Resize([286, 286], BICUBIC), T.RandomCrop(256), T.RandomHorizontalFlip(), *SYMMETRIC()]
        ),
        "taesungp/CUT: zoomed crop": lambda: T.Compose(
            [
                T.Lambda(lambda x: x.resize((286, 286), Image.BICUBIC)),
                T.Lambda(lambda x: x.crop((9, 14, 265, 270))),
                *SYMMETRIC(),
            ]
        ),
        "NVlabs/MUNIT": lambda: T.Compose(
            [T.Resize(256), T.RandomCrop((256, 256)), T.RandomHorizontalFlip(), *SYMMETRIC()]
        ),
        "naoto0804/pytorch-AdaIN": lambda: T.Compose([T.Resize(size=(512, 512)), T.RandomCrop(256), T.ToTensor()]),
        "CompVis/taming-transformers: VQGAN": lambda: T.Compose(
            [T.Resize(256), T.RandomCrop(256), T.ToTensor(), T.Lambda(lambda x: x * 2 - 1)]
        ),
        "huggingface/diffusers text_to_image": lambda: T.Compose(
            [
                T.Resize(512, T.InterpolationMode.BILINEAR),
                T.CenterCrop(512),
                T.RandomHorizontalFlip(),
                *tensor([0.5], [0.5]),
            ]
        ),
        "huggingface/diffusers unconditional": lambda: T.Compose(
            [
                T.Resize(64, T.InterpolationMode.BILINEAR),
                T.RandomCrop(64),
                T.RandomHorizontalFlip(),
                *tensor([0.5], [0.5]),
            ]
        ),
        "facebookresearch/DiT": lambda: T.Compose([DiTCrop(), T.RandomHorizontalFlip(), *SYMMETRIC()]),
    },
)
