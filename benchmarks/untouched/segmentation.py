"""torchvision's reference for segmentation: its own transforms call v1's functions on images and masks (by NEAREST)."""

import random
import tempfile
from pathlib import Path

import numpy as np
import torch
from _measured import Compose, arguments, measured, photos_in
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms import functional as F


class RandomResize:
    """The shorter side of a random size."""

    def __init__(self, min_size, max_size):
        self.min_size, self.max_size = min_size, max_size

    def __call__(self, image, target):
        size = random.randint(self.min_size, self.max_size)
        image = F.resize(image, size, antialias=True)
        return image, F.resize(target, size, interpolation=transforms.InterpolationMode.NEAREST)


class RandomHorizontalFlip:
    """Both mirrored, or not."""

    def __call__(self, image, target):
        return (F.hflip(image), F.hflip(target)) if random.random() < 0.5 else (image, target)


def pad_if_smaller(image, size, fill=0):
    """The image with a border at its right and bottom, if a side is shorter."""
    width, height = image.size
    if min(image.size) < size:
        image = F.pad(image, (0, 0, max(size - width, 0), max(size - height, 0)), fill=fill)
    return image


class RandomCrop:
    """The same part of both."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image, target):
        image, target = pad_if_smaller(image, self.size), pad_if_smaller(target, self.size, fill=255)
        place = transforms.RandomCrop.get_params(image, (self.size, self.size))
        return F.crop(image, *place), F.crop(target, *place)


class ToTensors:
    """Both as tensors."""

    def __call__(self, image, target):
        image = F.convert_image_dtype(F.pil_to_tensor(image), torch.float)
        target = torch.as_tensor(np.array(target), dtype=torch.int64)
        return F.normalize(image, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)), target


class Photos(Dataset):
    """Files, and masks in PNG with a palette."""

    def __init__(self, files, masks, transforms):
        self.files, self.masks, self.transforms = files, masks, transforms

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image, target = Image.open(self.files[index]).convert("RGB"), Image.open(self.masks[index])
        return self.transforms(image, target)


def masks_of(files, folder):
    """A mask of each photo, as VOC has them."""
    chosen, paths = random.Random(0), []
    for number, file in enumerate(files):
        with Image.open(file) as image:
            mask = Image.new("P", image.size)
        mask.putpalette([value * 37 % 256 for value in range(768)])
        for kind in range(1, chosen.randint(2, 8)):
            left, top = chosen.uniform(0, 0.6) * mask.width, chosen.uniform(0, 0.6) * mask.height
            ImageDraw.Draw(mask).ellipse((left, top, left + mask.width / 4, top + mask.height / 3), fill=kind)
        paths.append(f"{folder}/{number}.png")
        mask.save(paths[-1])
    return paths


def main():
    """Runs an epoch."""
    args = arguments()
    files = photos_in(args.photos)
    with tempfile.TemporaryDirectory() as folder:
        recipe = Compose([RandomResize(260, 1040), RandomHorizontalFlip(), RandomCrop(480), ToTensors()])
        dataset = Photos(files, masks_of(files, Path(folder)), recipe)
        loader = DataLoader(dataset, 8, shuffle=True, num_workers=args.workers, drop_last=True)
        measured(lambda: loader)


if __name__ == "__main__":
    main()
