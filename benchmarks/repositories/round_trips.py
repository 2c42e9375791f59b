"""Images that are made arrays or tensors, and images again: by numpy, by cv2, by torchvision's functions."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable
from typing import Any

import cv2
import numpy as np
import torch
from _pipelines import BICUBIC, HALF, F, Photos, T, chains, loader, of_file, opened, own, pipeline, tensor
from harness import MEAN, STD
from PIL import Image, ImageOps
from vision_language import CLIP_MEAN, CLIP_STD
from words_and_faces import small


@pipeline("andyzoujm/pixmix: ImageNet")
def pixmix(photos: Photos) -> Iterable[Any]:
    """Pillow's operations on copies of an image, mixed with those of another one."""
    crop = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip()])
    other = T.Compose([T.Resize(256), T.RandomCrop(224)])
    to_tensor, normalize = T.ToTensor(), T.Normalize(MEAN, STD)
    operations = [ImageOps.autocontrast, ImageOps.equalize, lambda one: ImageOps.posterize(one, 3), ImageOps.solarize]

    def changed(image: Any) -> Any:
        return to_tensor(random.choice(operations)(image.copy()))

    def sample(index: int) -> Any:
        image, picture = crop(opened(photos.files[index])), other(opened(random.choice(photos.files)))
        mixed = changed(image) if random.random() < 0.5 else to_tensor(image)
        for _ in range(random.randrange(5)):
            mixed = 0.5 * (mixed + (changed(image) if random.random() < 0.5 else to_tensor(picture)))
        return normalize(torch.clip(mixed, 0, 1)), index

    return loader(len(photos.files), sample)


class RandomAugment:
    """ALBEF's and BLIP's: an image made an array for each of cv2's operations."""

    def __call__(self, image: Any) -> Any:
        pixels = np.array(image)
        for name in np.random.choice(["equalize", "brightness", "shear", "rotate"], 2):
            if np.random.random() <= 0.5:
                pixels = getattr(self, name)(pixels)
        return pixels

    @staticmethod
    def equalize(pixels: Any) -> Any:
        """Equalizes the histogram of each channel."""
        return cv2.merge([cv2.equalizeHist(channel) for channel in cv2.split(pixels)])

    @staticmethod
    def brightness(pixels: Any) -> Any:
        """Looks each value up in a table."""
        return (np.arange(256, dtype=np.float32) * 1.3).clip(0, 255).astype(np.uint8)[pixels]

    @staticmethod
    def shear(pixels: Any) -> Any:
        """Shears to the right."""
        height, width = pixels.shape[:2]
        return cv2.warpAffine(pixels, np.float32([[1, 0.15, 0], [0, 1, 0]]), (width, height), borderValue=(128,) * 3)

    @staticmethod
    def rotate(pixels: Any) -> Any:
        """Turns by 15 degrees."""
        height, width = pixels.shape[:2]
        matrix = cv2.getRotationMatrix2D((width / 2, height / 2), 15, 1)
        return cv2.warpAffine(pixels, matrix, (width, height), borderValue=(128,) * 3)


def blip() -> Any:
    """BLIP's chain."""
    crop = T.RandomResizedCrop(224, scale=(0.2, 1.0), interpolation=BICUBIC)
    return T.Compose([crop, T.RandomHorizontalFlip(), RandomAugment(), *tensor(CLIP_MEAN, CLIP_STD)])


chains(own, {"salesforce/BLIP: pretraining": blip})


_TILE = T.Compose(
    [T.Lambda(lambda image: image.convert("RGB")), T.Resize((224, 224), interpolation=BICUBIC), *tensor()]
)


@of_file("OpenGVLab/InternVL: tiles", batch=None)
def internvl(name: str) -> Any:
    """The image resized to a grid of tiles by its aspect, and a thumbnail."""
    image = opened(name)
    grids = [(across, down) for across in range(1, 7) for down in range(1, 7) if across * down <= 6]
    across, down = min(grids, key=lambda grid: abs(grid[0] / grid[1] - image.width / image.height))
    large = image.resize((224 * across, 224 * down))
    corners = [(x, y) for y in range(0, 224 * down, 224) for x in range(0, 224 * across, 224)]
    tiles = [large.crop((x, y, x + 224, y + 224)) for x, y in corners] + [image.resize((224, 224))]
    return torch.stack([_TILE(tile) for tile in tiles])


