"""Detection and segmentation: an image together with boxes or masks."""

from __future__ import annotations

import functools
import random
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from _pipelines import PIPELINES, F, Make, Photos, T, V, chains, loader, masks_of, of_file, opened, pipeline, tensor
from harness import MEAN, STD
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torchvision_here import module

NEAREST = T.InterpolationMode.NEAREST


def of_mask(name: str, batch: int | None = 8) -> Callable[[Callable[[Any, Any], Any]], Any]:
    """Registers a function of an image and its mask."""

    def add(both: Callable[[Any, Any], Any]) -> Any:
        def make(photos: Photos) -> Iterable[Any]:
            pairs = masks_of(photos, Path(tempfile.mkdtemp()))
            return loader(len(pairs), lambda index: both(opened(pairs[index][0]), Image.open(pairs[index][1])), batch)

        PIPELINES[name] = make
        return both

    return add


_NORMALIZE = T.Normalize(MEAN, STD)
_TENSOR = T.Compose(tensor())


@of_mask("pytorch/vision segmentation")
def vision(image: Any, mask: Any) -> Any:
    """Resize, flip, crop, as the references' own functional classes do."""
    size = random.randint(260, 1040)
    image, mask = F.resize(image, size, antialias=True), F.resize(mask, size, NEAREST)
    if random.random() < 0.5:
        image, mask = F.hflip(image), F.hflip(mask)
    image, mask = _pad_if_smaller(image, 480), _pad_if_smaller(mask, 480, 255)
    box = T.RandomCrop.get_params(image, (480, 480))
    image, mask = F.crop(image, *box), F.crop(mask, *box)
    image = _NORMALIZE(F.convert_image_dtype(F.pil_to_tensor(image), torch.float))
    return image, torch.as_tensor(np.array(mask), dtype=torch.int64)


def _pad_if_smaller(image: Any, size: int, fill: int = 0) -> Any:
    width, height = image.size
    if min(width, height) < size:
        return F.pad(image, (0, 0, max(0, size - width), max(0, size - height)), fill=fill)
    return image


@of_mask("pytorch/vision segmentation: evaluation", batch=None)
def vision_evaluation(image: Any, mask: Any) -> Any:
    """Resized alone."""
    image, mask = F.resize(image, 520, antialias=True), F.resize(mask, 520, NEAREST)
    image = _NORMALIZE(F.convert_image_dtype(F.pil_to_tensor(image), torch.float))
    return image, torch.as_tensor(np.array(mask), dtype=torch.int64)


@of_mask("jfzhang95/pytorch-deeplab-xception")
def deeplab_xception(image: Any, mask: Any) -> Any:
    """Pillow's own calls, and numpy's floats."""
    if random.random() < 0.5:
        image, mask = image.transpose(Image.FLIP_LEFT_RIGHT), mask.transpose(Image.FLIP_LEFT_RIGHT)
    short, crop = random.randint(256, 1026), 513
    width, height = image.size
    size = (short, int(1.0 * height * short / width)) if height > width else (int(1.0 * width * short / height), short)
    image, mask = image.resize(size, Image.BILINEAR), mask.resize(size, Image.NEAREST)
    if short < crop:
        border = (0, 0, max(0, crop - size[0]), max(0, crop - size[1]))
        image, mask = ImageOps.expand(image, border, fill=0), ImageOps.expand(mask, border, fill=0)
    width, height = image.size
    x, y = random.randint(0, max(0, width - crop)), random.randint(0, max(0, height - crop))
    image, mask = image.crop((x, y, x + crop, y + crop)), mask.crop((x, y, x + crop, y + crop))
    if random.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(radius=random.random()))
    array = np.array(image).astype(np.float32) / 255.0
    array = ((array - MEAN) / STD).astype(np.float32)
    return torch.from_numpy(array.transpose((2, 0, 1))), torch.from_numpy(np.array(mask).astype(np.float32))


