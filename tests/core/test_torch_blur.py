"""torchvision's Gaussian blur in the core and on images: the bytes of torch's convolution, in all instruction sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import torchvision

from fastpipe import core
from fastpipe.core import Status
from fastpipe.tensor_kernels import filters
from fastpipe.transforms import functional as F

R = torchvision.transforms.functional
KERNELS = st.sampled_from([1, 3, 5, 7, 9, 23])
SIGMAS = st.one_of(st.sampled_from([0.1, 0.5, 1.0, 2.0, 30.0]), st.floats(0.1, 3))


def pixels(height: int, width: int, channels: int, kind: str, seed: int) -> Any:
    """Noise, stripes or one colour, which differ in how often the margin alone decides."""
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (height, width, channels), np.uint8)
    if kind == "stripes":
        image[:] = (np.arange(width)[:, None] + np.arange(channels)) % 2
    elif kind == "colour":
        image[:] = image[:1, :1]
    return image


def fused(image: Any, along: Any, down: Any) -> Any:
    """The convolution in a chain of fused multiplications and additions for each value: the slow way."""
    kernel = down[:, None] * along[None]
    rows, columns = kernel.shape
    height, width, _ = image.shape
    wide = np.pad(image.astype(np.float64), [(rows // 2,) * 2, (columns // 2,) * 2, (0, 0)], mode="reflect")
    sums = np.zeros(image.shape, np.float32)
    for y in range(rows):
        for x in range(columns):
            sums = (wide[y : y + height, x : x + width] * float(kernel[y, x]) + sums).astype(np.float32)
    return np.rint(sums).astype(np.uint8)


def run(context: core.Context, image: Any, along: Any, down: Any) -> tuple[int, Any]:
    job, out = core.Job(), np.empty_like(image)
    job.read_pixels(image)
    job.torch_blur(along.tobytes(), down.tobytes())
    job.write_array(out)
    return context.run(job), out


@pytest.mark.parametrize("kind", ["noise", "stripes", "colour"])
def test_the_core_adds_in_order(context: core.Context, kind: str) -> None:
    rng = np.random.default_rng(3)
    for height, width, channels, columns, rows in (
        (1, 1, 3, 1, 1), (2, 2, 3, 3, 3), (17, 11, 3, 5, 5), (40, 67, 1, 7, 9), (30, 33, 3, 23, 23), (9, 40, 3, 1, 3),
    ):  # fmt: skip
        # such as float64 holds the sums of, before they are rounded
        along, down = (rng.uniform(0.5, 1, size).astype(np.float32) / size for size in (columns, rows))
        image = pixels(height, width, channels, kind, 7)
        status, out = run(context, image, along, down)
        assert status == Status.OK
        np.testing.assert_array_equal(out, fused(image, along, down))


def test_weights_that_are_none(context: core.Context) -> None:
    image, three = np.zeros((4, 5, 3), np.uint8), np.full(3, 1 / 3, np.float32)
    for along, down in (
        (np.full(2, 0.5), three), (three, np.zeros(0)), (np.full(11, 1 / 11), three), (three, np.full(9, 1 / 9)),
        (three * 1.1, three), (np.array([1.5, -0.5, 0]), three), (three, np.array([np.nan, 0, 0])),
    ):  # fmt: skip
        assert run(context, image, along.astype(np.float32), down.astype(np.float32))[0] == Status.BAD_OPERATION


@given(st.integers(1, 60), st.integers(1, 70), st.sampled_from([1, 3]), KERNELS, KERNELS, SIGMAS, SIGMAS, st.booleans())
@example(200, 300, 3, 23, 23, 1.7, 1.7, True)
@example(1, 1, 3, 1, 1, 0.5, 0.5, True)
@example(500, 300, 1, 5, 5, 1.1, 1.1, True)
@settings(deadline=None, max_examples=60)
def test_images_are_torchvisions(
    height: int, width: int, channels: int, columns: int, rows: int, x: float, y: float, noise: bool
) -> None:
    array = pixels(height, width, channels, "noise" if noise else "stripes", columns)
    image = Image.fromarray(array if channels == 3 else array[..., 0])
    image.info = {"dpi": (72, 72)}
    try:
        expected = R.gaussian_blur(image, [columns, rows], [x, y])
    except RuntimeError:
        for given in (image, array):
            with pytest.raises(RuntimeError):
                F.gaussian_blur(given, [columns, rows], [x, y])
        return
    made = F.gaussian_blur(image, [columns, rows], [x, y])
    mode = "RGBX" if channels == 3 else "L"
    assert made.tobytes("raw", mode) == expected.tobytes("raw", mode)
    assert (made.mode, made.size, made.info, type(made)) == (expected.mode, expected.size, {}, Image.Image)
    found = F.gaussian_blur(array, [columns, rows], [x, y])
    np.testing.assert_array_equal(found.reshape(np.asarray(expected).shape), np.asarray(expected))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of the trial, whose results aren't kept."""
    calls: list[Any] = []
    plain = filters._adds_in_order.__wrapped__
    monkeypatch.setattr(filters, "_adds_in_order", lambda *given: calls.append(given) or plain(*given))
    return calls


def test_torch_computes_where_it_adds_otherwise(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.fromarray(pixels(40, 50, 3, "noise", 1))
    expected = F.gaussian_blur(image, 5, 1.3)
    assert len(asked) == core.available()
    monkeypatch.setattr(filters, "conv2d", lambda *given, **more: torch.nextafter(
        torch.nn.functional.conv2d(*given, **more), torch.tensor(300.0)
    ))  # fmt: skip
    assert filters.blur_weights([5, 5], [1.3, 1.3], 40, 50, 3) is None
    assert F.gaussian_blur(image, 5, 1.3).tobytes() == expected.tobytes()


@pytest.mark.filterwarnings("ignore:TF32")
def test_settings_of_torchs_count(asked: list[Any]) -> None:
    image = Image.fromarray(pixels(40, 50, 3, "noise", 2))
    with torch.backends.mkldnn.flags(enabled=False):
        assert F.gaussian_blur(image, 3, 1.0).tobytes() == R.gaussian_blur(image, [3, 3], [1.0, 1.0]).tobytes()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = R.gaussian_blur(image, [3, 3], [1.0, 1.0])
        assert filters.blur_weights([3, 3], [1.0, 1.0], 40, 50, 3) is None
        assert F.gaussian_blur(image, 3, 1.0).tobytes() == expected.tobytes()
    if core.available():
        assert {given[3] for given in asked} == {False}
    assert filters.blur_weights([3, 3], [1.0, 1.0], 40, 50, 1) is None  # torch chooses by the image's size
    assert filters.blur_weights([129, 129], [1.0, 1.0], 400, 500, 3) is None
