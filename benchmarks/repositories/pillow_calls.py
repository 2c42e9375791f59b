"""Pillow's own calls: images that are turned, tilted, framed or pasted onto others, with masks and depths."""

from __future__ import annotations

import io
import itertools
import math
import random
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from _pipelines import BICUBIC, HALF, F, Photos, T, chains, loader, masks_of, of_file, opened, own, pipeline, tensor
from dense import NEAREST, boxes_of, of_mask
from harness import MEAN, STD
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps

_TENSOR = T.Compose(tensor())
_NORMALIZE = T.Normalize(MEAN, STD)


def depths_of(photos: Photos) -> list[str]:
    """A depth for each file: a PNG of 16 bits."""
    folder = Path(tempfile.mkdtemp())
    for number, name in enumerate(photos.files):
        with Image.open(name) as image:
            size = image.size
        small = np.random.default_rng(number).integers(500, 10_000, (6, 8)).astype(np.float32)
        depth = cv2.resize(small, size, interpolation=cv2.INTER_LINEAR).astype(np.uint16)
        Image.fromarray(depth).save(folder / f"{number}.png")
    return [str(folder / f"{number}.png") for number in range(len(photos.files))]


# -- retrieval


def tilted(image: Any, magnitude: float) -> Any:
    """Two corners moved away, by the coefficients that least squares give."""
    width, height = image.size
    by = random.randint(1, math.ceil(max(width, height) * magnitude))
    corners = [(0, 0), (width, 0), (width, height), (0, height)]
    left, top = random.choice([(by, 0), (-by, 0), (0, by), (0, -by)])
    moved = [(min(left, 0), min(top, 0)), (width + max(left, 0), -max(top, 0))]
    moved += [(width + max(left, 0), height + max(top, 0)), (min(left, 0), height - min(top, 0))]
    rows = []
    for (x, y), (right, down) in zip(moved, corners, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -right * x, -right * y], [0, 0, 0, x, y, 1, -down * x, -down * y]]
    numbers = np.linalg.pinv(np.array(rows, dtype=float)) @ np.array(corners).reshape(8)
    return image.transform(image.size, Image.PERSPECTIVE, tuple(numbers), resample=Image.BICUBIC)


