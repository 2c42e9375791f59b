"""Pillow's blurs, in the core and as operations, and its look-ups: Pillow's bytes."""

from __future__ import annotations

from typing import Any

import core_jobs
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter, ImageOps

from fastpipe import core
from fastpipe.core import Kind, Status
from fastpipe.ops import Operation, PillowBoxBlur, PillowGaussianBlur
from fastpipe.types import Box, ImageShape

FILTERS: dict[Kind, Any] = {Kind.BOX_BLUR: ImageFilter.BoxBlur, Kind.GAUSSIAN_BLUR: ImageFilter.GaussianBlur}
BLURS = [PillowBoxBlur, PillowGaussianBlur]
RADII = st.one_of(st.sampled_from([0, 0.1, 0.5, 1, 2, 50, 62.9, 63, 63.5, 64]), st.floats(0, 50), st.floats(0, 3))


def picture(height: int, width: int, channels: int, seed: int) -> Image.Image:
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (height, width, channels), np.uint8)
    image[rng.random((height, width)) < 0.3] = 255
    return Image.fromarray(image if channels == 3 else image[..., 0])


def run(context: core.Context, image: Image.Image, operation: Operation) -> Image.Image:
    channels = len(image.getbands())
    new = core.new_image(image.height, image.width, channels)
    assert new is not None
    job = core.Job()
    memory = core.memory_of(image)
    if memory is None:  # before version 13 Pillow doesn't show an array's
        job.read_pixels(np.asarray(image))
    else:
        job.read_image(memory)
    assert operation.to_core(job, ImageShape(image.height, image.width, channels))
    job.write_image(new[1])
    assert context.run(job) == Status.OK
    return new[0]


def all_bytes(image: Image.Image) -> bytes:
    return image.tobytes("raw", "RGBX" if image.mode == "RGB" else "L")


@pytest.mark.needs_core
@given(
    st.integers(1, 300),
    st.integers(1, 200),
    st.sampled_from([1, 3]),
    RADII,
    RADII,
    st.booleans(),
    st.sampled_from(BLURS),
)
@example(200, 300, 3, 50.0, 0.1, False, PillowGaussianBlur)
@example(1, 1, 3, 1000.0, 1000.0, True, PillowBoxBlur)
@example(33, 17, 1, 70.0, 70.0, True, PillowBoxBlur)
@settings(max_examples=3 * settings.default.max_examples, deadline=None)
def test_blurs(width: int, height: int, channels: int, x: float, y: float, same: bool, kind: Any) -> None:
    image = picture(height, width, channels, width)
    operation = kind(x if same else (x, y))
    expected = image.filter(FILTERS[kind.kind](operation.radius))
    assert all_bytes(operation.apply(image)) == all_bytes(expected)
    for isa in core_jobs.isas():
        made = run(core.Context(isa), image, operation)
        assert all_bytes(made) == all_bytes(expected), (isa.name, operation)


@pytest.mark.parametrize("kind", BLURS)
def test_the_fourth_byte_is_blurred_too(context: core.Context, kind: Any) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 31, 4), np.uint8)
    image = Image.frombytes("RGB", (31, 20), pixels.tobytes(), "raw", "RGBX")
    operation = kind((1.5, 2))
    assert all_bytes(run(context, image, operation)) == all_bytes(operation.apply(image))


@pytest.mark.parametrize("kind", BLURS)
@pytest.mark.parametrize("radius", [0, 0.6, (1, 3.2), 4])
def test_a_region_needs_its_neighbourhood_alone(kind: Any, radius: Any) -> None:
    array = np.asarray(picture(71, 93, 3, 0))
    operation, shape = kind(radius), ImageShape(71, 93)
    whole = operation.apply(array)
    for region in (Box(0, 0, 71, 93), Box(30, 40, 10, 12), Box(0, 80, 5, 13), Box(60, 0, 11, 1)):
        needed, steps = operation.required_region(region, shape)
        assert needed.inside(shape.size)
        made = array[needed.top : needed.bottom, needed.left : needed.right]
        for step in steps:
            made = step.apply(made)
        part = whole[region.top : region.bottom, region.left : region.right]
        np.testing.assert_array_equal(made, part)


def test_what_the_core_leaves_to_pillow() -> None:
    shape = ImageShape(20, 30)
    for radius in (-1, float("nan"), float("inf"), 1e9, (1, 2, 3), "1", (1,)):
        for kind in BLURS:
            assert not kind(radius).to_core(core.Job(), shape)
            assert kind(radius).required_region(Box(0, 0, 2, 2), shape) is None
    with pytest.raises(ValueError, match="radius must be >= 0"):
        PillowBoxBlur(-1).apply(picture(3, 4, 3, 0))


def test_radii_that_are_none_are_refused(context: core.Context) -> None:
    for radius in (-1.0, float("nan"), float("inf"), 2.0**20 + 1):
        for pair in ((radius, 0.0), (0.0, radius)):
            job = core.Job()
            job.read_pixels(np.zeros((3, 4, 3), np.uint8))
            job.blur(Kind.BOX_BLUR, *pair)
            job.write_array(np.zeros((3, 4, 3), np.uint8))
            assert context.run(job) == Status.BAD_OPERATION


@pytest.mark.parametrize("channels", [1, 3])
def test_point(context: core.Context, channels: int) -> None:
    image = picture(21, 33, channels, 0)
    noise = np.random.default_rng(1).integers(0, 256, 256 * channels, np.uint8).tobytes()
    solarized = bytes(level if level < 128 else 255 - level for level in range(256)) * channels
    for tables, expected in ((noise, image.point(list(noise))), (solarized, ImageOps.solarize(image))):
        job = core.Job()
        job.read_pixels(np.asarray(image))
        job.look_up(tables)
        new = core.new_image(21, 33, channels)
        assert new is not None
        job.write_image(new[1])
        assert context.run(job) == Status.OK
        assert all_bytes(new[0]) == all_bytes(expected)


def test_words() -> None:
    assert PillowGaussianBlur(1.5).words() == "blurred by Pillow, Gaussian, radius 1.5"
    assert str(PillowBoxBlur((1, 2))) == "pillow_box_blur(radius=(1, 2))"
    assert PillowGaussianBlur(2).on_mask() is None
