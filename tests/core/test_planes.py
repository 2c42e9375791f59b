"""The core's operations on planes of bytes, in every instruction set, against torch's own; and what they touch."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastpipe import core
from fastpipe.core import Kind, planes
from fastpipe.tensor_kernels.planes import rounding as form_of_torch

SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
SIDES = st.integers(1, 70)
CHANNELS = st.sampled_from((1, 3))


def guarded(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory, and bytes in its middle that begin at an odd one."""
    memory = torch.full((count + 130,), 0xA5, dtype=torch.uint8)
    return memory, memory[65 : 65 + count]


def untouched(memory: torch.Tensor) -> bool:
    return bool((memory[:65] == 0xA5).all() and (memory[-65:] == 0xA5).all())


def points(height: int, width: int, seed: int) -> torch.Tensor:
    """A grid ``(1, height, width, 2)``: pixels, edges between them, all between and around them, and far away."""
    generator = torch.Generator().manual_seed(seed)
    grid = torch.rand((1, height, width, 2), generator=generator) * 3 - 1.5
    flat = grid.view(-1)
    steps = torch.randint(1, 90, flat[::3].shape, generator=generator)
    flat[::3] = (flat[::3] * steps).round() / steps
    for start, value in enumerate((1.0, -1.0, 1e30, -1e30, 3e9, -1e12, 1e-40, float("inf"))):
        flat[start::97] = value
    return grid


@SETTINGS
@given(CHANNELS, SIDES, SIDES, SIDES, st.integers(1, 400), st.booleans(), st.integers(0, 10**6))
def test_any_grid_is_sampled_as_torch_does_it(
    context: core.Context, channels: int, height: int, width: int, rows: int, columns: int, bilinear: bool, seed: int
) -> None:
    """In floats, so that every rounding shows. What isn't finite is outside, where torch's bilinear has no number."""
    rounding = form_of_torch()
    if rounding is None:
        pytest.skip("this torch samples otherwise")
    image = torch.randint(0, 256, (channels, height, width), dtype=torch.uint8)
    grid = points(rows, columns, seed)
    mode = "bilinear" if bilinear else "nearest"
    known = torch.nn.functional.grid_sample(image[None].float(), grid, mode=mode, align_corners=False)[0]
    known = torch.where(known.isnan(), 0.0, known)
    shape, flags = (1, channels, height, width, rows, columns), rounding | (planes.BILINEAR if bilinear else 0)
    floats = torch.empty((channels, rows, columns))
    arguments = None, None, grid.data_ptr()
    assert planes.grid_sample_planes(
        context, image.data_ptr(), shape, floats.data_ptr(), flags | planes.FLOATS, *arguments
    )
    assert torch.equal(floats, known)
    memory, out = guarded(floats.numel())
    assert planes.grid_sample_planes(context, image.data_ptr(), shape, out.data_ptr(), flags, *arguments)
    assert torch.equal(out.view_as(floats), known.round().to(torch.uint8))
    assert untouched(memory)


def test_what_is_no_image_or_no_operation_is_refused(context: core.Context) -> None:
    image = torch.zeros(3 * 64, dtype=torch.uint8)
    at, theta = image.data_ptr(), torch.zeros(6).data_ptr()
    for shape in ((2, 4, 4, 4, 4), (0, 4, 4, 4, 4), (3, 0, 4, 4, 4), (3, 4, -1, 4, 4), (3, 4, 4, -1, 4)):
        shape = (1, *shape)
        assert not planes.grid_sample_planes(context, at, shape, at, 0, None, theta)
    assert not planes.grid_sample_planes(context, at, (1, 3, 2**16, 2**15, 1, 1), at, 0, None, theta)
    assert not planes.grid_sample_planes(context, at, (1, 3, 4, 4, 2**22, 1), at, 0, None, theta)
    assert not planes.grid_sample_planes(context, at, (1, 3, 4, 4, 4, 4), at, 0, None)
    for kind, shape in (
        (Kind.TENSOR_GRAY, (1, 4, 4)),
        (Kind.TENSOR_SATURATION, (1, 4, 4)),
        (Kind.TENSOR_SHARPNESS, (3, 4, 4)),
        (Kind.EQUALIZE, (2, 4, 4)),
        (Kind.EQUALIZE, (3, 0, 4)),
        (Kind.HUE, (3, 4, 4)),
    ):
        assert not planes.change_planes(context, kind, at, (1, *shape), at, 0.7)
    for weights in ((0.5, 0.6), (-0.1, 0.5), (float("nan"), 0.5), (1.5, 0.0), ()):
        assert not planes.mix_planes(context, [at] * len(weights), weights, 8, at)


@SETTINGS
@given(count=st.integers(0, 300), images=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_mixing(context: core.Context, count: int, images: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    given_images = [torch.from_numpy(rng.integers(0, 256, count, np.uint8)) for _ in range(images)]
    weights = torch.from_numpy(rng.dirichlet(np.full(images, 0.7)).astype(np.float32))
    known = weights[0] * given_images[0]
    for weight, image in zip(weights[1:], given_images[1:], strict=True):
        known.add_(weight * image)
    memory, out = guarded(count)
    addresses = [image.data_ptr() for image in given_images]
    assert planes.mix_planes(context, addresses, weights.tolist(), count, out.data_ptr())
    assert torch.equal(out, known.to(torch.uint8))
    assert untouched(memory)


def test_nothing_around_the_result_is_written(context: core.Context) -> None:
    for channels, height, width in ((1, 1, 1), (3, 3, 3), (3, 7, 45), (1, 40, 33)):
        image = torch.randint(0, 256, (channels, height, width), dtype=torch.uint8)
        for kind in (Kind.TENSOR_GRAY, Kind.TENSOR_SATURATION, Kind.TENSOR_AUTOCONTRAST):
            memory, out = guarded(image.numel() if kind is not Kind.TENSOR_GRAY else height * width)
            planes.change_planes(context, kind, image.data_ptr(), (1, *image.shape), out.data_ptr(), 1.7)
            assert untouched(memory)


EACH = """
import torch
from fastpipe.tensor_kernels import planes
from fastpipe.transforms import functional as F
image = torch.randint(0, 256, (3, 131, 97), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))
calls = [lambda: F.affine(image, 7.0, [3, -4], 1.1, [4.0, -9.0], F.InterpolationMode.BILINEAR, fill)
         for fill in (None, [0.0], [3.0, 77.0, 255.0])]
calls += [lambda: F.rotate(image, angle, F.InterpolationMode.BILINEAR, expand=True) for angle in (11.0, 90.0, -33.3)]
made = [call() for call in calls]
planes.sampled = lambda *args, **kwargs: None
assert all(torch.equal(one, call()) for one, call in zip(made, calls))
print(torch.backends.cpu.get_cpu_capability(), planes.rounding())
"""


@pytest.mark.needs_core
@pytest.mark.parametrize("capability", ["default", "avx2", "avx512"])
def test_each_of_torchs_instruction_sets(capability: str) -> None:
    """Its loops round otherwise with FMA and without."""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    done = subprocess.run(
        [sys.executable, "-c", EACH], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
