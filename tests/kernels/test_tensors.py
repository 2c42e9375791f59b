"""Kernels on tensors against torchvision's v2, and what happens where they would give something else."""

from __future__ import annotations

import pytest
import torch
import torchvision_here

from fastpipe import core
from fastpipe.kernels import memory, tensors
from fastpipe.ops import tensors as operations

F = torchvision_here.module("torchvision.transforms.v2.functional")


def colors(step: int) -> torch.Tensor:
    values = torch.arange(0, 256, step, dtype=torch.uint8)
    return torch.cartesian_prod(values, values, values).T.reshape(3, len(values), -1).contiguous()


@pytest.mark.skipif(not core.available(), reason="the core isn't there")
@pytest.mark.parametrize("factor", [0.03, -0.05, 0.0, 0.5, -0.5, 0.123456789])
def test_hue(factor: float) -> None:
    """`benchmarks/v2.py` sees photos; here a cube of colours, and rows that are part of a larger image."""
    image = colors(5 if factor == 0.03 else 15)
    for given in (image, image[:, 3:], image[:, :1]):
        made = tensors.adjust_hue(given, factor)
        assert made is not None
        assert torch.equal(made, F.adjust_hue(given, factor))
    assert tensors.adjust_hue(image[:, :, 1:], factor) is None  # rows with something between
    assert tensors.adjust_hue(image, 0.6) is None  # torchvision says what is wrong
    assert tensors.adjust_hue(image[:1], factor) is None


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.37])
@pytest.mark.parametrize("size", [(1, 1), (70, 81), (900, 301), (3, 70_000)])
def test_contrast(factor: float, size: tuple[int, int]) -> None:
    image = torch.randint(0, 256, (3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    for given in (image, image.flip(-1), image.permute(0, 2, 1)):
        made = tensors.adjust_contrast(given, factor)
        assert made is not None
        assert torch.equal(made, F.adjust_contrast(given, factor))
    assert tensors.adjust_contrast(image, -1.0) is None


def test_a_kernel_that_gives_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    image = colors(51)
    wrong = {"adjust_hue": (lambda image, hue_factor: image.clone(), {"hue_factor": 0.1})}
    monkeypatch.setattr(tensors, "KERNELS", wrong)
    operations._kernel.cache_clear()
    try:
        operation = operations.TensorOperation("adjust_hue", {"hue_factor": 0.2}, (6, 36, 3), by_pixel=True)
        assert torch.equal(operation.apply(image), F.adjust_hue(image, 0.2))
    finally:
        operations._kernel.cache_clear()


def test_large_memory() -> None:
    for make in (memory.fresh, memory.zeros):
        for shape in ((3, 4, 5), (3, 1200, 1300)):
            for dtype in (torch.uint8, torch.float32, torch.float64):
                made = make(shape, dtype)
                assert made.shape == shape
                assert made.dtype == dtype
                assert made.is_contiguous()
                assert make is memory.fresh or not made.any()
