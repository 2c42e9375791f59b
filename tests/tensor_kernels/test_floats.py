"""Operations on images of floats: torch's and torchvision's own values, and their layouts in memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision_here import module

from fastpipe.tensor_kernels import filters, floats
from fastpipe.transforms import functional as F

interpolate = torch.nn.functional.interpolate
SIDES = st.integers(2, 90)
LAYOUTS = ("planes", "pixels", "window of planes", "window of pixels", "columns", "batch", "batch of pixels")


def image_of(layout: str, channels: int, height: int, width: int, seed: int) -> torch.Tensor:
    """A batch ``(N, C, H, W)`` of noise with a layout in memory."""
    images = 3 if "batch" in layout else 1
    generator = torch.Generator().manual_seed(seed)
    if "window" in layout:
        return image_of(layout[10:], channels, height + 5, width + 4, seed)[..., 2:-3, 1:-3]
    if "pixels" in layout:
        return torch.randn((images, height, width, channels), generator=generator).permute(0, 3, 1, 2)
    if layout == "columns":
        return torch.randn((images, channels, width, height), generator=generator).transpose(2, 3)
    return torch.randn((images, channels, height, width), generator=generator)


@pytest.mark.needs_core
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@settings(deadline=None)
@given(st.sampled_from(LAYOUTS), st.integers(1, 4), SIDES, SIDES, SIDES, SIDES, st.integers(0, 10**6))
def test_a_resize_has_torchs_values_and_layout(
    mode: str, layout: str, channels: int, height: int, width: int, rows: int, columns: int, seed: int
) -> None:
    batch = image_of(layout, channels, height, width, seed)
    expected = interpolate(batch, (rows, columns), mode=mode, align_corners=False, antialias=True)
    check(batch, expected, layout, mode)


@pytest.mark.needs_core
@settings(deadline=None)
@given(st.sampled_from(LAYOUTS), st.integers(1, 4), SIDES, SIDES, SIDES, SIDES, st.integers(0, 10**6))
def test_a_resize_of_bytes_has_the_values_and_layout_of_v1(
    layout: str, channels: int, height: int, width: int, rows: int, columns: int, seed: int
) -> None:
    batch = image_of(layout, channels, height, width, seed).mul(99).to(torch.uint8)
    check(batch, module("torchvision.transforms._functional_tensor").resize(batch, [rows, columns]), layout)


def check(batch: torch.Tensor, expected: torch.Tensor, layout: str, mode: str = "bilinear") -> None:
    rows, columns = expected.shape[-2:]
    result = floats.resized(batch, (rows, columns), mode, antialias=True)
    if result is not None:
        assert floats.is_same(result, expected)
    elif (floats.rounding() if mode == "bilinear" else floats.cubic_rounding()) is not None:
        assert layout in ("columns", "batch of pixels")


@pytest.mark.needs_core
def test_a_photo_is_resized_by_the_core() -> None:
    """This torch, as CI has it, rounds in one of the known ways."""
    for layout in ("planes", "pixels"):
        for mode in ("bilinear", "bicubic"):
            assert floats.resized(image_of(layout, 3, 375, 500, 0), (256, 341), mode, antialias=True) is not None


@pytest.mark.needs_core
@settings(deadline=None)
@given(
    st.sampled_from(LAYOUTS),
    st.booleans(),
    st.booleans(),
    st.integers(1, 40),
    st.integers(1, 40),
    st.floats(-0.5, 0.5),
    st.integers(0, 10**6),
)
def test_a_hue_has_torchvisions_values_and_layout(
    layout: str, of_bytes: bool, as_v1: bool, height: int, width: int, factor: float, seed: int
) -> None:
    batch = image_of(layout, 3, height, width, seed).abs().clamp(0, 1)
    batch = batch.mul(255).to(torch.uint8) if of_bytes else batch
    theirs = module("torchvision.transforms._functional_tensor" if as_v1 else "torchvision.transforms.v2.functional")
    for image in (batch, batch[0]):
        result = floats.hue_adjusted(image, factor, as_v1=as_v1)
        assert floats.is_same(result, theirs.adjust_hue(image, factor))


@pytest.mark.needs_core
def test_hues_that_torch_has_to_make() -> None:
    image = torch.rand(3, 20, 30)
    refused = [
        image.half(),
        image.double(),
        image[:1],
        image[:2],
        image[0],
        image - 0.1,
        image * 2,
        -image[:, :1, :1] * 0,
        image * float("nan"),
        image[:, :0],
        image.clone().requires_grad_(),
        image.as_subclass(Subclass),
        image.to("meta"),
        image.to_sparse(),
    ]
    for as_v1 in (False, True):
        assert [floats.hue_adjusted(one, 0.1, as_v1=as_v1) for one in refused] == [None] * len(refused)
        for factor in (0.6, -0.6, float("nan"), "0.1", None, torch.tensor(0.1)):
            assert floats.hue_adjusted(image, factor, as_v1=as_v1) is None
        with Mode():
            assert floats.hue_adjusted(image, 0.1, as_v1=as_v1) is None
    five = image.repeat(2, 2, 1, 1, 1)
    assert floats.hue_adjusted(five, 0.1, as_v1=True) is None  # torch.einsum's strides are others
    assert floats.is_same(
        floats.hue_adjusted(five, 0.1), module("torchvision.transforms.v2.functional").adjust_hue(five, 0.1)
    )


@pytest.mark.needs_core
def test_hues_of_v1_multiply_as_torch_does_by_default() -> None:
    image = torch.rand(3, 20, 30)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert floats.hue_adjusted(image, 0.1, as_v1=True) is None
    finally:
        torch.set_float32_matmul_precision(before)
    assert floats.hue_adjusted(image, 0.1, as_v1=True) is not None


@pytest.mark.needs_core
@settings(deadline=None)
@given(
    st.sampled_from((*LAYOUTS, "channels of a batch")),
    st.sampled_from([1, 3]),
    st.booleans(),
    st.integers(1, 60),
    st.integers(1, 60),
    st.sampled_from([[1, 1], [3, 3], [5, 5], [9, 3], [5, 23]]),
    st.integers(0, 10**6),
)
def test_a_blur_has_torchvisions_values_and_layout(
    layout: str, channels: int, as_v1: bool, height: int, width: int, kernel: list[int], seed: int
) -> None:
    if layout == "channels of a batch":
        batch = image_of("batch", 3, height, width, seed)[:channels].transpose(0, 1)
    else:
        batch = image_of(layout, channels, height, width, seed)
    theirs = module("torchvision.transforms._functional_tensor" if as_v1 else "torchvision.transforms.v2.functional")
    ours = filters.blurred if as_v1 else filters.blurred_as_v2
    for image in (batch, batch[0]):
        result = ours(image, kernel, [1.7, 0.6])
        if kernel[0] // 2 >= width or kernel[1] // 2 >= height:
            assert result is None
        elif result is not None:
            assert floats.is_same(result, theirs.gaussian_blur(image, kernel, [1.7, 0.6]))
        elif filters._is_known(3, *kernel) and height * width > 1:
            assert channels == 1
            assert min(kernel) <= 3 or layout.endswith("pixels")


@pytest.mark.needs_core
@pytest.mark.parametrize("value", [-0.0, 1e-42, float("inf"), float("-inf"), float("nan")])
def test_a_blur_of_any_float(value: float) -> None:
    """One of them, and nothing else: a sum of -0 is 0."""
    theirs = module("torchvision.transforms._functional_tensor")
    image = torch.rand(3, 20, 30)
    image[0, 5, 7], image[1] = value, value
    result = filters.blurred(image, [5, 5], [1.3, 1.3])
    if result is not None:
        expected = theirs.gaussian_blur(image, [5, 5], [1.3, 1.3])
        assert torch.equal(result.nan_to_num(), expected.nan_to_num())
        assert torch.equal(result.isnan(), expected.isnan())
        assert result[1].signbit().tolist() == expected[1].signbit().tolist()


@pytest.mark.needs_core
def test_a_photo_and_a_field_are_blurred_by_the_core() -> None:
    """This torch, as CI has it, adds up in the known order."""
    assert filters.blurred(torch.rand(3, 224, 224), [23, 23], [1.5, 1.5]) is not None
    assert filters.blurred_as_v2(torch.rand(1, 1, 60, 70), 41, 5.0) is not None


@pytest.mark.needs_core
def test_blurs_that_torch_has_to_make(monkeypatch: pytest.MonkeyPatch) -> None:
    image = torch.rand(3, 20, 30)
    refused = [
        image.half(),
        image.double(),
        image[:2],
        image[0],
        image[None, None],
        image[:, :0],
        image[:, :1, :1],
        image.clone().requires_grad_(),
        image.as_subclass(Subclass),
        image.to("meta"),
        image.to_sparse(),
    ]
    for blurred in (filters.blurred, filters.blurred_as_v2):
        assert [blurred(one, [1, 1], [1.0, 1.0]) for one in refused] == [None] * len(refused)
        for kernel in ([4, 3], [61, 3], [3, 41]):
            assert blurred(image, kernel, [1.0, 1.0]) is None
        with Mode():
            assert blurred(image, [5, 5], [1.0, 1.0]) is None
    monkeypatch.setattr(filters, "_adds_in_order", lambda *_: False)
    assert filters.blurred(image, [5, 5], [1.0, 1.0]) is None


@pytest.mark.parametrize("factor", [0.0, 0.1, -0.5])
def test_our_hue_has_the_values_and_gradients_of_v1(factor: float) -> None:
    theirs = module("torchvision.transforms._functional_tensor").adjust_hue
    image = torch.rand(2, 3, 20, 30)
    for given_image in (image, image[0], image * 3 - 1, (image * 255).to(torch.uint8), image.double(), image[:, :, :0]):
        assert floats.is_same(F.adjust_hue(given_image, factor), theirs(given_image, factor))
    gray = image[:, :1]
    assert F.adjust_hue(gray, factor) is gray
    slopes = [
        torch.autograd.grad(adjust(leaf, factor).square().sum(), leaf)[0]
        for adjust in (F.adjust_hue, theirs)
        for leaf in [image.clone().requires_grad_()]
    ]
    assert torch.equal(*slopes)


class Subclass(torch.Tensor):
    """A tensor of a user's class."""