class OnDict:
    """deep-image-retrieval's: a change of the image in a dictionary."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def __call__(self, given: dict[str, Any]) -> dict[str, Any]:
        return given | {"img": self.change(given["img"])}


def _scaled(image: Any) -> Any:
    scale = random.randint(256, 400) / min(image.size)
    return image.resize((int(0.5 + image.width * scale), int(0.5 + image.height * scale)), Image.BILINEAR)


def _framed(image: Any) -> Any:
    down, across = random.randint(0, 30), random.randint(0, 30)
    return ImageOps.expand(image, border=(across, down, across, down), fill=(127, 127, 127))


def _turned(image: Any) -> Any:
    return image.rotate(np.random.uniform(-20, 20), resample=Image.BILINEAR)


def _cut(image: Any) -> Any:
    x, y = (np.random.randint(0, side - 224) if side > 224 else 0 for side in image.size)
    return image.crop((x, y, x + 224, y + 224))


@pipeline("naver/deep-image-retrieval: training")
def deep_image_retrieval(photos: Photos) -> Iterable[Any]:
    """A chain of changes in a dictionary."""
    changes = [_scaled, lambda image: tilted(image, 0.5), _framed, _turned, _cut]
    chain = T.Compose([OnDict(one) for one in (*changes, T.ColorJitter(0.2, 0.2, 0.2, 0.1), _TENSOR)])

    def sample(index: int) -> Any:
        return chain({"img": opened(photos.files[index]), "label": index})

    return loader(len(photos.files), sample)


@pipeline("filipradenovic/cnnimageretrieval-pytorch: tuples")
def cnn_image_retrieval(photos: Photos) -> Iterable[Any]:
    """Thumbnails of any size in a list, opened within ``with``."""

    def thumbnail(name: str) -> Any:
        with open(name, "rb") as file:
            image = Image.open(file).convert("RGB")
        image.thumbnail((362, 362), Image.LANCZOS)
        return _TENSOR(image).unsqueeze_(0)

    def sample(index: int) -> Any:
        return [thumbnail(name) for name in photos.files[3 * index : 3 * index + 3]], torch.Tensor([-1, 1, 0])

    def collate(samples: Any) -> Any:
        return [images for images, _ in samples], [target for _, target in samples]

    return loader(len(photos.files) // 3, sample, 5, collate_fn=collate)


# -- text


@of_file("SakuraRiven/EAST: training", batch=8)
def east(name: str) -> Any:
    """Another height, a turn, a square, a chain for each sample, and a map of scores that cv2 draws."""
    image = opened(name)
    height = int(np.around(image.height * (1 + 0.2 * (np.random.rand() * 2 - 1))))
    image = image.resize((image.width, height), Image.BILINEAR)
    image = image.rotate(10 * (np.random.rand() * 2 - 1), Image.BILINEAR)
    if min(image.size) < 512:
        scale = 512 / min(image.size)
        image = image.resize((math.ceil(image.width * scale), math.ceil(image.height * scale)), Image.BILINEAR)
    x, y = (int(np.random.rand() * (side - 512)) for side in image.size)
    image = image.crop((x, y, x + 512, y + 512))
    chain = T.Compose([T.ColorJitter(0.5, 0.5, 0.5, 0.25), *tensor(HALF, HALF)])
    scores = np.zeros((128, 128, 1), np.float32)
    cv2.fillPoly(scores, [np.array([[10, 10], [60, 12], [58, 40], [11, 38]], np.int32)], 1)
    return chain(image), torch.Tensor(scores).permute(2, 0, 1)


# -- depth


@pipeline("cleinc/bts: NYU training")
def bts(photos: Photos) -> Iterable[Any]:
    """Turned images and depths, as arrays of floats, cut, flipped and brightened by numpy."""
    depths = depths_of(photos)

    def sample(index: int) -> Any:
        image, depth = opened(photos.files[index]), Image.open(depths[index])
        size = max(300, image.width), max(260, image.height)
        image, depth = image.resize(size, Image.BILINEAR), depth.resize(size, Image.NEAREST)
        angle = (random.random() - 0.5) * 5
        image, depth = image.rotate(angle, resample=Image.BILINEAR), depth.rotate(angle, resample=Image.NEAREST)
        pixels = np.asarray(image, dtype=np.float32) / 255.0
        metres = np.expand_dims(np.asarray(depth, dtype=np.float32), axis=2) / 1000.0
        x, y = random.randint(0, size[0] - 256), random.randint(0, size[1] - 224)
        pixels, metres = (one[y : y + 224, x : x + 256] for one in (pixels, metres))
        if random.random() > 0.5:
            pixels, metres = pixels[:, ::-1].copy(), metres[:, ::-1].copy()
        if random.random() > 0.5:
            changed = pixels ** random.uniform(0.9, 1.1) * random.uniform(0.75, 1.25)
            white = np.ones(pixels.shape[:2])
            colours = np.random.uniform(0.9, 1.1, size=3)
            changed *= np.stack([white * colour for colour in colours], axis=2)
            pixels = np.clip(changed, 0, 1)
        return {"image": _NORMALIZE(torch.from_numpy(pixels.transpose(2, 0, 1))), "depth": metres.transpose(2, 0, 1)}

    return loader(len(photos.files), sample, 4)


@pipeline("ialhashim/DenseDepth: PyTorch")
def dense_depth(photos: Photos) -> Iterable[Any]:
    """Bytes out of an archive that is in memory; channels that change places; tensors by way of ``tobytes``."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number, name in enumerate(photos.files):
            depth = io.BytesIO()
            opened(name).convert("L").save(depth, "PNG")
            archive.write(name, f"{number}.jpg")
            archive.writestr(f"{number}.png", depth.getvalue())
        names = archive.namelist()
    with zipfile.ZipFile(file) as archive:
        data = {name: archive.read(name) for name in names}
    orders = list(itertools.permutations(range(3), 3))

    def to_tensor(image: Any) -> Any:
        pixels = torch.ByteTensor(torch.ByteStorage.from_buffer(image.tobytes()))
        pixels = pixels.view(image.size[1], image.size[0], len(image.mode))
        return pixels.transpose(0, 1).transpose(0, 2).contiguous().float().div(255)

    def sample(index: int) -> Any:
        image, depth = opened(io.BytesIO(data[f"{index}.jpg"])), Image.open(io.BytesIO(data[f"{index}.png"]))
        if random.random() < 0.5:
            image, depth = image.transpose(Image.FLIP_LEFT_RIGHT), depth.transpose(Image.FLIP_LEFT_RIGHT)
        if random.random() < 0.5:
            image = Image.fromarray(np.asarray(image)[..., list(random.choice(orders))])
        image, depth = to_tensor(image.resize((320, 240))), to_tensor(depth.resize((160, 120)))
        return {"image": image, "depth": torch.clamp(depth * 1000, 10, 1000)}

    return loader(len(photos.files), sample, 8)


