"""Every transform on arrays in every memory layout: what it gives for a contiguous one, and no change of the input."""

from __future__ import annotations

import warnings
from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transform_cases import FIXED, LARGE, RANDOM, ident, picture
from transforms.functional.cases import colors, filters, geometry, resizing, warps

import fastpipe.transforms as T
from fastpipe.transforms import functional as F

SHAPE = (41, 52)
CONVERSIONS: list[tuple[str, dict[str, Any]]] = [
    ("ToTensor", {}),
    ("PILToTensor", {}),
    ("ToPILImage", {}),
    ("FiveCrop", {"size": 8}),
    ("TenCrop", {"size": 8}),
    ("Albumentations", {"transform": A.GaussNoise(p=1)}),
]
FUNCTIONS = [*geometry(*SHAPE), *resizing(*SHAPE), *colors(), *filters(), *warps(*SHAPE, 3)]


@st.composite
def layouts(draw: st.DrawFn) -> Any:
    """A function from an array to an equal one that lies otherwise: any order of axes, steps, gaps and directions."""
    order = draw(st.permutations(range(3)))
    steps = draw(st.tuples(*[st.sampled_from([1, -1, 2, -3])] * 3))
    writeable = draw(st.booleans())

    def lay(array: Any) -> Any:
        axes = sorted(range(array.ndim), key=lambda axis: order[axis])
        shape = [array.shape[axis] * abs(steps[axis]) for axis in axes]
        memory = np.full(shape, 77, array.dtype).transpose(np.argsort(axes))
        view = memory[tuple(slice(None, None, step) for step in steps[: array.ndim])]
        view[...] = array
        view.flags.writeable = writeable
        return view

    return lay


def values(result: Any) -> list[Any]:
    return [np.asarray(part) for part in (result if isinstance(result, (list, tuple)) else [result])]


def check(call: Any, lay: Any, channels: int, dtype: str) -> None:
    array = picture(*SHAPE, channels)
    array = array if dtype == "uint8" else (array / 255).astype(dtype)
    torch.manual_seed(5)
    try:
        expected = call(array)
    except (TypeError, ValueError, RuntimeError):  # not for such images, in whatever layout
        return
    laid = lay(array)
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch's, of memory that isn't writable
        got = call(laid)
    for one, other in zip(values(got), values(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(laid, array)


OPTIONS = {"lay": layouts(), "channels": st.sampled_from([1, 3]), "dtype": st.sampled_from(["uint8", "float32"])}


@pytest.mark.parametrize("case", RANDOM + LARGE + FIXED + CONVERSIONS, ids=ident)
@settings(max_examples=12)
@given(**OPTIONS)
def test_transforms(case: tuple[str, dict[str, Any]], lay: Any, channels: int, dtype: str) -> None:
    check(getattr(T, case[0])(**case[1]), lay, channels, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("case", FUNCTIONS, ids=ident)
@settings(max_examples=6)
@given(**OPTIONS)
def test_functions(case: tuple[str, dict[str, Any]], lay: Any, channels: int, dtype: str) -> None:
    check(lambda image: getattr(F, case[0])(image, **case[1]), lay, channels, dtype)


@pytest.mark.parametrize("name", ["Resize", "RandomResizedCrop"])
def test_bgr_of_cv2(name: str) -> None:
    """`image[:, :, ::-1]`, as everybody writes it."""
    bgr = picture(*SHAPE)
    transform = T.Compose([getattr(T, name)((20, 24)), T.ToTensor()])
    torch.manual_seed(1)
    expected = transform(np.ascontiguousarray(bgr[:, :, ::-1]))
    torch.manual_seed(1)
    assert torch.equal(transform(bgr[:, :, ::-1]), expected)


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "edge"])
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 5, 3), (0, 0, 1)])
def test_nothing_can_be_mirrored_of_an_empty_image(mode: str, shape: tuple[int, ...]) -> None:
    empty = np.empty(shape, np.uint8)
    for transform in (T.Pad(3, padding_mode=mode), T.RandomCrop(2, padding=3, padding_mode=mode)):
        with pytest.raises(ValueError, match="empty axis"):
            transform(empty)
    if shape[1]:  # along an axis that has pixels
        assert F.pad(empty, (2, 0), padding_mode=mode).shape == (0, 9, *shape[2:])
