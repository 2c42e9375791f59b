"""Several images in a sample: the frames of a video, the views before and after one."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from _pipelines import F, Photos, T, loader, opened, pipeline
from harness import MEAN, STD
from PIL import Image

FRAMES = 8


def videos(photos: Photos) -> list[list[str]]:
    """Some videos as folders of JPEGs, in which a photo moves."""
    root = Path(tempfile.mkdtemp())
    found = []
    for number, name in enumerate(photos.files[: max(1, len(photos.files) // FRAMES)]):
        image = opened(name).resize((340, 256))
        paths = [str(root / f"{number}_{frame:05d}.jpg") for frame in range(FRAMES)]
        for frame, path in enumerate(paths):
            image.transform(image.size, Image.AFFINE, (1, 0, frame, 0, 1, 0)).save(path, quality=90)
        found.append(paths)
    return found


@pipeline("mit-han-lab/temporal-shift-module: training")
def temporal_shift(photos: Photos) -> Iterable[Any]:
    """Pillow's calls on all frames alike, which numpy concatenates; normalised in place by channel."""
    clips = videos(photos)
    mean, std = MEAN * FRAMES, STD * FRAMES

    def sample(index: int) -> Any:
        group = [opened(name) for name in clips[index]]
        width, height = group[0].size
        across, down = (random.choice([int(256 * scale) for scale in (1, 0.875, 0.75, 0.66)]) for _ in range(2))
        x, y = random.choice([0, width - across, (width - across) // 2]), random.choice([0, height - down])
        group = [image.crop((x, y, x + across, y + down)) for image in group]
        group = [image.resize((224, 224), Image.BILINEAR) for image in group]
        if random.random() < 0.5:
            group = [image.transpose(Image.FLIP_LEFT_RIGHT) for image in group]
        pixels = torch.from_numpy(np.concatenate(group, axis=2)).permute(2, 0, 1).contiguous().float().div(255)
        for channel, middle, spread in zip(pixels, mean, std, strict=True):
            channel.sub_(middle).div_(spread)
        return pixels, index

    return loader(len(clips), sample, 4)


class ClipCrop(T.RandomResizedCrop):  # type: ignore[misc]
    """3D-ResNets': the crop of the first frame for all of them."""

    again = True

    def __call__(self, image: Any) -> Any:
        if self.again:
            self.box, self.again = self.get_params(image, self.scale, self.ratio), False
        return F.resized_crop(image, *self.box, self.size, self.interpolation)


class ClipFlip(T.RandomHorizontalFlip):  # type: ignore[misc]
    """3D-ResNets': a flip by Python's number."""

    number = 0.0

    def __call__(self, image: Any) -> Any:
        return F.hflip(image) if self.number < self.p else image


@pipeline("kenshohara/3D-ResNets-PyTorch: training")
def resnets_3d(photos: Photos) -> Iterable[Any]:
    """Classes derived from torchvision's, which keep what they drew for a clip."""
    clips = videos(photos)
    crop, flip = ClipCrop(112, (0.25, 1.0)), ClipFlip()
    chain = T.Compose([crop, flip, T.ToTensor(), T.Normalize(MEAN, STD)])

    def sample(index: int) -> Any:
        clip = []
        for name in clips[index]:
            with open(name, "rb") as file, Image.open(file) as image:
                clip.append(image.convert("RGB"))
        crop.again, flip.number = True, random.random()
        return torch.stack([chain(image) for image in clip], 0).permute(1, 0, 2, 3), index

    return loader(len(clips), sample, 4)


@pipeline("nianticlabs/monodepth2: KITTI")
def monodepth(photos: Photos) -> Iterable[Any]:
    """Three frames in four sizes, each made of the one before, with and without jitter."""
    count = len(photos.files)
    sizes = [T.Resize((192 >> scale, 640 >> scale), interpolation=T.InterpolationMode.LANCZOS) for scale in range(4)]
    convert = T.ToTensor()

    def sample(index: int) -> Any:
        jitters, flips = random.random() > 0.5, random.random() > 0.5
        color = T.ColorJitter((0.8, 1.2), (0.8, 1.2), (0.8, 1.2), (-0.1, 0.1)) if jitters else lambda image: image
        found = {}
        for frame in (0, -1, 1):
            with open(photos.files[(index + frame) % count], "rb") as file, Image.open(file) as opened:
                image = opened.convert("RGB")
            image = image.transpose(Image.FLIP_LEFT_RIGHT) if flips else image
            for scale, resize in enumerate(sizes):
                image = resize(image)
                found["color", frame, scale] = convert(image)
                found["color_aug", frame, scale] = convert(color(image))
        return found

    return loader(count // 3, sample, 4, drop_last=True)


@pipeline("princeton-vl/RAFT: training")
def raft(photos: Photos) -> Iterable[Any]:
    """Arrays of two frames, jittered as one image, then scaled by cv2 and cut."""
    jitter = T.ColorJitter(0.4, 0.4, 0.4, 0.5 / 3.14)

    def sample(index: int) -> Any:
        first = np.array(opened(photos.files[index])).astype(np.uint8)
        second = np.roll(first, 3, axis=1)
        both = np.array(jitter(Image.fromarray(np.concatenate([first, second], axis=0))), dtype=np.uint8)
        scale = max(2 ** random.uniform(-0.2, 0.5), 208 / first.shape[0], 264 / first.shape[1])
        images = [cv2.resize(one, None, fx=scale, fy=scale) for one in np.split(both, 2, axis=0)]
        if random.random() < 0.5:
            images = [one[:, ::-1] for one in images]
        y, x = (random.randint(0, side - size) for side, size in zip(images[0].shape, (200, 256), strict=False))
        cut = [np.ascontiguousarray(one[y : y + 200, x : x + 256]) for one in images]
        return [torch.from_numpy(one).permute(2, 0, 1).float() for one in cut]

    return loader(len(photos.files), sample, 4)