@pipeline("EPFL-VILAB/MultiMAE: pretraining")
def multi_mae(photos: Photos) -> Iterable[Any]:
    """One crop and flip of an image, its depth and its classes, in a dictionary."""
    pairs, depths = masks_of(photos, Path(tempfile.mkdtemp())), depths_of(photos)

    def sample(index: int) -> Any:
        name, mask = pairs[index]
        task = {"rgb": opened(name), "depth": Image.open(depths[index]), "semseg": Image.open(mask)}
        flips = random.random() < 0.5
        y, x, height, width = T.RandomResizedCrop.get_params(task["rgb"], (0.2, 1.0), (0.75, 1.3333))
        for kind, image in task.items():
            way = Image.BILINEAR if kind == "rgb" else Image.NEAREST
            image = F.crop(image, y, x, height, width).resize((224, 224), resample=way)
            task[kind] = F.hflip(image) if flips else image
        classes = np.array(task["semseg"].resize((56, 56), resample=Image.NEAREST))
        return {
            "rgb": _TENSOR(task["rgb"]),
            "depth": torch.Tensor(np.array(task["depth"]) / 2**16).unsqueeze(0),
            "semseg": torch.LongTensor(classes),
        }

    return loader(len(pairs), sample, 8)


# -- masks


@of_mask("meetps/pytorch-semseg: augmentations")
def pytorch_semseg(image: Any, mask: Any) -> Any:
    """Arrays made images, changed by torchvision's functions and made arrays again."""
    image, mask = Image.fromarray(np.array(image)), Image.fromarray(np.array(mask))
    image = F.adjust_gamma(image, random.uniform(1, 1.4))
    image = F.adjust_saturation(image, random.uniform(0.6, 1.4))
    image = F.adjust_hue(image, random.uniform(-0.2, 0.2))
    if random.random() < 0.5:
        image, mask = image.transpose(Image.FLIP_LEFT_RIGHT), mask.transpose(Image.FLIP_LEFT_RIGHT)
    x, y = (int(2 * (random.random() - 0.5) * 30) for _ in range(2))
    image = F.crop(image, max(y, 0), max(x, 0), image.height - abs(y), image.width - abs(x))
    image = F.pad(image, [max(-x, 0), max(-y, 0), max(x, 0), max(y, 0)], padding_mode="reflect")
    mask = F.affine(mask, angle=0.0, translate=[-x, -y], scale=1.0, shear=[0.0], fill=[250])
    angle = random.random() * 20 - 10
    turn = {"angle": angle, "translate": [0, 0], "scale": 1.0, "shear": [0.0]}
    image = F.affine(image, **turn, interpolation=T.InterpolationMode.BILINEAR, fill=[0, 0, 0])
    mask = F.affine(mask, **turn, interpolation=NEAREST, fill=[250])
    pixels = np.array(image.resize((256, 256)))[:, :, ::-1].astype(np.float64)
    pixels = ((pixels - np.array([104.00699, 116.66877, 122.67892])) / 255.0).transpose(2, 0, 1)
    classes = np.array(mask.resize((256, 256), resample=Image.NEAREST))
    return torch.from_numpy(pixels).float(), torch.from_numpy(classes).long()


