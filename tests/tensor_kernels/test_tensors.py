"""Kernels on tensors against torchvision's v2, and what happens where they would give something else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchvision_here

from fastpipe import core, result_memory
from fastpipe.ops import TensorOperation
from fastpipe.tensor_kernels import v2_tensors

F = torchvision_here.module("torchvision.transforms.v2.functional")


def colors(step: int) -> torch.Tensor:
    values = torch.arange(0, 256, step, dtype=torch.uint8)
    return torch.cartesian_prod(values, values, values).T.reshape(3, len(values), -1).contiguous()


@pytest.mark.needs_core
@pytest.mark.parametrize("factor", [0.03, -0.05, 0.0, 0.5, -0.5, 0.123456789])
def test_hue(factor: float) -> None:
    """A cube of colours, and rows that are part of a larger image."""
    image = colors(5 if factor == 0.03 else 15)
    for given in (image, image[:, 3:], image[:, :1], image[:, :, 1:]):
        made = v2_tensors.run("adjust_hue", given, factor)
        assert made is not None
        assert torch.equal(made, F.adjust_hue(given, factor))
    assert v2_tensors.run("adjust_hue", image, 0.6) is None  # torchvision says what is wrong
    assert v2_tensors.run("adjust_hue", image[:1], factor) is None


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.37])
@pytest.mark.parametrize("size", [(1, 1), (70, 81), (900, 301), (3, 70_000)])
def test_contrast(factor: float, size: tuple[int, int]) -> None:
    image = torch.randint(0, 256, (3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    operation = TensorOperation("adjust_contrast", {"contrast_factor": factor}, (*size, 3))
    for given in (image, image.flip(-1), image.permute(0, 2, 1)):
        assert torch.equal(operation.apply(given), F.adjust_contrast(given, factor))
    known = core.available() and v2_tensors.fused() is not None
    assert (v2_tensors.run("adjust_contrast", image, factor) is not None) == known
    assert v2_tensors.run("adjust_contrast", image, -1.0) is None


def test_a_core_that_rounds_otherwise_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2_tensors, "fused", lambda: None)
    image = torch.randint(0, 256, (3, 300, 301), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    for name in ("adjust_contrast", "adjust_saturation", "adjust_sharpness"):
        assert v2_tensors.run(name, image, 1.2) is None
        operation = TensorOperation(name, {f"{name[7:]}_factor": 1.2}, (300, 301, 3))
        assert torch.equal(operation.apply(image), getattr(F, name)(image, 1.2))


@pytest.mark.parametrize(
    ("name", "args", "given"),
    [
        ("autocontrast", (1,), {}),
        ("equalize", (), {"factor": 1}),
        ("adjust_sharpness", (), {}),
        ("adjust_saturation", (1.0,), {"saturation_factor": 1.0}),
        ("adjust_sharpness", (1.0, 1.0), {}),
        ("adjust_hue", (), {"factor": 0.1}),
        ("rgb_to_grayscale", (2,), {}),
    ],
)
def test_arguments_that_torchvision_refuses_are_left_to_it(name: str, args: tuple[Any, ...], given: Any) -> None:
    image = torch.zeros(3, 5, 6, dtype=torch.uint8)
    assert v2_tensors.run(name, image, *args, **given) is None
    with pytest.raises((TypeError, ValueError)):
        getattr(F, name)(image, *args, **given)


@pytest.mark.parametrize("shape", [(3, 3, 200_000), (1, (1 << 24) + 1, 3), (3, 2, 5), (2, 3, 7, 9)])
def test_sharpness_of_any_size(shape: tuple[int, ...]) -> None:
    """Tensors that are too large for a job of the core are left to torchvision."""
    image = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    expected = F.adjust_sharpness(image, 1.4)
    operation = TensorOperation("adjust_sharpness", {"sharpness_factor": 1.4}, (*shape[-2:], shape[-3]))
    assert torch.equal(operation.apply(image), expected)


def test_large_memory() -> None:
    for shape in ((3, 4, 5), (3, 1200, 1300)):
        for dtype in (torch.uint8, torch.float32, torch.float64):
            made = result_memory.fresh(shape, dtype)
            assert made.shape == shape
            assert made.dtype == dtype
            assert made.is_contiguous()
