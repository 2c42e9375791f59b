"""Every class draws torchvision's random numbers and gives torchvision's pixels, in `forward` and in `draw`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torchvision_here import torchvision
from transform_cases import (
    FIXED,
    LARGE,
    ON_TENSORS,
    RANDOM,
    SIZES,
    apply_steps,
    as_pil,
    as_tensor,
    ident,
    picture,
    values,
)

import fastpipe.transforms as T
from fastpipe.rng import drawing
from fastpipe.transforms._base import drawable
from fastpipe.types import Generators, ImageShape

V = torchvision.transforms
SEEDS = 100


def shape_of(array: np.ndarray) -> ImageShape:
    return ImageShape(array.shape[0], array.shape[1], 1 if array.ndim == 2 else array.shape[2])


def check(theirs: Any, ours: Any, image: Any, shape: ImageShape, seeds: range) -> None:
    """Same pixels and same generator afterwards, from `forward` and from `draw`, also with generators of one's own."""
    untouched = values(image).copy()
    for seed in seeds:
        torch.manual_seed(seed)
        try:
            expected = theirs(image)
        except Exception as error:  # such as a perspective of one pixel: then ours is of the same type
            torch.manual_seed(seed)
            with pytest.raises(type(error)):
                ours(image)
            continue
        state = torch.get_rng_state()

        torch.manual_seed(seed)
        actual = ours(image)
        assert torch.equal(torch.get_rng_state(), state)
        assert type(actual) is type(expected)
        np.testing.assert_array_equal(values(actual), values(expected), err_msg=f"forward, seed {seed}")

        own = torch.Generator().manual_seed(seed)
        steps = ours.draw(shape, Generators(torch=own))
        assert torch.equal(own.get_state(), state)
        assert torch.equal(torch.get_rng_state(), state)
        np.testing.assert_array_equal(values(apply_steps(steps, image)), values(expected), err_msg=f"draw, seed {seed}")
        check_shape(steps, shape, expected)

        torch.manual_seed(seed)  # as datasets draw
        with drawing() as held:
            steps = ours.draw(shape, held)
        assert torch.equal(torch.get_rng_state(), state)
        np.testing.assert_array_equal(
            values(apply_steps(steps, image)), values(expected), err_msg=f"words, seed {seed}"
        )
    np.testing.assert_array_equal(values(image), untouched)


def check_shape(steps: Any, shape: ImageShape, result: Any) -> None:
    for step in steps:
        shape = step.output_shape(shape)
    if isinstance(result, torch.Tensor):
        assert (shape.channels, shape.height, shape.width) == result.shape
    else:
        assert (shape.width, shape.height) == result.size
        assert shape.channels == len(result.getbands())


@pytest.mark.slow
@pytest.mark.parametrize("case", RANDOM + LARGE, ids=ident)
def test_hundreds_of_seeds_on_pil(case: tuple[str, dict[str, Any]]) -> None:
    name, arguments = case
    theirs, ours = getattr(V, name)(**arguments), getattr(T, name)(**arguments)
    assert drawable(ours)
    array = picture(37, 53)
    check(theirs, ours, as_pil(array), shape_of(array), range(SEEDS))


@pytest.mark.parametrize("case", RANDOM + FIXED, ids=ident)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", SIZES)
def test_odd_sizes_on_pil(case: tuple[str, dict[str, Any]], channels: int, size: tuple[int, int]) -> None:
    name, arguments = case
    array = picture(*size, channels)
    check(getattr(V, name)(**arguments), getattr(T, name)(**arguments), as_pil(array), shape_of(array), range(4))


@pytest.mark.slow
@pytest.mark.parametrize("case", RANDOM + LARGE + FIXED + ON_TENSORS, ids=ident)
@pytest.mark.parametrize("channels", [1, 3])
def test_tensors(case: tuple[str, dict[str, Any]], channels: int) -> None:
    name, arguments = case
    if (name, channels) == ("Grayscale", 1) and arguments:
        pytest.skip("torchvision's tensors of one channel can't become three")
    image = as_tensor(picture(37, 53, channels))
    if name in ("RandomErasing", "Normalize", "ConvertImageDtype"):
        image = image / 255
    shape = ImageShape(37, 53, channels)
    check(getattr(V, name)(**arguments), getattr(T, name)(**arguments), image, shape, range(12))