@pipeline("justchenhao/BIT_CD: training")
def bit_cd(photos: Photos) -> Iterable[Any]:
    """Arrays of two images and a mask, which torchvision's functions change alike."""
    pairs = masks_of(photos, Path(tempfile.mkdtemp()))

    def sample(index: int) -> Any:
        arrays = [np.asarray(opened(pairs[place][0])) for place in (index, index - 1)]
        images = [F.resize(F.to_pil_image(one), [256, 256], interpolation=BICUBIC) for one in arrays]
        label = np.array(Image.open(pairs[index][1]), dtype=np.uint8)
        mask = F.resize(F.to_pil_image(label), [256, 256], interpolation=NEAREST)
        for flip in (F.hflip, F.vflip):
            if random.random() > 0.5:
                images, mask = [flip(image) for image in images], flip(mask)
        if random.random() > 0.5:
            angle = random.choice([90, 180, 270])
            images, mask = [F.rotate(image, angle) for image in images], F.rotate(mask, angle)
        box = T.RandomResizedCrop(256).get_params(images[0], (0.8, 1.0), (1, 1))
        images = [F.resized_crop(image, *box, size=[256, 256], interpolation=BICUBIC) for image in images]
        mask = F.resized_crop(mask, *box, size=[256, 256], interpolation=NEAREST)
        if random.random() > 0.5:
            radius = random.random()
            images = [image.filter(ImageFilter.GaussianBlur(radius=radius)) for image in images]
        first, second = (F.normalize(F.to_tensor(image), HALF, HALF) for image in images)
        return {"A": first, "B": second, "L": torch.from_numpy(np.array(mask)).unsqueeze(0)}

    return loader(len(pairs), sample, 8)


# -- pasted onto others


@of_file("LilitYolyan/CutPaste: 3way")
def cut_paste(name: str) -> Any:
    """A part that is pasted elsewhere, and a scar that is turned with an alpha channel."""
    image = _CUT_PASTE(opened(name))
    area = random.uniform(0.02, 0.15) * image.width * image.height
    aspect = random.choice([random.uniform(0.3, 1), random.uniform(1, 3.3)])
    part = _pasted(image, int(np.sqrt(area * aspect)), int(np.sqrt(area / aspect)))
    scar = _pasted(image, random.randint(2, 16), random.randint(10, 25), turns=True)
    return [_TENSOR(one) for one in (image, part, scar)]


def _pasted(image: Any, width: int, height: int, turns: bool = False) -> Any:
    x, y = random.randint(0, image.width - width), random.randint(0, image.height - height)
    part, mask = _PART(image.crop((x, y, x + width, y + height))), None
    if turns:
        part = part.convert("RGBA").rotate(random.uniform(-45, 45), expand=True)
        mask = part.split()[-1]
    x, y = random.randint(0, image.width - width), random.randint(0, image.height - height)
    result = image.copy()
    result.paste(part, (x, y), mask=mask)
    return result


_CUT_PASTE, _PART = T.Resize((256, 256)), T.ColorJitter(0.1, 0.1, 0.1, 0.1)


@pipeline("rwightman/efficientdet-pytorch: training")
def efficientdet(photos: Photos) -> Iterable[Any]:
    """A random scale, cut and pasted onto the mean colour; uint8 arrays that are collated by addition."""

    def sample(index: int) -> Any:
        image = opened(photos.files[index])
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        scale = random.uniform(0.1, 2.0) * 512 / max(image.size)
        width, height = int(image.width * scale), int(image.height * scale)
        y, x = (int(max(0.0, side - 512) * random.uniform(0, 1)) for side in (height, width))
        image = image.resize((width, height), random.choice((Image.BILINEAR, Image.BICUBIC)))
        image = image.crop((x, y, min(width, x + 512), min(height, y + 512)))
        square = Image.new("RGB", (512, 512), color=(124, 116, 104))
        square.paste(image)
        return np.moveaxis(np.array(square, dtype=np.uint8), 2, 0), boxes_of(index, 512, 512)

    def collate(samples: Any) -> Any:
        batch = torch.zeros((len(samples), *samples[0][0].shape), dtype=torch.uint8)
        for place, (pixels, _) in enumerate(samples):
            batch[place] += torch.from_numpy(pixels)
        return batch, [boxes for _, boxes in samples]

    return loader(len(photos.files), sample, 8, collate_fn=collate)


