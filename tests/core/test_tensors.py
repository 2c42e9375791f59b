"""The core's operations with torch's arithmetic, in jobs and in every instruction set, against torchvision's v2."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import module

import fastpipe
from fastpipe import core
from fastpipe.core import Filter, Kind, PassOrder, TensorRounding
from fastpipe.ops import before_tensor
from fastpipe.tensor_kernels import v2_tensors
from fastpipe.types import ImageShape

F = module("torchvision.transforms.v2.functional")
v2 = importlib.import_module("fastpipe.transforms.v2")  # which imports torchvision
SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
SIDES = st.integers(1, 90) | st.sampled_from((1, 2, 224, 300))
Add = Callable[[core.Job], None]


@st.composite
def images(draw: st.DrawFn) -> torch.Tensor:
    """``(N, 1 or 3, H, W)``: of noise, of few values, or black and white."""
    shape = draw(st.integers(1, 3)), draw(st.sampled_from((1, 3, 3))), draw(SIDES), draw(SIDES)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    low = draw(st.integers(0, 255))
    image = torch.randint(low, draw(st.integers(low + 1, 256)), shape, dtype=torch.uint8, generator=generator)
    return torch.where(image > image.float().mean(), 255, 0).to(torch.uint8) if draw(st.booleans()) else image


def run(context: core.Context, batch: torch.Tensor, add: Add, size: tuple[int, ...], channels: int) -> torch.Tensor:
    """The job on each image of a batch, planes in and planes out, in one call; and on the first one, in rows."""
    job = core.Job()
    job.read_pixels(batch[0].numpy().transpose(1, 2, 0))
    add(job)
    out = torch.full((len(batch), channels, *size), 77, dtype=torch.uint8)
    job.write_tensor(out[0])
    assert context.run_series(job, len(batch), batch.stride(0), out.stride(0)) == core.Status.OK
    rows = np.ascontiguousarray(batch[0].numpy().transpose(1, 2, 0))
    job.read_pixels(rows)
    made = np.empty((*size, channels), np.uint8)
    job.write_array(made)
    assert context.run(job) == core.Status.OK
    assert np.array_equal(made, out[0].numpy().transpose(1, 2, 0))
    return out


@pytest.fixture
def flags() -> int:
    if not core.available():
        pytest.skip(core.why_not())
    found = v2_tensors.fused()
    assert found is not None
    return found


@SETTINGS
@given(images(), SIDES, SIDES, st.sampled_from(("bilinear", "bicubic")), st.integers(0, 10**6))
def test_resize(context: core.Context, batch: torch.Tensor, height: int, width: int, mode: str, seed: int) -> None:
    """Whole, and a window of it."""
    if not v2_tensors.resizes_natively(mode) or (height, width) == batch.shape[-2:]:
        return
    try:
        known = torch.stack([F.resize(image, [height, width], F.InterpolationMode(mode)) for image in batch])
    except RuntimeError:  # torch's own assertion: a batch of one column
        return
    torch_passes, filter = PassOrder.TORCH_PASSES, Filter[mode.upper()]

    def whole(job: core.Job) -> None:
        job.resize(None, (0, 0), (height, width), (0, 0, height, width), filter, torch_passes)

    assert torch.equal(run(context, batch, whole, (height, width), batch.shape[1]), known)
    rng = np.random.default_rng(seed)
    top, left = int(rng.integers(0, height)), int(rng.integers(0, width))
    rows, columns = int(rng.integers(1, height - top + 1)), int(rng.integers(1, width - left + 1))

    def window(job: core.Job) -> None:
        job.resize(batch.shape[-2:], (0, 0), (height, width), (top, left, rows, columns), filter, torch_passes)

    made = run(context, batch, window, (rows, columns), batch.shape[1])
    assert torch.equal(made, known[..., top : top + rows, left : left + columns])


BLENDS = {
    "adjust_contrast": Kind.TENSOR_CONTRAST,
    "adjust_saturation": Kind.TENSOR_SATURATION,
    "adjust_sharpness": Kind.TENSOR_SHARPNESS,
}


@pytest.mark.parametrize("name", BLENDS)
def test_blends(context: core.Context, flags: int, name: str) -> None:
    @SETTINGS
    @given(images(), st.floats(0, 4) | st.sampled_from((0.0, 1.0, 1e30)))
    def check(batch: torch.Tensor, factor: float) -> None:
        def add(job: core.Job) -> None:
            job.tensor_blend(BLENDS[name], factor, flags)

        if name == "adjust_contrast" and batch.shape[-1] * batch.shape[-2] > 65_000:
            batch = batch[..., :200, :200]
        assume(name != "adjust_contrast" or not is_left_to_torch(context, batch, factor, flags))
        assert torch.equal(run(context, batch, add, batch.shape[-2:], batch.shape[1]), getattr(F, name)(batch, factor))

    check()


def is_left_to_torch(context: core.Context, batch: torch.Tensor, factor: float, flags: int) -> bool:
    """Whether the core leaves a contrast to torch: some value becomes another byte where a product is rounded first.

    torch's loop over a tensor and one number, the image's mean, rounds it in some of a part's last elements.
    """
    by, rest = np.float32(factor), np.float32(1 - factor)
    found = []
    for image in batch:
        scaled, mean = np.arange(256, dtype=np.float32) * by, gray_mean(image)
        exact = scaled.astype(np.float64) + np.float64(mean) * np.float64(rest)  # of float32: hardly ever rounded
        both = exact.astype(np.float32), scaled + mean * rest
        bytes_ = [np.clip(np.trunc(one), 0, 255) for one in both]
        found.append(bool(flags & TensorRounding.FUSED) and not np.array_equal(*bytes_))
    job, out = core.Job(), np.empty((*batch.shape[-2:], batch.shape[1]), np.uint8)
    job.tensor_blend(Kind.TENSOR_CONTRAST, factor, flags)
    job.write_array(out)
    for image, unsure in zip(batch, found, strict=True):
        job.read_pixels(np.ascontiguousarray(image.numpy().transpose(1, 2, 0)))
        assert context.run(job) == (core.Status.UNSURE if unsure else core.Status.OK)
    return any(found)


def gray_mean(image: torch.Tensor) -> np.float32:
    gray = F.rgb_to_grayscale(image) if len(image) == 3 else image
    return np.float32(gray.sum().item()) / np.float32(gray.numel())


TWO_WAYS = torch.tensor([[[223, 228]], [[204, 214]], [[223, 204]]], dtype=torch.uint8), 0.4730145642028517
"""An image and a contrast: 214 becomes 214 where a product is rounded before it is added, 213.99998 where it isn't."""


