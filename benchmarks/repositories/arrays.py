"""Pipelines of cv2, numpy and tensors: heat maps, mosaics, PNG pairs, captions, 16 bits, small images from memory."""

from __future__ import annotations

import functools
import io
import math
import random
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import albumentations as A
import cv2
import numpy as np
import torch
from _pipelines import BICUBIC, Photos, T, V, loader, masks_of, of_file, opened, own, pipeline, tensor
from harness import MEAN, STD
from PIL import Image, ImageCms
from torchvision_here import module

Array = np.ndarray[Any, Any]
SIZE = 512


def read_rgb(name: str) -> Array:
    """A file as most of these repositories read it."""
    return cv2.cvtColor(cv2.imread(name), cv2.COLOR_BGR2RGB)


def boxes_of(number: int, width: int, height: int) -> Array:
    """Eight boxes in an image, as corners."""
    corners = np.random.default_rng(number).uniform(0, 0.6, (8, 2))
    sizes = np.random.default_rng(number + 1).uniform(0.1, 0.4, (8, 2))
    scale = [width, height] * 2
    return np.concatenate([corners, corners + sizes], axis=1).astype(np.float32) * np.float32(scale)


# -- detection


@pipeline("xingyizhou/CenterNet")
def centernet(photos: Photos) -> Iterable[Any]:
    """A warped crop, jittered in floats, and a heat map for each class."""

    def sample(index: int) -> Any:
        image = cv2.imread(photos.files[index])
        height, width = image.shape[:2]
        center = np.array([width / 2, height / 2], np.float32)
        side = max(height, width) * random.choice(np.arange(0.6, 1.4, 0.1))
        center += np.random.uniform(-0.1, 0.1, 2).astype(np.float32) * side
        flips = np.random.random() < 0.5
        if flips:
            image, center[0] = image[:, ::-1, :], width - center[0] - 1
        to_input, to_output = (_affine(center, side, size) for size in (SIZE, SIZE // 4))
        warped = cv2.warpAffine(image, to_input, (SIZE, SIZE), flags=cv2.INTER_LINEAR)
        warped = _lit(warped.astype(np.float32) / 255.0)
        warped = (warped - np.float32(MEAN)) / np.float32(STD)
        heat = np.zeros((80, SIZE // 4, SIZE // 4), np.float32)
        sizes, offsets = np.zeros((128, 2), np.float32), np.zeros((128, 2), np.float32)
        places, are_boxes = np.zeros(128, np.int64), np.zeros(128, np.uint8)
        for number, box in enumerate(boxes_of(index, width, height)):
            corners = np.concatenate([box.reshape(2, 2), np.ones((2, 1), np.float32)], axis=1) @ to_output.T
            corners = np.clip(np.sort(corners, axis=0), 0, SIZE // 4 - 1)
            extent, middle = corners[1] - corners[0], corners.mean(axis=0)
            if min(extent) <= 0:
                continue
            at = middle.astype(np.int32)
            _draw_gaussian(heat[number * 10 % 80], at, max(0, int(min(extent) / 3)))
            sizes[number], offsets[number] = extent, middle - at
            places[number], are_boxes[number] = at[1] * (SIZE // 4) + at[0], 1
        return {
            "input": warped.transpose(2, 0, 1),
            "hm": heat,
            "reg_mask": are_boxes,
            "ind": places,
            "wh": sizes,
            "reg": offsets,
        }

    return loader(len(photos.files), sample, 16)


def _affine(center: Array, side: float, size: int) -> Array:
    """The transform of a square around a point to an image."""
    scale = size / side
    return np.array([[scale, 0, size / 2 - scale * center[0]], [0, scale, size / 2 - scale * center[1]]])


def _lit(image: Array) -> Array:
    """Brightness, contrast and saturation in place, in random order."""
    gray = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    for change in random.sample(range(3), 3):
        alpha = 1.0 + np.random.uniform(-0.4, 0.4)
        image *= alpha
        if change:
            other = gray.mean() if change == 1 else gray[:, :, None]
            image += other * (1 - alpha)
    return image


def _draw_gaussian(heat: Array, center: Array, radius: int) -> None:
    """The larger of a heat map and a bell around a point."""
    y, x = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    bell = np.exp(-(x * x + y * y) / (2 * ((2 * radius + 1) / 6) ** 2))
    (left, top), (height, width) = center - radius, heat.shape
    rows = slice(max(0, top), min(height, top + 2 * radius + 1))
    columns = slice(max(0, left), min(width, left + 2 * radius + 1))
    part = bell[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left]
    np.maximum(heat[rows, columns], part, out=heat[rows, columns])


@pipeline("amdegroot/ssd.pytorch")
def ssd(photos: Photos) -> Iterable[Any]:
    """Colours in floats, an expanded canvas, a resize; the repository's own function stacks."""

    def sample(index: int) -> Any:
        image = cv2.imread(photos.files[index]).astype(np.float32)
        boxes = boxes_of(index, image.shape[1], image.shape[0])
        if random.randint(0, 1):
            image += random.uniform(-32, 32)
        if random.randint(0, 1):
            image *= random.uniform(0.5, 1.5)
        image = cv2.cvtColor(image, cv2.COLOR_BGR2HSV)
        image[:, :, 1] *= random.uniform(0.5, 1.5)
        image[:, :, 0] += random.uniform(-18, 18)
        image[:, :, 0][image[:, :, 0] > 360] -= 360
        image[:, :, 0][image[:, :, 0] < 0] += 360
        image = cv2.cvtColor(image, cv2.COLOR_HSV2BGR)
        if random.randint(0, 1):
            height, width, _ = image.shape
            ratio = random.uniform(1, 2)
            left, top = random.uniform(0, width * (ratio - 1)), random.uniform(0, height * (ratio - 1))
            canvas = np.zeros((int(height * ratio), int(width * ratio), 3), image.dtype)
            canvas[:, :] = (104, 117, 123)
            canvas[int(top) : int(top + height), int(left) : int(left + width)] = image
            image, boxes = canvas, boxes + (int(left), int(top)) * 2
        if random.randint(0, 1):
            image = image[:, ::-1]
        image = cv2.resize(image, (300, 300)).astype(np.float32) - (104.0, 117.0, 123.0)
        image = image.astype(np.float32)[:, :, (2, 1, 0)]
        return torch.from_numpy(image).permute(2, 0, 1), np.hstack((boxes, np.ones((8, 1))))

    return loader(len(photos.files), sample, 16, collate_fn=_of_images_and_boxes)


def _of_images_and_boxes(samples: list[Any]) -> Any:
    return torch.stack([image for image, _ in samples], 0), [torch.FloatTensor(boxes) for _, boxes in samples]


@pipeline("WongKinYiu/yolov7")
def yolov7(photos: Photos) -> Iterable[Any]:
    """A mosaic of four, warped; hue and the rest by tables."""
    side = 640

    def sample(index: int) -> Any:
        center = [int(random.uniform(side // 2, 2 * side - side // 2)) for _ in range(2)]
        mosaic = np.full((2 * side, 2 * side, 3), 114, np.uint8)
        for corner, other in enumerate([index, *random.choices(range(len(photos.files)), k=3)]):
            image = cv2.imread(photos.files[other])
            ratio = side / max(image.shape[:2])
            size = int(image.shape[1] * ratio), int(image.shape[0] * ratio)
            image = cv2.resize(image, size, interpolation=cv2.INTER_AREA if ratio < 1 else cv2.INTER_LINEAR)
            height, width = image.shape[:2]
            top = center[0] - height if corner < 2 else center[0]
            left = center[1] - width if corner % 2 == 0 else center[1]
            rows = slice(max(0, top), min(2 * side, top + height))
            columns = slice(max(0, left), min(2 * side, left + width))
            mosaic[rows, columns] = image[
                rows.start - top : rows.stop - top, columns.start - left : columns.stop - left
            ]
        scale = random.uniform(0.5, 1.5)
        shift = [random.uniform(0.3, 0.7) * side - scale * side for _ in range(2)]
        matrix = np.array([[scale, 0, shift[0]], [0, scale, shift[1]]])
        mosaic = cv2.warpAffine(mosaic, matrix, dsize=(side, side), borderValue=(114, 114, 114))
        _shift_colors(mosaic)
        if random.random() < 0.5:
            mosaic = np.fliplr(mosaic)
        return torch.from_numpy(np.ascontiguousarray(mosaic[:, :, ::-1].transpose(2, 0, 1))), torch.zeros(8, 6)

    def collate(samples: list[Any]) -> Any:
        images, boxes = zip(*samples, strict=True)
        return torch.stack(images, 0), torch.cat(boxes, 0)

    return loader(len(photos.files), sample, 16, collate_fn=collate)


def _shift_colors(image: Array) -> None:
    gains = np.random.uniform(-1, 1, 3) * [0.015, 0.7, 0.4] + 1
    hue, saturation, value = cv2.split(cv2.cvtColor(image, cv2.COLOR_BGR2HSV))
    x = np.arange(0, 256, dtype=np.int16)
    tables = (x * gains[0]) % 180, np.clip(x * gains[1], 0, 255), np.clip(x * gains[2], 0, 255)
    planes = [cv2.LUT(plane, one.astype(np.uint8)) for plane, one in zip((hue, saturation, value), tables, strict=True)]
    cv2.cvtColor(cv2.merge(planes), cv2.COLOR_HSV2BGR, dst=image)


# -- segmentation


@pipeline("CoinCheung/BiSeNet")
def bisenet(photos: Photos) -> Iterable[Any]:
    """Images and masks by cv2: a scale, a crop, a flip, tables of colours, tensors of arrays."""
    pairs = masks_of(photos, Path(tempfile.mkdtemp()))
    side = 512

    def sample(index: int) -> Any:
        image, mask = cv2.imread(pairs[index][0])[:, :, ::-1], cv2.imread(pairs[index][1], 0)
        scale = np.random.uniform(0.5, 2)
        height, width = (math.ceil(length * scale) for length in image.shape[:2])
        image = cv2.resize(image, (width, height))
        mask = cv2.resize(mask, (width, height), interpolation=cv2.INTER_NEAREST)
        down, right = max(0, (side - height) // 2 + 1), max(0, (side - width) // 2 + 1)
        image = np.pad(image, ((down, down), (right, right), (0, 0)))
        mask = np.pad(mask, ((down, down), (right, right)), "constant", constant_values=255)
        top, left = (np.random.randint(0, length - side + 1) for length in image.shape[:2])
        image, mask = (one[top : top + side, left : left + side].copy() for one in (image, mask))
        if np.random.random() < 0.5:
            image, mask = image[:, ::-1, :], mask[:, ::-1]
        rate = np.random.uniform(0.6, 1.4)
        image = np.array([(value - 74) * rate + 74 for value in range(256)]).clip(0, 255).astype(np.uint8)[image]
        tensor = torch.from_numpy(image.transpose(2, 0, 1).astype(np.float32)).div_(255)
        tensor = tensor.sub_(torch.tensor(MEAN)[:, None, None]).div_(torch.tensor(STD)[:, None, None]).clone()
        return tensor.detach(), torch.from_numpy(mask.astype(np.int64).copy()).clone().unsqueeze(0)

    return loader(len(pairs), sample, 8)


# -- restoration and quality


@pipeline("cszn/KAIR: pairs of PNGs")
def kair(photos: Photos) -> Iterable[Any]:
    """Patches of pairs, with a colour profile in each file."""
    folder = Path(tempfile.mkdtemp())
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for number, name in enumerate(photos.files):
        with Image.open(name) as opened:
            image = opened.convert("RGB").resize((512, 384))
        image.save(folder / f"{number}.png", icc_profile=profile)
        image.resize((256, 192), Image.Resampling.BICUBIC).save(folder / f"{number}x2.png", icc_profile=profile)

    def sample(index: int) -> Any:
        high, low = (cv2.imread(str(folder / f"{index}{x}.png"), cv2.IMREAD_COLOR) for x in ("", "x2"))
        high, low = cv2.cvtColor(high, cv2.COLOR_BGR2RGB), cv2.cvtColor(low, cv2.COLOR_BGR2RGB)
        top, left = random.randint(0, low.shape[0] - 48), random.randint(0, low.shape[1] - 48)
        low = low[top : top + 48, left : left + 48, :]
        high = high[2 * top : 2 * top + 96, 2 * left : 2 * left + 96, :]
        turns, flips = random.randint(0, 3), random.randint(0, 1)
        made = [np.rot90(np.flipud(one) if flips else one, turns) for one in (low, high)]
        low, high = (torch.from_numpy(np.ascontiguousarray(one)).permute(2, 0, 1).float().div(255.0) for one in made)
        return {"L": low, "H": high, "L_path": f"{index}x2.png", "H_path": f"{index}.png"}

    return loader(len(photos.files), sample, 16)


@of_file("IIGROUP/MANIQA")
def maniqa(name: str) -> Any:
    """A cubic resize, a crop and a flip of normalised planes."""
    image = cv2.cvtColor(cv2.imread(name, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    image = cv2.resize(image, (500, 500), interpolation=cv2.INTER_CUBIC)
    planes = np.transpose(np.array(image).astype("float32") / 255, (2, 0, 1))
    top, left = np.random.randint(0, 500 - 224), np.random.randint(0, 500 - 224)
    planes = (planes[:, top : top + 224, left : left + 224] - 0.5) / 0.5
    if np.random.rand() > 0.5:
        planes = np.fliplr(planes).copy()
    return {"d_img_org": torch.from_numpy(planes).type(torch.FloatTensor), "score": np.array([3.0])}


@functools.cache
def _clip_transform() -> Any:
    return A.Compose([A.Resize(224, 224), A.Normalize(max_pixel_value=255.0)])


@pipeline("moein-shariatnia/OpenAI-CLIP")
def clip(photos: Photos) -> Iterable[Any]:
    """An albumentations pipeline on cv2's image, and a caption's tokens."""

    def sample(index: int) -> Any:
        image = _clip_transform()(image=read_rgb(photos.files[index]))["image"]
        tokens = np.random.default_rng(index).integers(0, 30522, 200)
        return {
            "input_ids": torch.tensor(tokens),
            "attention_mask": torch.ones(200),
            "image": torch.tensor(image).permute(2, 0, 1).float(),
            "caption": f"a photo of {index}",
        }

    return loader(len(photos.files), sample, 32)


# -- 16 bits


def radiographs(make: Callable[[str], Any]) -> Callable[[Photos], Iterable[Any]]:
    """A repository's dataset of gray PNGs of 12 in 16 bits, made of every fourth photo."""

    def of(photos: Photos) -> Iterable[Any]:
        folder = Path(tempfile.mkdtemp())
        names = [str(folder / f"{number}.png") for number in range(len(photos.files) // 4)]
        for number, (name, photo) in enumerate(zip(names, photos.files[::4], strict=False)):
            with Image.open(photo) as opened:
                gray = np.asarray(opened.convert("L").resize((1024, 1024), Image.Resampling.BICUBIC), np.float32)
            noise = np.random.default_rng(number).normal(0, 6, gray.shape)
            Image.fromarray((gray * 16 + noise).clip(0, 4095).astype(np.uint16)).save(name)
        return loader(len(photos.files), lambda index: make(names[index % len(names)]), 16)

    return of


@pipeline("mlmed/torchxrayvision: 16 bits")
@radiographs
def torchxrayvision(name: str) -> Any:
    """A centre crop and a resize of normalised samples."""
    image = np.asarray(Image.open(name))
    image = (2 * (image.astype(np.float32) / 4095) - 1.0) * 1024
    side = min(image.shape)
    top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
    image = image[None, top : top + side, left : left + side]
    image = cv2.resize(image[0], (224, 224), interpolation=cv2.INTER_AREA)[None]
    return {"img": image.astype(np.float32), "lab": np.zeros(14, np.float32), "idx": 0}


@pipeline("Project-MONAI/MONAI: 16 bits")
@radiographs
def monai(name: str) -> Any:
    """As its reader, its scaling, its resize and its random flip work."""
    array = np.asarray(Image.open(name)).T
    image = torch.as_tensor(np.ascontiguousarray(array)[None].astype(np.float32))
    low, high = image.min(), image.max()
    image = (image - low) / (high - low)
    image = torch.nn.functional.interpolate(image[None], (256, 256), mode="area")[0]
    return torch.flip(image, [1]) if np.random.random() < 0.5 else image


@pipeline("dwofk/fast-depth: depth of 16 bits")
@radiographs
def depth(name: str) -> Any:
    """A depth map by cv2, in metres, resized and cropped."""
    image = cv2.imread(name, cv2.IMREAD_UNCHANGED).astype(np.float32) / 256.0
    image = cv2.resize(image, (400, 400), interpolation=cv2.INTER_NEAREST)
    top, left = random.randint(0, 400 - 224), random.randint(0, 400 - 224)
    return torch.from_numpy(image[top : top + 224, left : left + 224].copy()).unsqueeze(0)


@pipeline("chest X-rays by Pillow: 16 bits")
@radiographs
def by_pillow(name: str) -> Any:
    """An image of 32 bits, resized by Pillow, as a tensor of three channels."""
    image = Image.open(name).convert("I").resize((256, 256), Image.Resampling.BILINEAR)
    tensor = torch.from_numpy(np.array(image, np.float32)[None] / 4095).repeat(3, 1, 1)
    return T.functional.hflip(tensor) if random.random() < 0.5 else tensor


# -- tensors


pipeline("sustainlab-group/SatMAE")(
    own(
        T.Compose(
            [
                *tensor(),
                T.RandomResizedCrop(224, scale=(0.2, 1.0), interpolation=BICUBIC),
                T.RandomHorizontalFlip(),
            ]
        )
    )
)


@pipeline("segmentation by torchvision.io")
def by_torchvision_io(photos: Photos) -> Iterable[Any]:
    """Images and masks decoded to tensors, resized and flipped together by v2."""
    read, mode = module("torchvision.io").decode_image, module("torchvision.io").ImageReadMode
    tv_tensors, pairs = module("torchvision.tv_tensors"), masks_of(photos, Path(tempfile.mkdtemp()))
    both = V.Compose(
        [
            V.Resize((320, 320)),
            V.RandomHorizontalFlip(),
            V.RandomCrop(288),
            V.ToDtype({tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}, scale=True),
            V.Normalize(MEAN, STD),
        ]
    )

    def sample(index: int) -> Any:
        image, label = (Path(name).read_bytes() for name in pairs[index])
        image, label = (torch.frombuffer(bytearray(one), dtype=torch.uint8) for one in (image, label))
        return both(tv_tensors.Image(read(image, mode.RGB)), tv_tensors.Mask(read(label, mode.UNCHANGED)[:1]))

    return loader(len(pairs), sample, 16)


# -- small images from memory, as an LMDB gives them


@pipeline("Janspiry/SR3: PNGs of 128 pixels from memory")
def sr3(photos: Photos) -> Iterable[Any]:
    """Two images of a record, flipped together."""
    records = [[encoded(name, "PNG", (128, 128)), encoded(name, "PNG", (16, 16), (128, 128))] for name in photos.files]

    def sample(index: int) -> Any:
        images = [T.functional.to_tensor(opened(io.BytesIO(one))) for one in records[index]]
        both = torch.stack(images, 0)
        both = T.functional.hflip(both) if random.random() < 0.5 else both
        high, low = (one * 2 - 1 for one in torch.unbind(both, 0))
        return {"HR": high, "SR": low, "Index": index}

    return loader(len(records), sample, 16)


@pipeline("clovaai/deep-text-recognition-benchmark")
def text_lines(photos: Photos) -> Iterable[Any]:
    """Lines of text in gray, all resized to one size where they are collated."""
    records = [encoded(name, "JPEG", (90 + number % 60, 31)) for number, name in enumerate(photos.files)]

    def sample(index: int) -> Any:
        return Image.open(io.BytesIO(records[index])).convert("L"), str(index)

    def collate(samples: list[Any]) -> Any:
        images, labels = zip(*samples, strict=True)
        made = [T.functional.to_tensor(one.resize((100, 32), Image.Resampling.BICUBIC)) for one in images]
        return torch.cat([one.sub_(0.5).div_(0.5).unsqueeze(0) for one in made], 0), labels

    return loader(len(records), sample, 32, collate_fn=collate)


def encoded(name: str, kind: str, *sizes: tuple[int, int]) -> bytes:
    """A photo resized to one size after the other, in a format's bytes."""
    image = opened(name)
    for size in sizes:
        image = image.resize(size, Image.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()
