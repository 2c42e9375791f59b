"""uint8 ndarrays get what torchvision gives for the same PIL image, floating ones the tensor backend's result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transforms.functional import cases
from tv import torchvision

from fastpipe.transforms import functional as F

R = torchvision.transforms.functional

EXACT = {
    "adjust_brightness",
    "adjust_gamma",
    "autocontrast",
    "center_crop",
    "crop",
    "equalize",
    "five_crop",
    "hflip",
    "invert",
    "pad",
    "posterize",
    "rgb_to_grayscale",
    "solarize",
    "ten_crop",
    "vflip",
}
# In 1/255: two correct implementations round differently.
ROUNDED = {"adjust_contrast", "adjust_saturation", "adjust_sharpness", "gaussian_blur", "resize", "resized_crop"}


def translated(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: R.InterpolationMode(value.value) if isinstance(value, F.InterpolationMode) else value
        for name, value in arguments.items()
    }


def assert_close(actual: Any, expected: Any, tolerance: int) -> None:
    if isinstance(expected, tuple):
        for mine, theirs in zip(actual, expected, strict=True):
            assert_close(mine, theirs, tolerance)
        return
    assert isinstance(actual, np.ndarray)
    assert actual.dtype == np.uint8
    reference = np.asarray(expected)
    found = actual[:, :, 0] if actual.ndim == 3 and actual.shape[2] == 1 else actual
    assert found.shape == reference.shape
    difference = np.abs(found.astype(int) - reference)
    assert difference.max(initial=0) <= tolerance


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["HW3", "HW1", "HW", "view"])
@pytest.mark.parametrize("size", cases.SIZES, ids=str)
def test_uint8_equals_torchvision_on_pil(size: tuple[int, int], layout: str) -> None:
    array = cases.pixels(*size, None if layout == "HW" else 1 if layout == "HW1" else 3)
    if layout == "view":
        array = np.ascontiguousarray(array[::-1, :, ::-1])[::-1, :, ::-1]
        array.flags.writeable = False
    before = array.copy()
    image = Image.fromarray(array[:, :, 0] if layout == "HW1" else array)
    for op, arguments in [*cases.geometry(*size), *cases.resizing(*size), *cases.colors(), *cases.filters()]:
        # Pillow 13 refuses to keep no bits, which torchvision documents and its tensor backend does.
        if op == "adjust_hue" or arguments == {"bits": 0}:
            continue
        expected = cases.outcome(getattr(R, op), image, **translated(arguments))
        actual = cases.outcome(getattr(F, op), array, **arguments)
        if isinstance(expected, Exception):
            assert type(actual) is type(expected), f"{op}({arguments}): {actual!r} for {expected!r}"
            continue
        assert not isinstance(actual, Exception), f"{op}({arguments}): {actual!r}"
        try:
            assert_close(actual, expected, 0 if op in EXACT else 1)
        except AssertionError as error:
            raise AssertionError(f"{op}({arguments})") from error
        np.testing.assert_array_equal(array, before, err_msg=f"{op} changed its input")


def test_the_tolerances_cover_all_operations() -> None:
    named = {op for op, _ in [*cases.geometry(9, 9), *cases.resizing(9, 9), *cases.colors(), *cases.filters()]}
    assert named == EXACT | ROUNDED | {"adjust_hue"}


LENGTHS = st.integers(1, 12)


@given(LENGTHS, LENGTHS, st.integers(-15, 15), st.integers(-15, 15), st.integers(-2, 20), st.integers(-2, 20))
def test_any_crop(rows: int, columns: int, top: int, left: int, height: int, width: int) -> None:
    array = cases.pixels(rows, columns, 3)
    expected = cases.outcome(R.crop, Image.fromarray(array), top, left, height, width)
    actual = cases.outcome(F.crop, array, top, left, height, width)
    if isinstance(expected, Exception):
        cases.assert_same_outcome(actual, expected)
    else:
        assert_close(actual, expected, 0)


@given(
    LENGTHS,
    LENGTHS,
    st.tuples(*[st.integers(-4, 9)] * 4),
    st.sampled_from(["constant", "edge", "reflect", "symmetric"]),
    st.sampled_from([0, 7, -3, 300, 2.9, [9], (1, 2, 3), (-1, 128.6, 999)]),
)
def test_any_padding(rows: int, columns: int, padding: Any, mode: str, fill: Any) -> None:
    if rows + min(padding[1], 0) + min(padding[3], 0) <= 0 or columns + min(padding[0], 0) + min(padding[2], 0) <= 0:
        return  # nothing of the image is left
    array = cases.pixels(rows, columns, 3)
    expected = cases.outcome(R.pad, Image.fromarray(array), padding, fill, mode)
    actual = cases.outcome(F.pad, array, padding, fill, mode)
    if isinstance(expected, Exception):
        assert type(actual) is type(expected)
    else:
        assert_close(actual, expected, 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("channels", [None, 1, 3])
def test_warps_and_hue_come_close_to_torchvision_on_pil(channels: int | None) -> None:
    """That the arguments arrive where they should; how close the kernels come is their own tests' matter."""
    array = (
        np.ascontiguousarray(np.kron(cases.pixels(8, 11, channels), np.ones((6, 6, 1), np.uint8))[:48, :66])
        if (channels)
        else np.kron(cases.pixels(8, 11, None), np.ones((6, 6), np.uint8))
    )
    image = Image.fromarray(array[:, :, 0] if channels == 1 else array)
    hues = [case for case in cases.colors() if case[0] == "adjust_hue"]
    for op, arguments in [*cases.warps(48, 66, channels or 1), *hues]:
        expected = np.asarray(getattr(R, op)(image, **translated(arguments)))
        actual = getattr(F, op)(array, **arguments)
        assert actual.dtype == np.uint8
        assert actual.ndim == array.ndim
        found = actual[:, :, 0] if channels == 1 else actual
        assert found.shape == expected.shape, f"{op}({arguments})"
        assert np.abs(found.astype(int) - expected).mean() < 4, f"{op}({arguments})"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("channels", [None, 1, 3])
