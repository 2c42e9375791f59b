"""Changes of colour and warps, against Pillow's own, in every instruction set."""

from __future__ import annotations

import math
from typing import Any

import core_jobs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from fastpipe import core
from fastpipe.core import Filter, Kind, Status

ENHANCERS: dict[Kind, Any] = {
    Kind.SATURATION: ImageEnhance.Color,
    Kind.CONTRAST: ImageEnhance.Contrast,
    Kind.SHARPNESS: ImageEnhance.Sharpness,
}
RESAMPLING = {
    Filter.NEAREST: Image.Resampling.NEAREST,
    Filter.BILINEAR: Image.Resampling.BILINEAR,
    Filter.BICUBIC: Image.Resampling.BICUBIC,
}
SIDES = st.integers(1, 40)
FACTORS = st.one_of(st.floats(0, 3), st.floats(-3e38, 3e38), st.integers(-16, 40).map(lambda n: n / 8))


@st.composite
def images(draw: st.DrawFn, channels: tuple[int, ...] = (1, 3)) -> np.ndarray:
    """Noise, a narrow range of it, a few levels, or one color."""
    shape = draw(SIDES), draw(SIDES), draw(st.sampled_from(channels))
    image = np.random.default_rng(draw(st.integers(0, 999))).integers(0, 256, shape, np.uint8)
    kind = draw(st.integers(0, 3))
    if kind == 1:
        return (image // draw(st.integers(1, 60)) + draw(st.integers(0, 90)) % 200).astype(np.uint8)
    if kind == 2:
        return (image // 64 * draw(st.integers(1, 63))).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(image[:1, :1], shape)) if kind == 3 else image


def as_picture(image: np.ndarray) -> Image.Image:
    return Image.fromarray(image if image.shape[2] == 3 else image[..., 0])


def check(image: np.ndarray, expected: Image.Image, *operations: tuple[Any, ...]) -> None:
    if not core.available():
        pytest.skip(core.why_not())
    reference = np.asarray(expected).reshape(expected.height, expected.width, -1)
    for isa in core_jobs.isas():
        got = core_jobs.pixels(core.Context(isa), image, reference.shape, *operations)
        np.testing.assert_array_equal(got, reference, err_msg=f"{isa.name} {operations}")


@given(images(), st.sampled_from(list(ENHANCERS)), FACTORS)
@settings(max_examples=7 * settings.default.max_examples)
def test_blends(image: np.ndarray, kind: Kind, factor: float) -> None:
    check(image, ENHANCERS[kind](as_picture(image)).enhance(factor), ("blend", kind, factor))


@given(images())
def test_stretched_and_evened(image: np.ndarray) -> None:
    picture = as_picture(image)
    check(image, ImageOps.autocontrast(picture), ("autocontrast",))
    check(image, ImageOps.equalize(picture), ("equalize",))


@given(images(), st.integers(0, 999))
def test_tables(image: np.ndarray, seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, 256, 256, np.uint8)
    channels = image.shape[2]
    check(image, as_picture(image).point(table.tolist() * channels), ("look_up", table.tobytes() * channels))


@given(images(), st.permutations(range(3)))
def test_channels_in_another_order(image: np.ndarray, order: list[int]) -> None:
    channels = as_picture(image).split()
    expected = Image.merge("RGB", [channels[c] for c in order]) if len(channels) == 3 else channels[0]
    check(image, expected, ("permute", order))


def turned(picture: Image.Image, shift: int) -> Image.Image:
    hue, saturation, value = picture.convert("HSV").split()
    hue = Image.fromarray(np.asarray(hue) + np.uint8(shift))
    return Image.merge("HSV", (hue, saturation, value)).convert("RGB")


@given(images((3,)), st.integers(0, 255))
def test_hue(image: np.ndarray, shift: int) -> None:
    check(image, turned(as_picture(image), shift), ("turn_hue", shift))


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0, 77, 255])
def test_the_hue_of_every_color(shift: int) -> None:
    values = np.arange(1 << 24, dtype=np.uint32)[:: 3 if shift else 1]
    colors = np.stack([values >> 16, values >> 8 & 255, values & 255], -1).astype(np.uint8)
    image = colors[: len(colors) // 256 * 256].reshape(256, -1, 3)
    check(image, turned(Image.fromarray(image), shift), ("turn_hue", shift))


def test_every_hue_of_every_saturation_and_value() -> None:
    """One color for each saturation and value that Pillow's HSV has, turned all the way around."""
    value, least = np.meshgrid(np.arange(256), np.arange(256), indexing="ij")
    image = np.stack([value, np.minimum(least, value), np.minimum(least, value)], -1).astype(np.uint8)
    for shift in range(256):
        check(image, turned(Image.fromarray(image), shift), ("turn_hue", shift))


EIGHTHS = st.integers(-24, 24).map(lambda n: n / 8)


@st.composite
def coefficients(draw: st.DrawFn) -> list[float]:
    """Six: shifts, scales, turns, shears, coarse numbers whose points lie between pixels, and large ones."""
    kind = draw(st.integers(0, 5))
    shifts = draw(st.floats(-50, 50)), draw(st.floats(-50, 50))
    if kind == 0:
        return [1.0, 0.0, float(round(shifts[0])), 0.0, 1.0, float(round(shifts[1]))]
    if kind == 1:
        return [draw(st.floats(-2, 2)), 0.0, shifts[0], 0.0, draw(st.floats(-2, 2)), shifts[1]]
    if kind == 2:
        return [draw(EIGHTHS) for _ in range(6)]
    if kind == 3:
        angle = draw(st.floats(0, 7))
        return [math.cos(angle), math.sin(angle), shifts[0], -math.sin(angle), math.cos(angle), shifts[1]]
    if kind == 4:
        return [draw(st.floats(-3, 3)) * 10.0 ** draw(st.integers(0, 6)) for _ in range(6)]
    return [draw(st.floats(-1e12, 1e12)) for _ in range(6)]


@given(
    images(), coefficients(), st.tuples(SIDES, SIDES), st.sampled_from(list(RESAMPLING)), st.integers(0, 255), st.data()
)
@settings(max_examples=7 * settings.default.max_examples)
def test_warps(
    image: np.ndarray, numbers: list[float], size: tuple[int, int], filter: Filter, level: int, data: Any
) -> None:
    fill = (level, 7, 255 - level)
    color: Any = fill if image.shape[2] == 3 else level
    kind, method = Kind.AFFINE, Image.Transform.AFFINE
    if data.draw(st.booleans()):
        kind, method = Kind.PERSPECTIVE, Image.Transform.PERSPECTIVE
        bend = st.one_of(st.floats(-0.05, 0.05), EIGHTHS)
        numbers = [*numbers, data.draw(bend), data.draw(bend)]
    expected = as_picture(image).transform(size[::-1], method, numbers, RESAMPLING[filter], fillcolor=color)
    check(image, expected, ("warp", kind, size, numbers, filter, fill))


def test_points_that_are_no_numbers() -> None:
    """0 / 0: Pillow's comparisons let them pass, and its conversions make 0 of them."""
    image = np.full((6, 5, 3), 200, np.uint8)
    numbers = [1.0, 0.0, -1.5, 1.0, 0.0, -1.5, -2 / 3, 0.0]
    for filter, resampling in RESAMPLING.items():
        expected = Image.fromarray(image).transform(
            (5, 6), Image.Transform.PERSPECTIVE, numbers, resampling, fillcolor=(9, 9, 9)
        )
        check(image, expected, ("warp", Kind.PERSPECTIVE, (6, 5), numbers, filter, (9, 9, 9)))


def test_chains(context: core.Context) -> None:
    """Stages that hold the image, and such that don't, in turn."""
    image = np.random.default_rng(0).integers(0, 200, (31, 45, 3), np.uint8)
    picture = ImageOps.equalize(ImageEnhance.Contrast(Image.fromarray(image)).enhance(1.3))
    picture = picture.transform((40, 30), Image.Transform.AFFINE, [0.9, 0.1, 2, -0.1, 1.1, -3], 2, fillcolor=(1, 2, 3))
    picture = ImageEnhance.Sharpness(ImageOps.autocontrast(picture)).enhance(1.7)
    picture = ImageOps.mirror(turned(ImageEnhance.Color(picture).enhance(0.4), 200)).crop((3, 4, 33, 26))
    got = core_jobs.pixels(
        context,
        image,
        (22, 30, 3),
        ("blend", Kind.CONTRAST, 1.3),
        ("equalize",),
        ("warp", Kind.AFFINE, (30, 40), [0.9, 0.1, 2, -0.1, 1.1, -3], Filter.BILINEAR, (1, 2, 3)),
        ("autocontrast",),
        ("blend", Kind.SHARPNESS, 1.7),
        ("blend", Kind.SATURATION, 0.4),
        ("turn_hue", 200),
        ("flip",),
        ("crop", 4, 3, 22, 30),
    )
    np.testing.assert_array_equal(got, np.asarray(picture))


NAN, INFINITY = float("nan"), float("inf")
UNIT = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "operation",
    [
        *(("blend", kind, factor) for kind in ENHANCERS for factor in (NAN, INFINITY, -INFINITY, 1e39)),
        *(("permute", order) for order in ((0, 1, 1), (0, 1, 3), (-1, 1, 2), (2, 2, 2))),
        *(("turn_hue", shift) for shift in (-1, 256, 2**31 - 1)),
        *(("warp", Kind.AFFINE, (20, 30), [*UNIT[:k], NAN, *UNIT[k + 1 :]]) for k in range(6)),
        ("warp", Kind.AFFINE, (20, 30), [INFINITY, *UNIT[1:]]),
        ("warp", Kind.PERSPECTIVE, (20, 30), [*UNIT, 0.0, NAN]),
        ("warp", Kind.PERSPECTIVE, (20, 30), [*UNIT, -INFINITY, 0.0]),
        ("warp", Kind.AFFINE, (0, 30), UNIT),
        ("warp", Kind.AFFINE, (20, -1), UNIT),
        ("warp", Kind.AFFINE, (2**31 - 1, 2**31 - 1), UNIT),
        ("warp", Kind.AFFINE, (20, 30), UNIT, Filter.LANCZOS),
        ("warp", Kind.AFFINE, (20, 30), UNIT, -1),
        ("warp", Kind.AFFINE, (20, 30), UNIT, Filter.NEAREST, (256, 0, 0)),
        ("warp", Kind.AFFINE, (20, 30), UNIT, Filter.NEAREST, (0, 0, -1)),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(context: core.Context, operation: tuple[Any, ...]) -> None:
    job = core.Job()
    job.read_pixels(np.zeros((20, 30, 3), np.uint8))
    getattr(job, operation[0])(*operation[1:])
    job.write_array(np.empty((20, 30, 3), np.uint8))
    assert context.run(job) == Status.BAD_OPERATION
