"""uint8 ndarrays get what torchvision gives for the same PIL image, floating ones the tensor backend's result."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import torchvision
from transforms.functional import cases

from fastpipe import core
from fastpipe.tensor_kernels import planes
from fastpipe.transforms import functional as F

R = torchvision.transforms.functional


def translated(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: R.InterpolationMode(value.value) if isinstance(value, F.InterpolationMode) else value
        for name, value in arguments.items()
    }


def assert_equal(actual: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for mine, theirs in zip(actual, expected, strict=True):
            assert_equal(mine, theirs)
        return
    assert isinstance(actual, np.ndarray)
    assert actual.dtype == np.uint8
    reference = np.asarray(expected)
    found = actual[:, :, 0] if actual.ndim == 3 and actual.shape[2] == 1 else actual
    np.testing.assert_array_equal(found, reference)


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
        if arguments == {"bits": 0}:
            continue
        expected = cases.outcome(getattr(R, op), image, **translated(arguments))
        actual = cases.outcome(getattr(F, op), array, **arguments)
        if isinstance(expected, Exception):
            assert type(actual) is type(expected), f"{op}({arguments}): {actual!r} for {expected!r}"
            continue
        assert not isinstance(actual, Exception), f"{op}({arguments}): {actual!r}"
        try:
            assert_equal(actual, expected)
        except AssertionError as error:
            raise AssertionError(f"{op}({arguments})") from error
        np.testing.assert_array_equal(array, before, err_msg=f"{op} changed its input")


LENGTHS = st.integers(1, 12)


@given(LENGTHS, LENGTHS, st.integers(-15, 15), st.integers(-15, 15), st.integers(-2, 20), st.integers(-2, 20))
def test_any_crop(rows: int, columns: int, top: int, left: int, height: int, width: int) -> None:
    array = cases.pixels(rows, columns, 3)
    expected = cases.outcome(R.crop, Image.fromarray(array), top, left, height, width)
    actual = cases.outcome(F.crop, array, top, left, height, width)
    if isinstance(expected, Exception):
        cases.assert_same_outcome(actual, expected)
    else:
        assert_equal(actual, expected)


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
        assert_equal(actual, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("channels", [None, 1, 3])
@pytest.mark.parametrize("size", cases.SIZES, ids=str)
def test_warps_equal_torchvision_on_pil(size: tuple[int, int], channels: int | None) -> None:
    array = cases.pixels(*size, channels)
    image = Image.fromarray(array[:, :, 0] if channels == 1 else array)
    for op, arguments in cases.warps(*size, channels or 1):
        expected = np.asarray(getattr(R, op)(image, **translated(arguments)))
        actual = getattr(F, op)(array, **arguments)
        assert actual.dtype == np.uint8
        assert actual.ndim == array.ndim
        found = actual[:, :, 0] if channels == 1 else actual
        assert found.shape == expected.shape, f"{op}({arguments})"
        np.testing.assert_array_equal(found, expected, err_msg=f"{op}({arguments})")


FACTORS = st.one_of(st.floats(0, 4), st.floats(-1e3, 1e6), st.integers(-8, 40).map(lambda n: n / 8))
ADJUSTED = {
    "adjust_brightness": FACTORS,
    "adjust_contrast": FACTORS,
    "adjust_saturation": FACTORS,
    "adjust_sharpness": FACTORS,
    "adjust_hue": st.floats(-0.5, 0.5),
    "adjust_gamma": st.floats(0, 5),
    "posterize": st.integers(1, 8),
    "solarize": st.floats(-1, 257),
}


@given(
    st.sampled_from([*ADJUSTED, "autocontrast", "equalize", "invert", "rgb_to_grayscale"]),
    st.data(),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([None, 1, 3]),
    st.integers(0, 99),
)
def test_any_adjustment(op: str, data: Any, rows: int, columns: int, channels: int | None, seed: int) -> None:
    array = cases.pixels(rows, columns, channels, seed)
    if data.draw(st.booleans()):  # few levels, a narrow range
        array = (array // data.draw(st.integers(1, 99)) + data.draw(st.integers(0, 9))).astype(np.uint8)
    arguments = [data.draw(ADJUSTED[op])] if op in ADJUSTED else []
    expected = getattr(R, op)(Image.fromarray(array[:, :, 0] if channels == 1 else array), *arguments)
    assert_equal(getattr(F, op)(array, *arguments), expected)


MODES = st.sampled_from([F.InterpolationMode.NEAREST, F.InterpolationMode.BILINEAR, F.InterpolationMode.BICUBIC])
SIDES = st.integers(1, 40)
ANGLES = st.one_of(st.floats(-720, 720), st.integers(-8, 8).map(lambda n: 45.0 * n))
POINTS = st.one_of(st.none(), st.tuples(st.integers(-50, 50), st.integers(-50, 50)).map(list))
FILLS = st.one_of(
    st.none(), st.integers(-9, 300), st.floats(0, 255), st.lists(st.integers(0, 255), min_size=3, max_size=3)
)


@pytest.mark.filterwarnings("ignore")
@given(st.sampled_from(["rotate", "affine", "perspective"]), st.data(), SIDES, SIDES, st.sampled_from([None, 1, 3]))
def test_any_warp(op: str, data: Any, rows: int, columns: int, channels: int | None) -> None:
    fill = data.draw(FILLS)
    arguments: dict[str, Any] = {"interpolation": data.draw(MODES)}
    arguments["fill"] = fill[:1] if isinstance(fill, list) and channels != 3 else fill
    if op == "rotate":
        arguments |= {"angle": data.draw(ANGLES), "expand": data.draw(st.booleans()), "center": data.draw(POINTS)}
    elif op == "affine":
        arguments |= {
            "angle": data.draw(ANGLES),
            "translate": [data.draw(st.integers(-50, 50)), data.draw(st.integers(-50, 50))],
            "scale": data.draw(st.one_of(st.floats(0.01, 5), st.sampled_from([0.5, 1.0, 2.0]))),
            "shear": data.draw(st.one_of(st.floats(-80, 80), st.tuples(st.floats(-80, 80), st.floats(-80, 80)))),
            "center": data.draw(POINTS),
        }
    else:
        corners = [[0, 0], [columns - 1, 0], [columns - 1, rows - 1], [0, rows - 1]]
        shift = st.integers(-12, 12)
        moved = [[x + data.draw(shift), y + data.draw(shift)] for x, y in corners]
        arguments |= {"startpoints": corners, "endpoints": moved}
    array = cases.pixels(rows, columns, channels)
    image = Image.fromarray(array[:, :, 0] if channels == 1 else array)
    expected = cases.outcome(getattr(R, op), image, **translated(arguments))
    actual = cases.outcome(getattr(F, op), array, **arguments)
    if isinstance(expected, Exception):
        assert isinstance(actual, Exception), expected
    else:
        assert_equal(actual, expected)


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
    with pytest.raises(ValueError, match="cannot be used"):
        F.rotate(cases.pixels(5, 4, 3), 10, F.InterpolationMode.LANCZOS)


def test_tensors_only() -> None:
    array = cases.pixels(5, 4, 3)
    with pytest.raises(TypeError, match="should be Tensor"):
        F.normalize(array, [0.5], [0.5])
    with pytest.raises(TypeError, match="should be Tensor"):
        F.erase(array, 0, 0, 1, 1, torch.zeros(1))
    with pytest.raises(TypeError, match="should be Tensor"):
        F.convert_image_dtype(array)


@pytest.fixture(params=["auto", "portable", "off"])
def loaded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The core in one of its forms, which are asked anew how torch adds."""
    monkeypatch.setattr(core.library, "_loaded", core.library.load(request.param))
    planes.rounding.cache_clear()
    yield
    planes.rounding.cache_clear()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("channels", [None, 1, 2, 3, 4])
