"""Classes on ndarrays: torchvision's draws, its pixels on PIL, and no change of the input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torchvision_here import torchvision
from transform_cases import FIXED, LARGE, RANDOM, apply_steps, as_pil, ident, picture, values

import fastpipe.transforms as T
from fastpipe.types import Generators, ImageShape

V = torchvision.transforms


@pytest.mark.parametrize("case", RANDOM + LARGE + FIXED, ids=ident)
@pytest.mark.parametrize("channels", [1, 3])
def test_arrays(case: tuple[str, dict[str, Any]], channels: int) -> None:
    name, arguments = case
    theirs, ours = getattr(V, name)(**arguments), getattr(T, name)(**arguments)
    array = picture(65, 83, channels)
    before = array.copy()
    for seed in range(12):
        torch.manual_seed(seed)
        expected = values(theirs(as_pil(array)))
        state = torch.get_rng_state()

        torch.manual_seed(seed)
        actual = ours(array)
        assert torch.equal(torch.get_rng_state(), state)
        assert type(actual) is np.ndarray
        assert actual.dtype == np.uint8

        torch.manual_seed(seed)
        steps = ours.draw(ImageShape(65, 83, channels), Generators())
        np.testing.assert_array_equal(apply_steps(steps, array), actual)

        np.testing.assert_array_equal(actual.reshape(expected.shape), expected)
    np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize(
    "name", ["RandomHorizontalFlip", "RandomCrop", "RandomResizedCrop", "RandomRotation", "AugMix"]
)
def test_views_and_read_only_arrays(name: str) -> None:
    """Arrays as they come from a decoder's scratch buffer or from PIL: not contiguous, not writable."""
    arguments = {"size": 20} if name.endswith("Crop") else {"degrees": 20} if name == "RandomRotation" else {}
    transform = getattr(T, name)(**arguments)
    array = picture(40, 30)
    view = np.asfortranarray(array)[::-1]
    view.flags.writeable = False
    torch.manual_seed(3)
    expected = transform(np.ascontiguousarray(array[::-1]))
    torch.manual_seed(3)
    np.testing.assert_array_equal(transform(view), expected)


def test_to_tensor_and_back() -> None:
    array = picture(7, 9)
    tensor = T.Compose([T.ToTensor(), T.Normalize([0.5] * 3, [0.25] * 3)])(array)
    expected = V.Compose([V.ToTensor(), V.Normalize([0.5] * 3, [0.25] * 3)])(array)
    assert torch.equal(tensor, expected)
    np.testing.assert_array_equal(np.asarray(T.ToPILImage()(array)), array)


def test_five_and_ten_crops() -> None:
    array = picture(20, 30)
    for theirs, ours in (
        (V.FiveCrop(8), T.FiveCrop(8)),
        (V.TenCrop((5, 9), vertical_flip=True), T.TenCrop((5, 9), True)),
    ):
        for expected, crop in zip(theirs(as_pil(array)), ours(array), strict=True):
            np.testing.assert_array_equal(crop, np.asarray(expected))