class TestWhatTorchRoundsInTwoWays:
    def test_is_left_to_torch(self, context: core.Context, flags: int) -> None:
        image, factor = TWO_WAYS
        if flags & TensorRounding.FUSED:
            assert is_left_to_torch(context, image[None], factor, flags)

    @pytest.mark.parametrize("width", range(150, 166))
    @pytest.mark.needs_core
    def test_large_images_are_torchs(self, width: int) -> None:
        """Images with more gray values than float32 adds up without rounding."""
        image = torch.tensor([215, 215, 214], dtype=torch.uint8).view(3, 1, 1).repeat(1, 290, 2 * width)  # gray: 214
        for factor in (TWO_WAYS[1], *np.linspace(0.05, 3, 40).tolist()):
            assert torch.equal(v2.functional.adjust_contrast(image, factor), F.adjust_contrast(image, factor))

    @pytest.mark.parametrize("width", range(1, 40))
    @pytest.mark.needs_core
    def test_is_torchs(self, width: int) -> None:
        """In a function and a class, in a Compose on PIL images and files, alone and in a batch."""
        image, factor = TWO_WAYS
        image = image.repeat(1, 1, width)
        expected = F.adjust_contrast(image, factor)
        assert torch.equal(v2.functional.adjust_contrast(image, factor), expected)
        assert torch.equal(v2.ColorJitter(contrast=(factor, factor))(image), expected)

        def compose(library: Any) -> Any:
            return library.Compose([library.ToImage(), library.ColorJitter(contrast=(factor, factor))])

        picture = Image.fromarray(image.numpy().transpose(1, 2, 0).copy())
        expected, ours = compose(module("torchvision.transforms.v2"))(picture), compose(v2)
        for _ in range(3):  # what is kept from one image to the next
            assert torch.equal(ours(picture), expected)
        encoded = io.BytesIO()
        picture.save(encoded, "PNG")
        for count in (1, 3):
            made = fastpipe.load_batch([encoded.getvalue()] * count, ours)
            assert all(torch.equal(one, expected) for one in made)


@SETTINGS
@given(images(), st.floats(-0.5, 0.5), st.sampled_from((1, 3)))
def test_colors(context: core.Context, flags: int, batch: torch.Tensor, by: float, channels: int) -> None:
    size, own = batch.shape[-2:], batch.shape[1]
    assert torch.equal(run(context, batch, lambda job: job.tensor_hue(by), size, own), F.adjust_hue(batch, by))
    made = run(context, batch, lambda job: job.tensor_autocontrast(0), size, own)
    assert torch.equal(made, F.autocontrast(batch))
    assert torch.equal(run(context, batch, lambda job: job.equalize(), size, own), F.equalize(batch))
    gray = run(context, batch, lambda job: job.tensor_gray(channels, flags), size, channels)
    assert torch.equal(gray, F.rgb_to_grayscale(batch, channels))