class Mode(torch.overrides.TorchFunctionMode):
    """Sees each call."""

    def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return function(*args, **(kwargs or {}))


@pytest.mark.needs_core
def test_what_torch_has_to_do() -> None:
    image = torch.rand(1, 3, 40, 50)
    refused = [
        (image.half(), (20, 20), "bilinear", True),
        (image.double(), (20, 20), "bilinear", True),
        (image, (20, 20), "nearest", True),
        (image, (20, 20), "bicubic", False),
        (image.to(torch.uint8), (20, 20), "bicubic", True),
        (image, (20, 20), "bilinear", False),
        (image[0], (20, 20), "bilinear", True),
        (image, (1, 20), "bilinear", True),
        (image[..., :1], (20, 20), "bilinear", True),
        (image[:, :, :1], (20, 20), "bilinear", True),
        (image.clone().requires_grad_(), (20, 20), "bilinear", True),
        (image.as_subclass(Subclass), (20, 20), "bilinear", True),
        (image.to("meta"), (20, 20), "bilinear", True),
        (image.to_sparse(), (20, 20), "bilinear", True),
        (image[:0], (20, 20), "bilinear", True),
        (image[:, :0], (20, 20), "bilinear", True),
    ]
    assert [floats.resized(*one) for one in refused] == [None] * len(refused)
    with Mode():
        assert floats.resized(image, (20, 20), "bilinear", antialias=True) is None
    seen = torch.func.vmap(
        lambda one: torch.zeros(()) if floats.resized(one, (9, 9), "bilinear", True) is None else one
    )
    assert seen(image[None]).shape == (1,)