@of_mask("milesial/Pytorch-UNet", batch=None)
def unet(image: Any, mask: Any) -> Any:
    """Half the size, by numpy to floats."""
    size = int(image.size[0] * 0.5), int(image.size[1] * 0.5)
    image, mask = image.resize(size, resample=Image.BICUBIC), mask.resize(size, resample=Image.NEAREST)
    array = np.asarray(image).transpose((2, 0, 1)) / 255.0
    return torch.as_tensor(array.copy()).float().contiguous(), torch.as_tensor(np.asarray(mask).copy()).long()


@of_mask("zllrunning/face-parsing.PyTorch")
def face_parsing(image: Any, mask: Any) -> Any:
    """Jitter, flip, a random scale, a crop."""
    image = _FACE(image)
    if random.random() > 0.5:
        image, mask = image.transpose(Image.FLIP_LEFT_RIGHT), mask.transpose(Image.FLIP_LEFT_RIGHT)
    scale = random.choice((0.75, 1.0, 1.25, 1.5))
    size = max(448, int(image.width * scale)), max(448, int(image.height * scale))
    image, mask = image.resize(size, Image.BILINEAR), mask.resize(size, Image.NEAREST)
    x, y = int(random.random() * (size[0] - 448)), int(random.random() * (size[1] - 448))
    box = x, y, x + 448, y + 448
    return _TENSOR(image.crop(box)), np.array(mask.crop(box)).astype(np.int64)[np.newaxis]


_FACE = T.ColorJitter(brightness=0.5, contrast=0.5, saturation=0.5)


@of_mask("xuebinqin/U-2-Net")
def u2net(image: Any, mask: Any) -> Any:
    """Resized to a square, a crop of both."""
    image, mask = image.resize((320, 320), Image.BILINEAR), mask.resize((320, 320), Image.NEAREST)
    x, y = random.randint(0, 32), random.randint(0, 32)
    box = x, y, x + 288, y + 288
    return _TENSOR(image.crop(box)), torch.from_numpy(np.array(mask.crop(box))).long()