def test_the_gray_of_every_color(context: core.Context, flags: int) -> None:
    values = torch.arange(256, dtype=torch.uint8)
    for red in range(0, 256, 51):
        batch = torch.cartesian_prod(values[red : red + 5], values, values).T.reshape(1, 3, -1, 256).contiguous()
        made = run(context, batch, lambda job: job.tensor_gray(1, flags), batch.shape[-2:], 1)
        assert torch.equal(made, F.rgb_to_grayscale(batch))


AFFINES = st.fixed_dictionaries(
    {
        "angle": st.floats(-180, 180),
        "translate": st.lists(st.integers(-60, 60), min_size=2, max_size=2),
        "scale": st.floats(0.2, 5),
        "shear": st.lists(st.floats(-60, 60), min_size=2, max_size=2),
        "interpolation": st.sampled_from((F.InterpolationMode.NEAREST, F.InterpolationMode.BILINEAR)),
        "fill": st.none() | st.sampled_from(([3.0, 77.25, 255.0], [0.0, 0.0, 0.0])),
    }
)


@SETTINGS
@given(images(), AFFINES)
def test_affine(context: core.Context, flags: int, batch: torch.Tensor, arguments: dict[str, Any]) -> None:
    if batch.shape[1] == 1 and arguments["fill"] is not None:
        arguments["fill"] = arguments["fill"][:1]
    step, shape = before_tensor.OnPixels("affine", arguments), ImageShape(*batch.shape[-2:], batch.shape[1])
    if not step.to_core(core.Job(), shape):  # this torch samples otherwise, or the core without FMA
        return

    def add(job: core.Job) -> None:
        assert step.to_core(job, shape)

    known = F.affine(batch, **arguments)
    assert torch.equal(run(context, batch, add, batch.shape[-2:], batch.shape[1]), known)


@pytest.mark.needs_core
def test_wrong_arguments_are_refused() -> None:
    image, out = np.zeros((40, 30, 3), np.uint8), np.zeros((40, 30, 3), np.uint8)

    def status(add: Add) -> int:
        job = core.Job()
        job.read_pixels(image)
        add(job)
        job.write_array(out)
        return core.run(job)

    nan, refused = float("nan"), core.Status.BAD_OPERATION
    theta = [0.1, 0.0, 0.0, 0.1, 0.0, 0.0]
    calls: list[Add] = [
        lambda job: job.tensor_gray(2, 0),
        lambda job: job.tensor_gray(3, 8),
        lambda job: job.tensor_blend(Kind.TENSOR_SATURATION, nan, 0),
        lambda job: job.tensor_blend(Kind.TENSOR_SHARPNESS, 1e39, 0),
        lambda job: job.tensor_blend(Kind.TENSOR_CONTRAST, 1.0, 4),
        lambda job: job.tensor_hue(0.6),
        lambda job: job.tensor_hue(nan),
        lambda job: job.tensor_autocontrast(16),
        lambda job: job.tensor_sample((0, 4), theta, Filter.NEAREST, None, 0),
        lambda job: job.tensor_sample((4, 4), [nan, *theta[1:]], Filter.NEAREST, None, 0),
        lambda job: job.tensor_sample((4, 4), theta, Filter.BICUBIC, None, 0),
        lambda job: job.tensor_sample((4, 4), theta, Filter.NEAREST, [0.0, 256.0, 0.0], 0),
        lambda job: job.resize(None, (0, 0), (9, 9), (0, 0, 9, 9), Filter.LANCZOS, PassOrder.TORCH_PASSES),
        lambda job: job.resize(
            (40, 30), (0, 0), (9, 9), (0, 0, 9, 9), Filter.BILINEAR, PassOrder.TORCH_PASSES, (0.5, 0.0, 30.0, 40.0)
        ),
    ]
    for add in calls:
        assert status(add) == refused
    assert status(lambda job: job.tensor_sample((1 << 22, 4), theta, Filter.NEAREST, None, 0)) == core.Status.TOO_LARGE
    white = np.full((700, 500, 3), 255, np.uint8)
    job, made = core.Job(), np.empty_like(white)
    job.read_pixels(white)
    job.tensor_blend(Kind.TENSOR_CONTRAST, 0.5, 0)
    job.write_array(made)
    assert core.run(job) == refused  # the sum of its gray values is above 2**24