@of_file("kuangliu/torchcv: SSD training", batch=8)
def torchcv(name: str) -> Any:
    """Jitter, a larger canvas by chance, a crop of it, and any of Pillow's filters."""
    image = _SSD_JITTER(opened(name))
    if random.random() < 0.5:
        ratio = random.uniform(1, 4)
        canvas = Image.new("RGB", (int(image.width * ratio), int(image.height * ratio)), (123, 116, 103))
        canvas.paste(image, tuple(random.randint(0, a - b) for a, b in zip(canvas.size, image.size, strict=True)))
        image = canvas
    x, y = random.randint(0, image.width // 3), random.randint(0, image.height // 3)
    image = image.crop((x, y, x + image.width // 2, y + image.height // 2))
    image = image.resize((300, 300), random.choice([Image.NEAREST, Image.BILINEAR, Image.BICUBIC, Image.LANCZOS]))
    return _TENSOR(image.transpose(Image.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image)


_SSD_JITTER = T.ColorJitter(0.125, 0.5, 0.5, 0.05)


class RandAugment:
    """pytorch-randaugment's: two of Pillow's operations, one of which draws onto a copy."""

    def __call__(self, image: Any) -> Any:
        kinds = [*("Color", "Contrast", "Brightness", "Sharpness"), "shear", "shift", "turn", "cut", "autocontrast"]
        for kind in random.choices([*kinds, "equalize", "invert", "posterize", "solarize"], k=2):
            image = self._changed(image, kind, random.choice((-1, 1)))
        return image

    def _changed(self, image: Any, kind: str, sign: int) -> Any:
        if kind in ("Color", "Contrast", "Brightness", "Sharpness"):
            return getattr(ImageEnhance, kind)(image).enhance(0.64)
        if kind in ("shear", "shift"):
            numbers = (1, 0.09 * sign, 0, 0, 1, 0) if kind == "shear" else (1, 0, 30 * sign, 0, 1, 0)
            return image.transform(image.size, Image.AFFINE, numbers)
        if kind == "turn":
            return image.rotate(9 * sign)
        if kind == "cut":
            x, y = (int(np.random.uniform(side)) for side in image.size)
            image = image.copy()
            ImageDraw.Draw(image).rectangle((x, y, x + 12, y + 12), (125, 123, 114))
            return image
        return getattr(ImageOps, kind)(image, *{"posterize": [4], "solarize": [77]}.get(kind, []))


class Lighting:
    """AlexNet's noise by principal components."""

    values = torch.tensor([0.2175, 0.0188, 0.0045])
    vectors = torch.tensor([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])

    def __call__(self, image: Any) -> Any:
        alpha = image.new().resize_(3).normal_(0, 0.1)
        colour = self.vectors.clone().mul(alpha.view(1, 3).expand(3, 3)).mul(self.values.view(1, 3).expand(3, 3))
        return image.add(colour.sum(1).view(3, 1, 1).expand_as(image))


def randaugment() -> Any:
    """The repository's chain for ImageNet."""
    crop = T.RandomResizedCrop(224, scale=(0.08, 1.0), interpolation=BICUBIC)
    jitter = T.ColorJitter(0.4, 0.4, 0.4)
    return T.Compose(
        [RandAugment(), crop, T.RandomHorizontalFlip(), jitter, T.ToTensor(), Lighting(), T.Normalize(MEAN, STD)]
    )


chains(own, {"ildoonet/pytorch-randaugment: ImageNet": randaugment})
