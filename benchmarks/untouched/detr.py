"""DETR's dataset and its own transforms, which call torchvision's functions on images and boxes."""

import random

import torch
from _measured import Compose, arguments, measured, photos_in
from coco_ssd import CocoDetection, annotations_of, boxes_within, collate_fn, file_of
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.transforms import functional as F


def hflip(image, target):
    """The image and its boxes, mirrored."""
    width, _ = image.size
    boxes = target["boxes"][:, [2, 1, 0, 3]] * torch.as_tensor([-1, 1, -1, 1]) + torch.as_tensor([width, 0, width, 0])
    return F.hflip(image), {**target, "boxes": boxes}


def resize(image, target, size, max_size=None):
    """The image with its shorter side of that size, and its boxes."""
    width, height = image.size
    if max_size is not None and max(width, height) / min(width, height) * size > max_size:
        size = round(max_size * min(width, height) / max(width, height))
    wide = width < height
    new = (int(size * height / width), size) if wide else (size, int(size * width / height))
    resized = F.resize(image, new)
    ratios = [float(one) / float(other) for one, other in zip(resized.size, image.size, strict=True)]
    return resized, {**target, "boxes": target["boxes"] * torch.as_tensor(ratios * 2), "size": torch.tensor(new)}


def crop(image, target, region):
    """A part of the image, and the boxes that have something in it."""
    top, left, height, width = region
    boxes = target["boxes"] - torch.as_tensor([left, top, left, top])
    boxes = torch.min(boxes.reshape(-1, 2, 2), torch.as_tensor([width, height], dtype=torch.float32)).clamp(min=0)
    keep = torch.all(boxes[:, 1, :] > boxes[:, 0, :], dim=1)
    found = {"boxes": boxes.reshape(-1, 4)[keep], "labels": target["labels"][keep], "size": torch.tensor(region[2:])}
    return F.crop(image, *region), {**target, **found}


class RandomHorizontalFlip:
    """Mirrored, or not."""

    def __call__(self, image, target):
        return hflip(image, target) if random.random() < 0.5 else (image, target)


class RandomResize:
    """Resized to one of some sizes."""

    def __init__(self, sizes, max_size=None):
        self.sizes, self.max_size = sizes, max_size

    def __call__(self, image, target):
        return resize(image, target, random.choice(self.sizes), self.max_size)


class RandomSizeCrop:
    """A part of a random size."""

    def __init__(self, min_size, max_size):
        self.min_size, self.max_size = min_size, max_size

    def __call__(self, image, target):
        width = random.randint(self.min_size, min(image.width, self.max_size))
        height = random.randint(self.min_size, min(image.height, self.max_size))
        return crop(image, target, transforms.RandomCrop.get_params(image, [height, width]))


class RandomSelect:
    """One of two transforms."""

    def __init__(self, one, other):
        self.one, self.other = one, other

    def __call__(self, image, target):
        return self.one(image, target) if random.random() < 0.5 else self.other(image, target)


class ToTensor:
    """The image as a tensor."""

    def __call__(self, image, target):
        return F.to_tensor(image), target


class Normalize:
    """The image normalised, its boxes by their centres and relative to its size."""

    def __call__(self, image, target):
        image = F.normalize(image, mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
        height, width = image.shape[-2:]
        left, top, right, bottom = target["boxes"].unbind(-1)
        boxes = torch.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], dim=-1)
        return image, {**target, "boxes": boxes / torch.tensor([width, height, width, height], dtype=torch.float32)}


class Boxes(CocoDetection):
    """COCO with boxes as tensors."""

    def __getitem__(self, index):
        image, found = super().__getitem__(index)
        boxes = boxes_within(found, image.size)
        labels = torch.tensor([one["category_id"] for one in found])
        return self._transforms(image, {"boxes": boxes, "labels": labels, "image_id": torch.tensor(self.ids[index])})


def main():
    """Runs an epoch."""
    args = arguments()
    scales = [480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800]
    small = Compose([RandomResize([400, 500, 600]), RandomSizeCrop(200, 600), RandomResize(scales, max_size=1333)])
    select = RandomSelect(RandomResize(scales, max_size=1333), small)
    with file_of(annotations_of(photos_in(args.photos))) as path:
        dataset = Boxes(args.photos, path, Compose([RandomHorizontalFlip(), select, ToTensor(), Normalize()]))
        loader = DataLoader(dataset, 4, shuffle=True, num_workers=args.workers, collate_fn=collate_fn)
        measured(lambda: loader)


if __name__ == "__main__":
    main()