@settings(deadline=None)
@given(st.sampled_from(LAYOUTS[:5]), st.integers(1, 4), SIDES, SIDES, st.integers(0, 10**6), st.booleans())
def test_normalize_has_torchvisions_values_and_layout(
    layout: str, channels: int, height: int, width: int, seed: int, double: bool
) -> None:
    image = image_of(layout, channels, height, width, seed)[0]
    image = image.double() if double else image
    mean, std = [0.485, 0.456, 0.406, 0.1][:channels], [0.229, 0.224, 0.225, -3.0][:channels]
    result = F.normalize(image, mean, std)
    for theirs in ("torchvision.transforms.functional", "torchvision.transforms.v2.functional"):
        assert floats.is_same(result, module(theirs).normalize(image, mean, std))


def test_numbers_and_gradients_of_normalize() -> None:
    image = torch.rand(20, 30, 3).permute(2, 0, 1).requires_grad_()
    theirs = module("torchvision.transforms.functional").normalize
    for mean, std in (([0.5], [0.25]), ([0.1, 0.2, 0.3], [2.0]), ([0.1, 0.2, 0.3], [1.0, 2.0, 3.0])):
        assert torch.equal(F.normalize(image, mean, std), theirs(image, mean, std))
    (slope,) = torch.autograd.grad(F.normalize(image, mean, std).sum(), image)
    assert torch.equal(slope, torch.autograd.grad(theirs(image, mean, std).sum(), image)[0])
    with pytest.raises(ValueError, match="std evaluated to zero"):
        F.normalize(image, [0.1, 0.2, 0.3], [1.0, 0.0, 1.0])


EACH = """
import torch
from fastpipe.tensor_kernels import floats
for layout in (torch.contiguous_format, torch.channels_last):
    image = torch.randn((1, 3, 131, 97), generator=torch.Generator().manual_seed(5)).contiguous(memory_format=layout)
    for size in ((40, 30), (200, 20), (3, 50)):
        for mode in ("bilinear", "bicubic"):
            known = torch.nn.functional.interpolate(image, size, mode=mode, align_corners=False, antialias=True)
            result = floats.resized(image, size, mode, True)
            form = floats.rounding() if mode == "bilinear" else floats.cubic_rounding()
            assert form is None or floats.is_same(result, known)
print(torch.backends.cpu.get_cpu_capability(), floats.rounding(), floats.cubic_rounding())
"""


@pytest.mark.needs_core
@pytest.mark.parametrize("capability", ["default", "avx2", "avx512"])
def test_each_of_torchs_instruction_sets(capability: str) -> None:
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    done = subprocess.run(
        [sys.executable, "-c", EACH], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