@pipeline("mk-minchul/AdaFace: training")
def adaface(photos: Photos) -> Iterable[Any]:
    """Aligned faces that are cut onto black, made coarse by cv2, or jittered by what a transform drew."""
    table = small(photos, lambda image: image.resize((112, 112)))
    jitter = T.ColorJitter(0.5, 0.5, 0.5, 0)
    chain = T.Compose([T.RandomHorizontalFlip(), *tensor(HALF, HALF)])

    def augmented(image: Any) -> Any:
        if np.random.random() < 0.2:
            pixels = np.zeros_like(np.array(image))
            y, x, height, width = T.RandomResizedCrop.get_params(image, (0.2, 1.0), (3 / 4, 4 / 3))
            pixels[y : y + height, x : x + width] = np.array(F.crop(image, y, x, height, width))
            image = Image.fromarray(pixels)
        if np.random.random() < 0.2:
            side = int(112 * np.random.uniform(0.2, 1.0))
            coarse = cv2.resize(np.array(image), (side, side), interpolation=cv2.INTER_AREA)
            image = Image.fromarray(cv2.resize(coarse, (112, 112), interpolation=cv2.INTER_CUBIC).astype(np.uint8))
        if np.random.random() < 0.2:
            order, brightness, contrast, saturation, _ = jitter.get_params(
                jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue
            )
            changes = (
                (F.adjust_brightness, brightness),
                (F.adjust_contrast, contrast),
                (F.adjust_saturation, saturation),
            )
            for change, factor in (changes[number] for number in order if number < 3):
                image = change(image, factor)
        return image

    def sample(index: int) -> Any:
        image = Image.open(io.BytesIO(table[index])).convert("RGB")
        return chain(augmented(Image.fromarray(np.asarray(image)[:, :, ::-1]))), index

    return loader(len(table), sample, 32)


@of_file("bubbliiiing/yolox-pytorch: validation", batch=8)
def bubbliiiing(name: str) -> Any:
    """A file whose shape is asked of numpy, resized by Pillow onto gray, as in all of the author's detectors."""
    image: Any = Image.open(name)
    if len(np.shape(image)) != 3 or np.shape(image)[2] != 3:
        image = image.convert("RGB")
    scale = min(416 / image.width, 416 / image.height)
    width, height = int(image.width * scale), int(image.height * scale)
    square = Image.new("RGB", (416, 416), (128, 128, 128))
    square.paste(image.resize((width, height), Image.BICUBIC), ((416 - width) // 2, (416 - height) // 2))
    pixels = np.array(np.array(square, np.float32), np.float32) / 255.0
    return np.transpose((pixels - np.array(MEAN)) / np.array(STD), (2, 0, 1)).astype(np.float32)


@of_file("sgrvinod/a-PyTorch-Tutorial-to-Object-Detection", batch=8)
def sgrvinod(name: str) -> Any:
    """Jitter by functions, zoom and crop of a tensor, which is made an image again to be flipped and resized."""
    image = opened(name)
    for change in random.sample([F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue], 4):
        if random.random() < 0.5:
            reach = 18 / 255 if change is F.adjust_hue else 0.5
            image = change(image, (0 if change is F.adjust_hue else 1) + random.uniform(-reach, reach))
    pixels = F.to_tensor(image)
    _, height, width = pixels.shape
    if random.random() < 0.5:
        scale = random.uniform(1, 4)
        larger = torch.ones((3, int(scale * height), int(scale * width))) * torch.tensor(MEAN)[:, None, None]
        y, x = random.randint(0, larger.shape[1] - height), random.randint(0, larger.shape[2] - width)
        larger[:, y : y + height, x : x + width] = pixels
        pixels = larger
    sides = [int(random.uniform(0.3, 1) * side) for side in pixels.shape[1:]]
    y, x = (random.randint(0, side - kept) for side, kept in zip(pixels.shape[1:], sides, strict=True))
    image = F.to_pil_image(pixels[:, y : y + sides[0], x : x + sides[1]])
    image = F.hflip(image) if random.random() < 0.5 else image
    return F.normalize(F.to_tensor(F.resize(image, (300, 300))), MEAN, STD)


@of_file("magicleap/SuperGluePretrainedNetwork")
def superglue(file: str) -> Any:
    """Gray floats of one size."""
    image = cv2.resize(cv2.imread(file, cv2.IMREAD_GRAYSCALE).astype("float32"), (640, 480))
    return torch.from_numpy(image / 255.0).float()[None]


@of_file("swz30/MPRNet: deblurring")
def mprnet(file: str) -> Any:
    """Colours of whole images, and a patch of both as tensors, turned."""
    image, target = opened(file), opened(file)
    if random.randint(0, 2) == 1:
        image, target = F.adjust_gamma(image, 1), F.adjust_gamma(target, 1)
    if random.randint(0, 2) == 1:
        factor = 1 + (0.2 - 0.4 * random.random())
        image, target = F.adjust_saturation(image, factor), F.adjust_saturation(target, factor)
    image, target = F.to_tensor(image), F.to_tensor(target)
    top, left = random.randint(0, target.shape[1] - 128), random.randint(0, target.shape[2] - 128)
    both = [one[:, top : top + 128, left : left + 128] for one in (image, target)]
    turn = random.randint(0, 8)
    if turn in (1, 2):
        return [one.flip(turn) for one in both]
    return [torch.rot90(one, turn - 2, (1, 2)) for one in both] if 3 <= turn <= 5 else both
