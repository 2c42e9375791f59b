"""Every function on tensors and PIL images gives torchvision's result, or torchvision's error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torchvision_here import torchvision
from transforms.functional import cases

from fastpipe.transforms import functional as F

R = torchvision.transforms.functional

DTYPES = [torch.uint8, torch.int16, torch.int64, torch.float32, torch.float64, torch.float16]

SCALABLE_DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64]


def translated(arguments: dict[str, Any]) -> dict[str, Any]:
    """With torchvision's own enum."""
    return {
        name: R.InterpolationMode(value.value) if isinstance(value, F.InterpolationMode) else value
        for name, value in arguments.items()
    }


def all_cases(height: int, width: int, channels: int) -> list[cases.Case]:
    return [
        *cases.geometry(height, width),
        *cases.resizing(height, width),
        *cases.colors(),
        *cases.filters(),
        *cases.warps(height, width, channels),
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 10, 13), (1, 7, 4), (3, 1, 1), (2, 3, 5, 8), (6, 5), (4, 5, 6)], ids=str)
def test_tensors(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    image = cases.tensor(dtype, *shape)
    before = image.clone()
    height, width = shape[-2:]
    for op, arguments in all_cases(height, width, shape[-3] if len(shape) > 2 else 1):
        expected = cases.outcome(getattr(R, op), image, **translated(arguments))
        actual = cases.outcome(getattr(F, op), image, **arguments)
        try:
            cases.assert_same_outcome(actual, expected)
        except AssertionError as error:
            raise AssertionError(f"{op}({arguments})") from error
        assert torch.equal(image, before), f"{op} changed its input"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", cases.PIL_MODES)
@pytest.mark.parametrize("size", cases.SIZES, ids=str)
def test_pil_images(mode: str, size: tuple[int, int]) -> None:
    image = cases.pil_image(mode, *size)
    before = np.array(image)
    for op, arguments in [*all_cases(*size, len(image.getbands())), ("to_grayscale", {"num_output_channels": 3})]:
        expected = cases.outcome(getattr(R, op), image, **translated(arguments))
        actual = cases.outcome(getattr(F, op), image, **arguments)
        try:
            cases.assert_same_outcome(actual, expected)
        except AssertionError as error:
            raise AssertionError(f"{op}({arguments})") from error
        np.testing.assert_array_equal(np.array(image), before, err_msg=f"{op} changed its input")


@pytest.mark.parametrize("mode", ["box", "hamming", "lanczos", "bicubic"])
def test_pillows_other_filters(mode: str) -> None:
    image = cases.pil_image("RGB", 31, 20)
    actual = F.resize(image, [9, 33], F.InterpolationMode(mode))
    cases.assert_same_outcome(actual, R.resize(image, [9, 33], R.InterpolationMode(mode)))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
def test_a_batch_equals_its_images(dtype: torch.dtype) -> None:
    batch = cases.tensor(dtype, 3, 3, 11, 8)
    for op, arguments in all_cases(11, 8, 3):
        together = cases.outcome(getattr(F, op), batch, **arguments)
        if isinstance(together, (tuple, Exception)):
            continue
        alone = torch.stack([getattr(F, op)(image, **arguments) for image in batch])
        # A mean over a batch may be added up in another order than over one image.
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-6 if dtype.is_floating_point else 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("resize", {"size": [4, 5], "interpolation": "bilinear"}),
        ("resize", {"size": [4, 5, 6]}),
        ("resize", {"size": [4, 5], "max_size": 9}),
        ("resize", {"size": 9, "max_size": 9}),
        ("resize", {"size": [9], "max_size": 8}),
        ("resize", {"size": [0, 4]}),
        ("resize", {"size": [4, 5], "interpolation": 17}),
        ("pad", {"padding": "3"}),
        ("pad", {"padding": 3, "fill": "black"}),
        ("pad", {"padding": [1, 2, 3]}),
        ("pad", {"padding": 1, "padding_mode": "wrap"}),
        ("pad", {"padding": 1, "padding_mode": 3}),
        ("pad", {"padding": [1, 2, 3], "padding_mode": "wrap"}),
        ("pad", {"padding": 9, "padding_mode": "reflect"}),
        ("pad", {"padding": 1, "fill": [1, 2]}),
        ("five_crop", {"size": [1, 2, 3]}),
        ("five_crop", {"size": [99, 2]}),
        ("ten_crop", {"size": [1, 2, 3]}),
        ("adjust_hue", {"hue_factor": 0.6}),
        ("adjust_gamma", {"gamma": -1}),
        ("adjust_brightness", {"brightness_factor": -1}),
        ("adjust_contrast", {"contrast_factor": -1}),
        ("adjust_saturation", {"saturation_factor": -1}),
        ("adjust_sharpness", {"sharpness_factor": -1}),
        ("rgb_to_grayscale", {"num_output_channels": 2}),
        ("to_grayscale", {"num_output_channels": 2}),
        ("posterize", {"bits": 9}),
        ("solarize", {"threshold": 300}),
        ("gaussian_blur", {"kernel_size": "3"}),
        ("gaussian_blur", {"kernel_size": [3]}),
        ("gaussian_blur", {"kernel_size": 4}),
        ("gaussian_blur", {"kernel_size": -3}),
        ("gaussian_blur", {"kernel_size": 3, "sigma": "1"}),
        ("gaussian_blur", {"kernel_size": 3, "sigma": [1, 2, 3]}),
        ("gaussian_blur", {"kernel_size": 3, "sigma": 0}),
        ("gaussian_blur", {"kernel_size": 99}),
        ("rotate", {"angle": "9"}),
        ("rotate", {"angle": 9, "interpolation": "nearest"}),
        ("rotate", {"angle": 9, "center": 4}),
        ("rotate", {"angle": 9, "fill": [1, 2]}),
        ("rotate", {"angle": 9, "interpolation": 4}),
        ("affine", {"angle": "9", "translate": [0, 0], "scale": 1, "shear": 0}),
        ("affine", {"angle": 9, "translate": 0, "scale": 1, "shear": 0}),
        ("affine", {"angle": 9, "translate": [0], "scale": 1, "shear": 0}),
        ("affine", {"angle": 9, "translate": [0, 0], "scale": 0, "shear": 0}),
        ("affine", {"angle": 9, "translate": [0, 0], "scale": 1, "shear": "0"}),
        ("affine", {"angle": 9, "translate": [0, 0], "scale": 1, "shear": [0, 1, 2]}),
        ("affine", {"angle": 9, "translate": [0, 0], "scale": 1, "shear": 0, "center": 3}),
        ("affine", {"angle": 9, "translate": [0, 0], "scale": 1, "shear": 0, "interpolation": "nearest"}),
        ("perspective", {"startpoints": [[0, 0]], "endpoints": [[0, 0]]}),
        ("perspective", {"startpoints": [[0, 0]] * 4, "endpoints": [[0, 0]] * 4, "interpolation": None}),
        ("elastic_transform", {"displacement": None}),
        ("elastic_transform", {"displacement": torch.zeros(1, 2, 3, 2)}),
        ("normalize", {"mean": [0.5], "std": [0.5]}),
        ("convert_image_dtype", {}),
        ("convert_image_dtype", {"dtype": torch.int64}),
        ("erase", {"i": 0, "j": 0, "h": 1, "w": 1, "v": torch.zeros(1)}),
        ("to_tensor", {}),
        ("pil_to_tensor", {}),
        ("to_pil_image", {}),
    ],
)
def test_errors(op: str, arguments: dict[str, Any]) -> None:
    images = [
        cases.pil_image("RGB", 10, 7),
        cases.tensor(torch.uint8, 3, 10, 7),
        cases.tensor(torch.float32, 3, 10, 7),
        torch.zeros(3),
        "image",
        None,
    ]
    for image in images:
        expected = cases.outcome(getattr(R, op), image, **translated(arguments))
        actual = cases.outcome(getattr(F, op), image, **arguments)
        if op == "elastic_transform" and isinstance(image, torch.Tensor) and image.ndim == 1:
            assert isinstance(actual, (TypeError, ValueError))  # no image, and no displacement for it: either will do
        elif isinstance(expected, Exception):
            cases.assert_same_outcome(actual, expected)
        else:
            assert not isinstance(actual, Exception), (image, actual)


