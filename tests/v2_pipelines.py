"""Random pipelines of torchvision's v2, written once for both: fastpipe's and torchvision's.

``pipeline(module, seed, …)`` gives the same list of transforms of the one module as of the other.
"""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import torch
import torchvision_here
from PIL import Image

BILINEAR = torchvision_here.torchvision.transforms.InterpolationMode.BILINEAR
try:
    torchvision_here.module("torchvision.transforms.v2.functional").resize(torch.zeros(1, 4, 4), [2, 2], "bilinear")
    BY_NAME: Any = "bilinear"
except ValueError:  # this torchvision takes no names of interpolations
    BY_NAME = BILINEAR

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SHAPES = [(90, 121, "420"), (64, 64, "444"), (133, 71, "422"), (77, 150, "gray")]


def write_photos(root: Path, *more: tuple[int, int, str]) -> Path:
    """JPEGs of `SHAPES` and of further ones, and a PNG behind them, in a class."""
    folder = root / "a"
    folder.mkdir()
    shapes = [*SHAPES, *more]
    for number, (height, width, kind) in enumerate(shapes):
        (folder / f"{number}.jpg").write_bytes(corpus.jpeg(height, width, kind, seed=number))
    (folder / f"{len(shapes)}.png").write_bytes(corpus.save(corpus.photo(80, 111, 7), "PNG"))
    return root


def pipeline(v2: Any, seed: int, *, boxes: bool = False, exact: bool = False) -> list[Any]:
    """Up to five random transforms on a PIL image or on a tensor, and the usual end.

    Args:
        v2: the module.
        seed: which one.
        boxes: for samples with boxes and masks: policies, which refuse them, are left out.
        exact: end in an image of one size.
    """
    rng = random.Random(seed)
    made: list[Any] = []
    tensor = False
    for _ in range(rng.randint(1, 5)):
        if not tensor and rng.random() < 0.2:
            made.append(v2.ToImage())
            tensor = True
        made.append(_one(v2, rng, boxes, depth=0))
    if exact or rng.random() < 0.5:
        made.append(rng.choice([v2.Resize, v2.CenterCrop])((rng.randint(8, 60), rng.randint(8, 60))))
    ending = rng.random()
    if ending < 0.2 and not exact:
        return made
    if not tensor:
        made.append(v2.ToImage())
    if boxes and rng.random() < 0.6:
        made.append(v2.SanitizeBoundingBoxes())
    if ending < 0.3:
        return made
    dtype: Any = torch.float32
    if boxes and rng.random() < 0.3:
        tv_tensors = importlib.import_module("torchvision.tv_tensors")
        dtype = {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}
    made.append(v2.ToDtype(dtype, scale=True))
    if rng.random() < 0.7:
        made.append(v2.Normalize(MEAN, STD))
        if rng.random() < 0.3 and not boxes:
            made.append(v2.RandomErasing(p=0.7, value=rng.choice([0, "random", (0.1, 0.2, 0.3)])))
    if rng.random() < 0.3:
        made.append(v2.ToPureTensor())
    return made