@pipeline("hszhao/semseg: PSPNet")
def pspnet(photos: Photos) -> Iterable[Any]:
    """cv2 for all of it."""
    pairs = masks_of(photos, Path(tempfile.mkdtemp()))

    def sample(index: int) -> Any:
        name, label = pairs[index]
        image = cv2.cvtColor(cv2.imread(name, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
        mask = cv2.imread(label, cv2.IMREAD_GRAYSCALE)
        size = 473, 473
        image = cv2.resize(np.float32(image), size, interpolation=cv2.INTER_LINEAR)
        mask = cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST)
        return (torch.from_numpy(image.transpose(2, 0, 1)) - 120) / 57, torch.from_numpy(mask).long()

    return loader(len(pairs), sample, 8)


# -- boxes


def boxes_of(number: int, width: int, height: int) -> torch.Tensor:
    """Some boxes in an image."""
    corners = np.random.default_rng(number).uniform(0, 0.6, (8, 2))
    sizes = np.random.default_rng(number + 1).uniform(0.1, 0.4, (8, 2))
    boxes = np.concatenate([corners, corners + sizes], 1) * [width, height, width, height]
    return torch.tensor(boxes, dtype=torch.float32)


def detected(name: str, make_both: Callable[[], Callable[[Any, dict[str, Any]], Any]]) -> None:
    """Registers a function of an image and its target."""

    def make(photos: Photos) -> Iterable[Any]:
        both = make_both()

        def sample(index: int) -> Any:
            image = opened(photos.files[index])
            target = {"boxes": boxes_of(index, *image.size), "labels": torch.arange(8), "image_id": index}
            return both(image, target)

        return loader(len(photos.files), sample, None)

    PIPELINES[name] = make


def _hflip(image: Any, target: dict[str, Any]) -> Any:
    if random.random() < 0.5:
        width = image.size[0]
        image = F.hflip(image)
        boxes = target["boxes"].clone()
        boxes[:, [0, 2]] = width - target["boxes"][:, [2, 0]]
        target = target | {"boxes": boxes}
    return image, target


def _detr_resize(image: Any, target: dict[str, Any], size: int, longest: int | None = None) -> Any:
    width, height = image.size
    if longest is not None and max(width, height) / min(width, height) * size > longest:
        size = round(longest * min(width, height) / max(width, height))
    ratio = size / min(width, height)
    resized = F.resize(image, [round(height * ratio), round(width * ratio)])
    return resized, target | {"boxes": target["boxes"] * ratio}


def _detr(image: Any, target: dict[str, Any]) -> Any:
    image, target = _hflip(image, target)
    size = random.choice([480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800])
    if random.random() < 0.5:
        image, target = _detr_resize(image, target, random.choice([400, 500, 600]))
        side = random.randint(384, min(image.width, 600)), random.randint(384, min(image.height, 600))
        y, x, height, width = T.RandomCrop.get_params(image, side[::-1])
        image = F.crop(image, y, x, height, width)
        target = target | {"boxes": target["boxes"] - torch.tensor([x, y, x, y])}
    image, target = _detr_resize(image, target, size, 1333)
    return _TENSOR(image), target


def _reference(image: Any, target: dict[str, Any]) -> Any:
    image, target = _hflip(image, target)
    return F.convert_image_dtype(F.pil_to_tensor(image), torch.float), target


def _v2(*members: Any) -> Callable[[], Callable[[Any, dict[str, Any]], Any]]:
    """A chain of v2 on an image and its boxes."""
    tv = module("torchvision.tv_tensors")

    def make() -> Callable[[Any, dict[str, Any]], Any]:
        chain = V.Compose([*members, V.ToImage(), V.ToDtype(torch.float32, scale=True), V.SanitizeBoundingBoxes()])

        def both(image: Any, target: dict[str, Any]) -> Any:
            boxes = tv.BoundingBoxes(target["boxes"], format="XYXY", canvas_size=(image.height, image.width))
            return chain(image, target | {"boxes": boxes})

        return both

    return make


detected("facebookresearch/detr", lambda: _detr)
detected("pytorch/vision detection: hflip", lambda: _reference)
detected("pytorch/vision detection: hflip, v2", _v2(V.RandomHorizontalFlip(0.5)))
detected(
    "pytorch/vision detection: ssd",
    _v2(
        V.RandomPhotometricDistort(),
        V.RandomZoomOut(fill=[123, 117, 104]),
        V.RandomIoUCrop(),
        V.RandomHorizontalFlip(0.5),
    ),
)
detected("pytorch/vision detection: ssdlite", _v2(V.RandomIoUCrop(), V.RandomHorizontalFlip(0.5)))
detected(
    "pytorch/vision detection: multiscale",
    _v2(V.RandomShortestSize(list(range(480, 801, 32)), 1333), V.RandomHorizontalFlip(0.5)),
)
detected(
    "lyuwenyu/RT-DETR",
    _v2(
        V.RandomPhotometricDistort(p=0.8),
        V.RandomZoomOut(fill=0),
        V.RandomIoUCrop(),
        V.SanitizeBoundingBoxes(),
        V.RandomHorizontalFlip(),
        V.Resize((640, 640)),
    ),
)


def _albumentations(*names: tuple[str, tuple[Any, ...], dict[str, Any]], **arguments: Any) -> Any:
    A = module("albumentations")
    last = [A.Normalize(MEAN, STD), module("albumentations.pytorch").ToTensorV2()]
    return A.Compose([getattr(A, name)(*given, **more) for name, given, more in names] + last, seed=1, **arguments)


@pipeline("huggingface/transformers object-detection")
def object_detection(photos: Photos) -> Iterable[Any]:
    """albumentations on Pillow's pixels."""
    A = module("albumentations")
    chain = _albumentations(
        ("LongestMaxSize", (480,), {}),
        ("PadIfNeeded", (480, 480), {"fill": 0}),
        ("HorizontalFlip", (), {"p": 0.5}),
        ("RandomBrightnessContrast", (), {"p": 0.5}),
        ("HueSaturationValue", (), {"p": 0.1}),
        bbox_params=A.BboxParams(format="pascal_voc", label_fields=["labels"], clip=True, min_area=1),
    )

    def sample(index: int) -> Any:
        image = Image.open(photos.files[index])
        boxes = boxes_of(index, *image.size).numpy()
        made = chain(image=np.array(image.convert("RGB")), bboxes=boxes, labels=np.arange(8))
        return made["image"], torch.as_tensor(made["bboxes"])

    return loader(len(photos.files), sample, None)


def by_cv2(chain: Any) -> Make:
    """cv2, then albumentations."""

    def make(photos: Photos) -> Iterable[Any]:
        def sample(index: int) -> Any:
            image = cv2.cvtColor(cv2.imread(photos.files[index]), cv2.COLOR_BGR2RGB)
            return chain(image=image)["image"], index

        return loader(len(photos.files), sample)

    return make


_FLIPPED = ("HorizontalFlip", (), {"p": 0.5})
chains(
    by_cv2,
    {
        "Kaggle notebooks: albumentations training": lambda: _albumentations(
            ("RandomResizedCrop", ((224, 224),), {}), _FLIPPED, ("ColorJitter", (), {})
        ),
        "Kaggle notebooks: albumentations resize, flips": lambda: _albumentations(
            ("Resize", (256, 256), {}), _FLIPPED, ("VerticalFlip", (), {"p": 0.5}), ("Transpose", (), {})
        ),
        "Kaggle notebooks: albumentations evaluation": lambda: _albumentations(
            ("SmallestMaxSize", (256,), {}), ("CenterCrop", (224, 224), {})
        ),
    },
)


@functools.cache
def _semantic() -> Any:
    return _albumentations(
        ("PadIfNeeded", (512, 512), {"p": 1.0, "fill_mask": 255, "fill": 0}),
        ("RandomCrop", (512, 512), {"p": 1.0}),
        _FLIPPED,
    )


@of_mask("huggingface/transformers semantic-segmentation")
def semantic_segmentation(image: Any, mask: Any) -> Any:
    """albumentations on both."""
    made = _semantic()(image=np.array(image), mask=np.array(mask))
    return made["image"], made["mask"].long()


@of_mask("VainF/DeepLabV3Plus-Pytorch")
def deeplab_v3_plus(image: Any, mask: Any) -> Any:
    """A random scale, padding, a crop and a flip by torchvision's functions."""
    scale = random.uniform(0.5, 2.0)
    size = int(image.height * scale), int(image.width * scale)
    image, mask = F.resize(image, size, T.InterpolationMode.BILINEAR), F.resize(mask, size, NEAREST)
    for side in (image.width, image.height):
        if side < 513:
            padding = int((1 + 513 - side) / 2)
            image, mask = F.pad(image, padding), F.pad(mask, padding)
    y, x = random.randint(0, image.height - 513), random.randint(0, image.width - 513)
    image, mask = F.crop(image, y, x, 513, 513), F.crop(mask, y, x, 513, 513)
    if random.random() < 0.5:
        image, mask = F.hflip(image), F.hflip(mask)
    return F.normalize(F.to_tensor(image), MEAN, STD), torch.from_numpy(np.array(mask, dtype="uint8"))


@pipeline("Megvii-BaseDetection/YOLOX: evaluation")
def yolox(photos: Photos) -> Iterable[Any]:
    """cv2's image on a gray square, as floats."""

    def sample(index: int) -> Any:
        image = cv2.imread(photos.files[index])
        padded = np.full((416, 416, 3), 114, np.uint8)
        ratio = min(416 / image.shape[0], 416 / image.shape[1])
        height, width = int(image.shape[0] * ratio), int(image.shape[1] * ratio)
        padded[:height, :width] = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
        return np.ascontiguousarray(padded.transpose(2, 0, 1), dtype=np.float32), index

    return loader(len(photos.files), sample, 8)


@pipeline("leoxiaobin/deep-high-resolution-net.pytorch")
def hrnet_pose(photos: Photos) -> Iterable[Any]:
    """cv2's warp of a person, and a chain on the array."""

    def sample(index: int) -> Any:
        image = cv2.imread(photos.files[index], cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        height, width = image.shape[:2]
        if random.random() < 0.5:
            image = image[:, ::-1, :]
        matrix = cv2.getRotationMatrix2D((width / 2, height / 2), random.uniform(-45, 45), 256 / height)
        matrix[:, 2] += 96 - width / 2, 128 - height / 2
        warped = cv2.warpAffine(image, matrix, (192, 256), flags=cv2.INTER_LINEAR)
        return _TENSOR(warped), np.zeros((17, 64, 48), np.float32), index

    return loader(len(photos.files), sample)


@of_file("isl-org/MiDaS", None)
def midas(name: str) -> Any:
    """cv2's bicubic resize of doubles to multiples of 32."""
    image = cv2.cvtColor(cv2.imread(name), cv2.COLOR_BGR2RGB) / 255.0
    scale = 384 / max(image.shape[:2])
    height, width = (int(np.round(scale * side / 32) * 32) for side in image.shape[:2])
    image = cv2.resize(image, (width, height), interpolation=cv2.INTER_CUBIC)
    image = (image - np.array(MEAN)) / np.array(STD)
    return np.ascontiguousarray(np.transpose(image, (2, 0, 1))).astype(np.float32)


@of_file("ultralytics/yolov5: validation", 8)
def yolov5(name: str) -> Any:
    """cv2's AREA, and a gray frame."""
    image = cv2.imread(name)
    height, width = (round(side * 640 / max(image.shape[:2])) for side in image.shape[:2])
    way = cv2.INTER_AREA if height < image.shape[0] else cv2.INTER_LINEAR
    image = cv2.resize(image, (width, height), interpolation=way)
    top, left = (640 - height) // 2, (640 - width) // 2
    frame = top, 640 - height - top, left, 640 - width - left
    image = cv2.copyMakeBorder(image, *frame, cv2.BORDER_CONSTANT, value=(114, 114, 114))
    return torch.from_numpy(np.ascontiguousarray(image.transpose((2, 0, 1))[::-1])), name


@pipeline("ultralytics/yolov5: mosaic")
def mosaic(photos: Photos) -> Iterable[Any]:
    """Four images around a point, warped by cv2 to one, whose colours are looked up in tables."""

    def sample(index: int) -> Any:
        middle = [random.randint(160, 480) for _ in range(2)]
        large = np.full((640, 640, 3), 114, dtype=np.uint8)
        for place, number in enumerate([index, *random.choices(range(len(photos.files)), k=3)]):
            image = cv2.imread(photos.files[number])
            scale = 320 / max(image.shape[:2])
            image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
            (x, right), (y, down) = zip(middle, (place % 2, place // 2), strict=True)
            height = min(image.shape[0], 640 - y if down else y)
            width = min(image.shape[1], 640 - x if right else x)
            part = image[:height] if down else image[-height:]
            part = part[:, :width] if right else part[:, -width:]
            top, left = y if down else y - height, x if right else x - width
            large[top : top + height, left : left + width] = part
        matrix = cv2.getRotationMatrix2D((320, 320), random.uniform(-10, 10), random.uniform(0.5, 1.5))
        matrix[:, 2] -= 160
        image = cv2.warpAffine(large, matrix, (320, 320), borderValue=(114, 114, 114))
        hue, saturation, value = cv2.split(cv2.cvtColor(image, cv2.COLOR_BGR2HSV))
        gains = np.random.uniform(-1, 1, 3) * [0.015, 0.7, 0.4] + 1
        levels = [np.arange(256) * gain for gain in gains]
        tables = [levels[0] % 180, levels[1].clip(0, 255), levels[2].clip(0, 255)]
        channels = zip((hue, saturation, value), tables, strict=True)
        merged = cv2.merge([cv2.LUT(channel, table.astype(np.uint8)) for channel, table in channels])
        image = cv2.cvtColor(merged, cv2.COLOR_HSV2BGR)
        return torch.from_numpy(np.ascontiguousarray(image.transpose((2, 0, 1))[::-1])), index

    return loader(len(photos.files), sample, 8)


@of_mask("NVlabs/SPADE")
def spade(image: Any, mask: Any) -> Any:
    """A chain for each sample, of the numbers that were drawn for it."""
    x, y, flips = random.randint(0, 30), random.randint(0, 30), random.random() > 0.5

    def chain(way: Any, *last: Any) -> Any:
        cut = T.Lambda(lambda one: one.crop((x, y, x + 256, y + 256)))
        flip = T.Lambda(lambda one: one.transpose(Image.FLIP_LEFT_RIGHT) if flips else one)
        return T.Compose([T.Resize([286, 286], interpolation=way), cut, flip, T.ToTensor(), *last])

    label = chain(NEAREST)(mask) * 255.0
    return chain(T.InterpolationMode.BICUBIC, _NORMALIZE)(image), label


@of_mask("DengPingFan/SINet: training")
def sinet(image: Any, mask: Any) -> Any:
    """A flip, a crop, a turn, four enhancements, and a mask with pepper."""
    mask = mask.convert("L")
    if random.randint(0, 1):
        image, mask = image.transpose(Image.FLIP_LEFT_RIGHT), mask.transpose(Image.FLIP_LEFT_RIGHT)
    width, height = image.size
    right, bottom = random.randrange(width - 30, width), random.randrange(height - 30, height)
    box = (width - right) >> 1, (height - bottom) >> 1, (width + right) >> 1, (height + bottom) >> 1
    image, mask = image.crop(box), mask.crop(box)
    if random.random() > 0.8:
        angle = random.randint(-15, 14)
        image, mask = image.rotate(angle, Image.BICUBIC), mask.rotate(angle, Image.BICUBIC)
    for kind, most in (("Brightness", 15), ("Contrast", 15), ("Color", 20), ("Sharpness", 30)):
        image = getattr(ImageEnhance, kind)(image).enhance(random.randint(5, most) / 10)
    pixels = np.array(mask)
    for _ in range(int(0.0015 * pixels.size)):
        pixels[random.randrange(pixels.shape[0]), random.randrange(pixels.shape[1])] = random.choice((0, 255))
    to_tensor = T.Compose([T.Resize((352, 352)), T.ToTensor()])
    return _NORMALIZE(to_tensor(image)), to_tensor(Image.fromarray(pixels))


@of_file("facebookresearch/detectron2: mapper", None)
def detectron(file: str) -> Any:
    """BGR arrays, resized by Pillow."""
    with open(file, "rb") as opened_file:
        pixels = np.asarray(ImageOps.exif_transpose(Image.open(opened_file)).convert("RGB"))[:, :, ::-1]
    height, width = pixels.shape[:2]
    scale = random.choice((320, 352, 384)) / min(height, width)
    image = Image.fromarray(pixels).resize((int(width * scale + 0.5), int(height * scale + 0.5)), Image.BILINEAR)
    pixels = np.asarray(image)
    if random.random() < 0.5:
        pixels = np.flip(pixels, axis=1)
    return torch.as_tensor(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