def test_elastic_transforms_equal_torchvisions_with_and_without_the_core(channels: int | None) -> None:
    for height, width in [*cases.SIZES, (1, 70), (66, 1), (57, 90)]:
        array = cases.pixels(height, width, channels)
        image = Image.fromarray(array[:, :, 0] if channels == 1 else array)
        field = cases.displacement(height, width)
        fills = [None, 7, 9.5, [200], [31 * channel for channel in range(1, (channels or 1) + 1)]]
        for strength, fill, mode in itertools.product((0.1, 1, 9), fills, (F.InterpolationMode.NEAREST, None)):
            arguments = {"displacement": strength * field, "fill": fill} | ({"interpolation": mode} if mode else {})
            expected = R.elastic_transform(image, **translated(arguments))
            assert_equal(F.elastic_transform(array, **arguments), expected)
            view = np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]
            assert_equal(F.elastic_transform(view, **arguments), expected)
            cases.assert_same_outcome(F.elastic_transform(image, **arguments), expected)
            floats = np.atleast_3d(array).astype(np.float32) / 255
            planes = R.elastic_transform(torch.from_numpy(floats).permute(2, 0, 1), **translated(arguments))
            made = F.elastic_transform(floats.reshape(array.shape), **arguments)
            np.testing.assert_array_equal(made, planes.permute(1, 2, 0).reshape(array.shape))


def test_elastic_transforms_of_other_filters_and_of_long_images() -> None:
    image = cases.pixels(5, 7, 3)
    displacement = cases.displacement(5, 7)
    bicubic = F.elastic_transform(image, displacement, F.InterpolationMode.BICUBIC, fill=[3])
    expected = R.elastic_transform(Image.fromarray(image), displacement, R.InterpolationMode.BICUBIC, fill=[3])
    np.testing.assert_array_equal(bicubic, np.asarray(expected))
    strip = np.zeros((1, 40_000), np.uint8)
    assert F.elastic_transform(strip, torch.zeros(1, 1, 40_000, 2)).shape == strip.shape