def _one(v2: Any, rng: random.Random, boxes: bool, depth: int) -> Any:
    """A transform; each argument is drawn whatever it is for, so that both modules take the same numbers."""
    mode = rng.choice([BY_NAME, v2.InterpolationMode.BICUBIC, v2.InterpolationMode.NEAREST, 2])
    warped = rng.choice([v2.InterpolationMode.NEAREST, v2.InterpolationMode.BILINEAR])
    fill = rng.choice([0, 0, 127, (10, 200, 30)])
    size = (rng.randint(10, 70), rng.randint(10, 70))
    p = rng.choice([0.5, 1.0])
    edge = rng.choice(["constant", "constant", "edge"]) if not boxes else "constant"
    plain: Any = fill if isinstance(fill, int) or not boxes else 3  # masks take a number alone
    if rng.random() < 0.3:
        tv_tensors = importlib.import_module("torchvision.tv_tensors")
        plain = {Image.Image: fill, tv_tensors.Image: 40, tv_tensors.Mask: 255, "others": 3}
    choices: list[Any] = [
        lambda: v2.RandomResizedCrop(size, interpolation=mode),
        lambda: v2.RandomHorizontalFlip(p),
        lambda: v2.RandomVerticalFlip(p),
        lambda: v2.Resize(size[0], interpolation=mode),
        lambda: v2.Resize(size, interpolation=mode),
        lambda: v2.Resize(None, max_size=size[0]),
        lambda: v2.CenterCrop(size),
        lambda: v2.RandomCrop(size, pad_if_needed=True, fill=plain, padding_mode=edge),
        lambda: v2.RandomCrop(size, padding=[3, 60, 5, 70], pad_if_needed=True),
        lambda: v2.Pad([2, 3, 0, 4], fill=plain, padding_mode=edge),
        lambda: v2.RandomZoomOut(fill=plain, side_range=(1.0, 2.0), p=p),
        lambda: v2.ScaleJitter((64, 80), (0.5, 1.5)),
        lambda: v2.RandomShortestSize([30, 44, 52], max_size=70),
        lambda: v2.RandomResize(20, 60),
        lambda: v2.RandomPhotometricDistort(p=p),
        lambda: v2.ColorJitter(0.4, 0.3, 0.5, 0.1),
        lambda: v2.RandomGrayscale(p),
        lambda: v2.Grayscale(3),
        lambda: v2.RandomChannelPermutation(),
        lambda: v2.RandomInvert(p),
        lambda: v2.RandomPosterize(3, p),
        lambda: v2.RandomSolarize(90, p),
        lambda: v2.RandomAutocontrast(p),
        lambda: v2.RandomEqualize(p),
        lambda: v2.RandomAdjustSharpness(1.7, p),
        lambda: v2.GaussianBlur(5),
        lambda: v2.RandomRotation(25, interpolation=warped, fill=plain),
        lambda: v2.RandomRotation(25, expand=True),
        lambda: v2.RandomAffine(15, (0.1, 0.2), (0.8, 1.2), 7, interpolation=warped, fill=plain),
        lambda: v2.RandomPerspective(0.4, p, fill=plain),
        lambda: v2.ElasticTransform(20.0, 4.0),
        lambda: v2.Identity(),
    ]
    if depth < 2:
        inner = rng.getrandbits(30)
        choices += [
            lambda: v2.RandomApply([_one(v2, random.Random(inner), boxes, depth + 1)], p=0.5),
            lambda: v2.RandomChoice(
                [_one(v2, random.Random(inner + i), boxes, depth + 1) for i in range(3)], p=[1, 2, 1]
            ),
            lambda: v2.RandomOrder([_one(v2, random.Random(inner + i), boxes, depth + 1) for i in range(2)]),
            lambda: v2.Compose([_one(v2, random.Random(inner + i), boxes, depth + 1) for i in range(2)]),
        ]
    if boxes:
        choices += [v2.RandomIoUCrop, v2.ClampBoundingBoxes, lambda: v2.ConvertBoundingBoxFormat("XYWH")]
    else:
        choices += [v2.RandAugment, v2.TrivialAugmentWide, v2.AutoAugment]
    return rng.choice(choices)()


def same(ours: Any, theirs: Any) -> bool:
    """True if two samples have the same structure, classes, metadata and bytes."""
    if isinstance(ours, dict):
        return (
            type(theirs) is type(ours) and ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in ours)
        )
    if isinstance(ours, (list, tuple)):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, torch.Tensor):
        if type(ours) is not type(theirs) or ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return False
        about = ("format", "canvas_size", "clamping_mode")
        if any(getattr(ours, name, None) != getattr(theirs, name, None) for name in about):
            return False
        return bool(torch.equal(torch.as_tensor(ours), torch.as_tensor(theirs)))
    if isinstance(ours, Image.Image):
        return (
            isinstance(theirs, Image.Image)
            and ours.mode == theirs.mode
            and bool(np.array_equal(np.asarray(ours), np.asarray(theirs)))
        )
    return bool(type(ours) is type(theirs) and ours == theirs)


def sample_of(dataset: Any, seed: int) -> Any:
    """One of four samples, with torch's generator after it; or the class of the error."""
    torch.manual_seed(seed)
    try:
        return dataset[seed % 4], torch.get_rng_state()
    except (ValueError, TypeError, IndexError, RuntimeError) as error:
        return type(error)
