"""Calls of a Compose with all that is compared, and transforms that its tests share."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageFilter

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Outcome:
    """A call's result or error, and the states of the generators after it."""

    def __init__(self, transform: Any, image: Any, seed: int) -> None:
        torch.manual_seed(seed)
        random.seed(seed)
        self.result: Any = None
        self.error: Any = None
        try:
            self.result = transform(image)
        except Exception as error:
            self.error = type(error), str(error)
        self.states = torch.get_rng_state(), random.getstate()

    def assert_equals(self, other: Outcome) -> None:
        assert self.error == other.error
        assert torch.equal(self.states[0], other.states[0])
        assert self.states[1] == other.states[1]
        assert_same(self.result, other.result)


def assert_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype
        assert layout(ours) == layout(theirs)
        assert torch.equal(ours, theirs)
    elif isinstance(theirs, Image.Image):
        if isinstance(ours, Image.Image):
            assert (ours.mode, ours.size) == (theirs.mode, theirs.size)
        np.testing.assert_array_equal(np.asarray(ours).squeeze(), np.asarray(theirs).squeeze())
    else:
        assert ours == theirs


def layout(tensor: torch.Tensor) -> object:
    """Strides; of an image of one pixel nothing depends on them."""
    return tensor.stride() if tensor.shape[-2:] != (1, 1) else ()


class Blur:
    """A transform of the user's, which takes PIL images alone and draws from both generators."""

    def __call__(self, image: Any) -> Any:
        assert type(image) is Image.Image
        if torch.rand(1).item() < 0.3 or random.random() < 0.3:
            return image
        return image.filter(ImageFilter.BoxBlur(1))


def noise(tensor: Any) -> Any:
    return tensor + torch.randn_like(tensor)


def recipe(library: Any) -> Any:
    return library.Compose(
        [
            library.RandomResizedCrop(24),
            library.RandomHorizontalFlip(),
            library.ColorJitter(0.3),
            library.ToTensor(),
            library.Normalize(MEAN, STD),
        ]
    )