def test_floating_arrays_equal_the_tensor_backend(channels: int | None, dtype: Any) -> None:
    array = (cases.pixels(9, 12, channels) / 255).astype(dtype)[:, ::-1]
    array.flags.writeable = False
    before = array.copy()
    tensor = torch.from_numpy(before if channels else before[:, :, None]).permute(2, 0, 1)
    for op, arguments in [
        *cases.geometry(9, 12),
        *cases.resizing(9, 12),
        *cases.colors(),
        *cases.filters(),
        *cases.warps(9, 12, channels or 1),
    ]:
        expected = cases.outcome(getattr(R, op), tensor, **translated(arguments))
        actual = cases.outcome(getattr(F, op), array, **arguments)
        if isinstance(expected, tuple):
            continue
        if isinstance(expected, Exception):
            assert type(actual) is type(expected), f"{op}({arguments}): {actual!r} for {expected!r}"
            continue
        assert isinstance(actual, np.ndarray), f"{op}({arguments}): {actual!r}"
        assert actual.dtype == dtype
        reference = expected.permute(1, 2, 0).numpy()
        found = actual[:, :, None] if actual.ndim == 2 else actual
        np.testing.assert_array_equal(found, reference, err_msg=f"{op}({arguments})")
        np.testing.assert_array_equal(array, before, err_msg=f"{op} changed its input")


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((5,), np.uint8),
        np.zeros((5, 4, 9), np.uint8),
        np.zeros((2, 5, 4, 3), np.uint8),
        np.zeros((5, 4, 3), np.int32),
        np.zeros((5, 4, 3), np.float16),
        np.zeros((5, 4), bool),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_that_are_no_images(array: np.ndarray[Any, Any]) -> None:
    for op, arguments in [*cases.geometry(5, 4), *cases.resizing(5, 4), *cases.colors(), *cases.warps(5, 4, 3)]:
        with pytest.raises(TypeError, match=r"img should be|ndarray"):
            getattr(F, op)(array, **arguments)


def test_colors_take_gray_and_rgb_arrays_only() -> None:
    for op, arguments in cases.colors():
        with pytest.raises(TypeError, match="permitted channel values"):
            getattr(F, op)(np.zeros((5, 4, 4), np.uint8), **arguments)


def test_modes_that_cannot_warp() -> None:
    with pytest.raises(ValueError, match="can't warp"):
        F.rotate(cases.pixels(5, 4, 3), 10, F.InterpolationMode.LANCZOS)


def test_tensors_only() -> None:
    array = cases.pixels(5, 4, 3)
    with pytest.raises(TypeError, match="should be Tensor"):
        F.normalize(array, [0.5], [0.5])
    with pytest.raises(TypeError, match="should be Tensor"):
        F.erase(array, 0, 0, 1, 1, torch.zeros(1))
    with pytest.raises(TypeError, match="should be Tensor"):
        F.convert_image_dtype(array)


def test_elastic_transforms_that_the_kernel_does_not_know() -> None:
    image = cases.pixels(5, 7, 3)
    displacement = cases.displacement(5, 7)
    bicubic = F.elastic_transform(image, displacement, F.InterpolationMode.BICUBIC, fill=[3])
    expected = R.elastic_transform(Image.fromarray(image), displacement, R.InterpolationMode.BICUBIC, fill=[3])
    np.testing.assert_array_equal(bicubic, np.asarray(expected))
    strip = np.zeros((1, 40_000), np.uint8)
    assert F.elastic_transform(strip, torch.zeros(1, 1, 40_000, 2)).shape == strip.shape