def test_no_image_at_all() -> None:
    for op, arguments in all_cases(5, 5, 3):
        for image in ("abc", 3, None, [1, 2]):
            with pytest.raises(TypeError):
                getattr(F, op)(image, **arguments)


def test_warnings() -> None:
    image = cases.pil_image("RGB", 10, 7)
    with pytest.warns(UserWarning, match="Anti-alias option is always applied for PIL Image input"):
        F.resize(image, 5, antialias=False)
    with pytest.warns(UserWarning, match="Argument interpolation should be of type InterpolationMode instead of int"):
        F.elastic_transform(image, torch.zeros(1, 10, 7, 2), interpolation=2)


@pytest.mark.parametrize("size", cases.SIZES, ids=str)
def test_dimensions(size: tuple[int, int]) -> None:
    for image in (
        cases.tensor(torch.uint8, 4, 3, *size),
        cases.tensor(torch.uint8, *size),
        cases.pil_image("LA", *size),
    ):
        assert F.get_dimensions(image) == R.get_dimensions(image)
        assert F.get_image_size(image) == R.get_image_size(image)
        assert F.get_image_num_channels(image) == R.get_image_num_channels(image)
    array = cases.pixels(*size, 3)
    assert F.get_dimensions(array) == [3, *size]
    assert F.get_image_size(array) == [size[1], size[0]]
    assert F.get_image_num_channels(array[:, :, 0]) == 1


@pytest.mark.parametrize("target", SCALABLE_DTYPES, ids=str)
@pytest.mark.parametrize("source", SCALABLE_DTYPES, ids=str)
def test_convert_image_dtype(source: torch.dtype, target: torch.dtype) -> None:
    image = cases.tensor(source, 3, 5, 4)
    cases.assert_same_outcome(
        cases.outcome(F.convert_image_dtype, image, target), cases.outcome(R.convert_image_dtype, image, target)
    )


def test_normalize_and_erase() -> None:
    image = cases.tensor(torch.float32, 2, 3, 6, 5)
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]
    cases.assert_same_outcome(F.normalize(image, mean, std), R.normalize(image, mean, std))
    with pytest.raises(ValueError, match="std evaluated to zero"):
        F.normalize(image, mean, [0.2, 0.0, 0.1])
    with pytest.raises(TypeError, match="Input tensor should be a float tensor"):
        F.normalize(cases.tensor(torch.uint8, 3, 6, 5), mean, std)
    values = torch.rand(3, 2, 4)
    cases.assert_same_outcome(F.erase(image, 1, 0, 2, 4, values), R.erase(image, 1, 0, 2, 4, values))
    in_place = image.clone()
    assert F.erase(in_place, 1, 0, 2, 4, values, inplace=True) is in_place
    assert not torch.equal(in_place, image)
    assert F.normalize(in_place, mean, std, inplace=True) is in_place
