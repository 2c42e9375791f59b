"""Kernels and operations of arrays against torchvision on PIL images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision_here import torchvision  # noqa: F401  (makes the next imports work)

import torchvision.transforms.functional as tv  # isort: skip
from torchvision.transforms import InterpolationMode  # isort: skip

from kernels.warped import warped

from fastpipe import core
from fastpipe.kernels import geometry
from fastpipe.transforms import functional as F

Array = np.ndarray[Any, np.dtype[np.uint8]]
FILL = 97


# name: (kernel, torchvision on PIL), which give the same pixels
CASES: dict[str, tuple[Callable[[Array], Array], Callable[[Image.Image], Image.Image]]] = {
    "hflip": (geometry.hflip, tv.hflip),
    "vflip": (geometry.vflip, tv.vflip),
    "crop inside": (lambda a: geometry.crop(a, 0, 0, 1, 1), lambda i: tv.crop(i, 0, 0, 1, 1)),
    "crop across": (lambda a: geometry.crop(a, -3, 1, 40, 70), lambda i: tv.crop(i, -3, 1, 40, 70)),
    "crop outside": (lambda a: geometry.crop(a, 400, -90, 4, 5), lambda i: tv.crop(i, 400, -90, 4, 5)),
    "invert": (F.invert, tv.invert),
    "equalize": (F.equalize, tv.equalize),
    "autocontrast": (F.autocontrast, tv.autocontrast),
    "grayscale": (lambda a: F.rgb_to_grayscale(a, 3), lambda i: tv.to_grayscale(i, 3)),
}
for _factor in (0.0, 0.35, 1.0, 1.6, 5.0, 1e9):
    CASES |= {
        f"brightness {_factor}": (
            lambda a, f=_factor: F.adjust_brightness(a, f),
            lambda i, f=_factor: tv.adjust_brightness(i, f),
        ),
        f"contrast {_factor}": (
            lambda a, f=_factor: F.adjust_contrast(a, f),
            lambda i, f=_factor: tv.adjust_contrast(i, f),
        ),
        f"saturation {_factor}": (
            lambda a, f=_factor: F.adjust_saturation(a, f),
            lambda i, f=_factor: tv.adjust_saturation(i, f),
        ),
        f"sharpness {_factor}": (
            lambda a, f=_factor: F.adjust_sharpness(a, f),
            lambda i, f=_factor: tv.adjust_sharpness(i, f),
        ),
        f"gamma {_factor}": (
            lambda a, f=_factor: F.adjust_gamma(a, f, 1.1),
            lambda i, f=_factor: tv.adjust_gamma(i, f, 1.1),
        ),
    }
for _bits in range(1, 9):
    CASES[f"posterize {_bits}"] = (
        lambda a, b=_bits: F.posterize(a, b),
        lambda i, b=_bits: tv.posterize(i, b),
    )
for _threshold in (0.0, 1.0, 99.5, 128.0, 255.0, 256.0):
    CASES[f"solarize {_threshold}"] = (
        lambda a, t=_threshold: F.solarize(a, t),
        lambda i, t=_threshold: tv.solarize(i, t),
    )
for _mode in ("constant", "edge", "reflect", "symmetric"):
    for _sides in ((2, 3, 0, 5), (0, 0, 0, 0), (70, 1, 90, 64)):
        CASES[f"pad {_mode} {_sides}"] = (
            lambda a, s=_sides, m=_mode: geometry.pad(a, *s, FILL, m),
            lambda i, s=_sides, m=_mode: tv.pad(i, list(s), FILL, m),
        )
for _filter in ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"):
    for _size in ([40, 30], [33, 200], [200, 33], [190, 230], [1, 1]):
        CASES[f"resize {_filter} {_size}"] = (
            lambda a, s=_size, f=_filter: F.resize(a, s, F.InterpolationMode(f)),
            lambda i, s=_size, f=_filter: tv.resize(i, s, InterpolationMode(f)),
        )


@pytest.mark.parametrize("name", CASES)
def test_within_the_contract(name: str, image: Array, to_pil: Any, distance: Any) -> None:
    if "symmetric" in name and max(image.shape[:2]) < 10 and np.__version__.startswith("1."):
        pytest.skip("the reference, numpy 1's own pad, is wrong where margins are many times the image")
    kernel, reference = CASES[name]
    before = image.copy()
    result = kernel(image)
    assert distance(result, reference(to_pil(image))).max(initial=0) == 0
    assert (image == before).all(), "the input was changed"
    assert np.array_equal(kernel(np.ascontiguousarray(image)), result), "a view gives other pixels than its copy"


@pytest.mark.parametrize("factor", [-0.5, -0.21, 0.0, 0.03, 0.4, 0.5])
def test_hue(image: Array, factor: float, to_pil: Any, distance: Any) -> None:
    assert distance(F.adjust_hue(image, factor), tv.adjust_hue(to_pil(image), factor)).max() == 0


@pytest.mark.parametrize("factor", [-1.5, float("inf"), float("-inf"), 1e300, 3.3e38])
def test_factors_of_no_use(photo: Array, factor: float, distance: Any) -> None:
    for ours, theirs in (
        (F.adjust_contrast, tv.adjust_contrast),
        (F.adjust_saturation, tv.adjust_saturation),
        (F.adjust_sharpness, tv.adjust_sharpness),
    ):
        assert distance(ours(photo, factor), theirs(Image.fromarray(photo), factor)).max() == 0


@pytest.mark.parametrize("threshold", [0, 100])
def test_grayscale_of_one_channel_is_exact(image: Array, threshold: int, to_pil: Any, distance: Any) -> None:
    gray = F.rgb_to_grayscale(np.maximum(image, threshold).astype(np.uint8))
    expected = tv.to_grayscale(to_pil(np.maximum(image, threshold).astype(np.uint8)), 1)
    assert gray.shape == (*image.shape[:2], 1)[: image.ndim]
    assert distance(gray, expected).max() == 0


def test_every_luma_that_ties_rounds_as_pillow() -> None:
    values = np.stack(np.meshgrid(np.arange(256), np.arange(256), [0, 85, 170, 255], indexing="ij"), -1)
    colors = values.reshape(512, 512, 3).astype(np.uint8)
    assert np.array_equal(F.rgb_to_grayscale(colors)[..., 0], np.asarray(Image.fromarray(colors).convert("L")))


ANGLES = (0, 17.3, -90, 90.0, 180, 270, 361, 45, -123.4)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("angle", ANGLES)
def test_rotate(image: Array, angle: float, interpolation: str, to_pil: Any, distance: Any) -> None:
    fill = FILL if image.ndim == 2 or image.shape[2] == 1 else [FILL, 0, 255]
    mode = InterpolationMode(interpolation)
    for expand, center in ((False, None), (True, None), (False, (3, 8))):
        result = F.rotate(image, angle, F.InterpolationMode(interpolation), expand, center, fill)
        expected = tv.rotate(to_pil(image), angle, mode, expand, center, fill)
        assert distance(result, expected).max(initial=0) == 0


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize(
    ("angle", "translate", "scale", "shear"),
    [(0.0, (5, -9), 1.0, (0.0, 0.0)), (0.0, (0, 0), 0.7, (0.0, 0.0)), (31.0, (2, 3), 1.3, (4.0, -11.0))],
)
def test_affine(
    image: Array,
    angle: float,
    translate: tuple[int, int],
    scale: float,
    shear: tuple[float, float],
    interpolation: str,
    to_pil: Any,
    distance: Any,
) -> None:
    arguments = angle, list(translate), scale, list(shear)
    result = F.affine(image, *arguments, F.InterpolationMode(interpolation), FILL)
    expected = tv.affine(to_pil(image), *arguments, InterpolationMode(interpolation), FILL)
    assert distance(result, expected).max(initial=0) == 0


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("strength", [0.1, 0.45])
def test_perspective(photo: Array, strength: float, interpolation: str, distance: Any) -> None:
    for image in (photo, photo[..., 0], photo[..., :1]):
        height, width = image.shape[:2]
        start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        dx, dy = int(strength * width), int(strength * height)
        end = [[dx, dy // 2], [width - 1, 0], [width - 1 - dx // 3, height - 1 - dy], [dx // 2, height - 1]]
        picture = Image.fromarray(image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image)
        expected = tv.perspective(picture, start, end, InterpolationMode(interpolation), FILL)
        result = F.perspective(image, start, end, F.InterpolationMode(interpolation), FILL)
        assert distance(result, expected).max() == 0


@pytest.mark.needs_core
def test_perspective_with_a_vanishing_line_inside(photo: Array, distance: Any) -> None:
    height, width = photo.shape[:2]
    coeffs = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, -2.0 / width, 0.0]
    expected = Image.fromarray(photo).transform(
        (width, height), Image.Transform.PERSPECTIVE, coeffs, Image.Resampling.BILINEAR, fillcolor=(1, 2, 3)
    )
    assert distance(warped(photo, core.Kind.PERSPECTIVE, coeffs, "bilinear", [1, 2, 3]), expected).max() == 0


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("fill", [None, 0, [10, 255, 90]])
def test_elastic(photo: Array, fill: Any, interpolation: str, distance: Any) -> None:
    torch.manual_seed(1)
    displacement = (torch.rand(1, *photo.shape[:2], 2) - 0.5) * 0.2
    expected = tv.elastic_transform(Image.fromarray(photo), displacement, InterpolationMode(interpolation), fill)
    result = F.elastic_transform(photo, displacement, F.InterpolationMode(interpolation), fill)
    assert distance(result, expected).max() == 0
