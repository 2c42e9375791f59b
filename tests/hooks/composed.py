"""Calls of a ``Compose`` on photos, their results, and the states of the generators after them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision_here import module

import fastpipe
from fastpipe.hooks.ledger import Site
from fastpipe.rng.state import GeneratorStates

T, v2 = module("torchvision.transforms"), module("torchvision.transforms.v2")


class Counting:
    """A callable of the user's, which a check mustn't call a second time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, image: Any) -> Any:
        self.calls += 1
        return image.rotate(random.choice([0, 90])) if isinstance(image, Image.Image) else image * 1


def seeded() -> None:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)


def outcome(transform: Any, images: Iterator[Any]) -> tuple[list[Any], GeneratorStates]:
    seeded()
    return [transform(image) for image in images], GeneratorStates.of()


def opened(paths: list[Path], again: int = 2) -> Iterator[Any]:
    for path in paths * again:
        yield Image.open(path).convert("RGB")


RECIPES: dict[str, Callable[[], Any]] = {
    "training": lambda: T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor()]),
    "tensors": lambda: v2.Compose([v2.PILToTensor(), v2.RandomHorizontalFlip(), Counting(), v2.ToDtype(torch.float32)]),
    "a callable at the end": lambda: T.Compose([T.Resize(32), T.CenterCrop(24), T.ToTensor(), Counting()]),
    "colours": lambda: T.Compose([T.Resize(32), T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomGrayscale(), T.ToTensor()]),
    "nested": lambda: T.Compose([T.Compose([T.Resize(40), T.CenterCrop(32)]), T.RandomApply([T.RandomRotation(9)])]),
    "between": lambda: T.Compose(
        [T.RandomCrop(30, pad_if_needed=True), Counting(), T.RandomHorizontalFlip(), T.ToTensor()]
    ),
    "function": lambda: T.Compose([T.Resize(20), T.Lambda(lambda image: image.transpose(0)), T.ToTensor()]),
    "unknown": lambda: T.Compose([Counting()]),
    "empty": lambda: T.Compose([]),
    "v2": lambda: v2.Compose([v2.RandomResizedCrop(24), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]),
    "v2 between": lambda: v2.Compose([v2.Resize((31, 30)), Counting(), v2.ToImage()]),
}


def site_of(transform: Any) -> Site:
    return next(site for site in fastpipe.report().sites if site.name.startswith(type(transform).__name__))
