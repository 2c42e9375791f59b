"""Properties for every size and parameter: equality with Pillow, views, tables that compose."""

from __future__ import annotations

import warnings
from typing import Any

import core_jobs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.warped import warped
from PIL import Image, ImageOps

from fastpipe import core, ops
from fastpipe.kernels import color, geometry
from fastpipe.program import run_operation
from fastpipe.transforms import functional as F

Array = np.ndarray[Any, np.dtype[np.uint8]]
SIDE = st.integers(1, 70)
SEED = st.integers(0, 2**32 - 1)
FILTERS = st.sampled_from(["box", "bilinear", "hamming", "bicubic", "lanczos"])


def _noise(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@given(SEED, SIDE, SIDE, SIDE, SIDE, FILTERS, st.sampled_from([1, 2, 3, 4]))
def test_antialiased_resize_is_pillows(
    seed: int, rows: int, columns: int, height: int, width: int, interpolation: str, channels: int
) -> None:
    image = _noise(seed, rows, columns, channels)
    resample = Image.Resampling[interpolation.upper()]
    planes = [Image.fromarray(image[..., i]).resize((width, height), resample) for i in range(channels)]
    assert np.array_equal(F.resize(image, [height, width], F.InterpolationMode(interpolation)), np.stack(planes, -1))


@pytest.mark.parametrize("ratio", [(5, 4), (9, 8), (3, 2), (17, 16), (11, 8)])
def test_simple_ratios_are_exact(ratio: tuple[int, int]) -> None:
    """Where many values lie half way between two levels."""
    more, less = ratio
    image = _noise(more, 40 * more, 30 * more, 3)
    height, width = 40 * less, 30 * less
    expected = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))
    assert np.array_equal(F.resize(image, [height, width], F.InterpolationMode("bilinear")), expected)


@given(SEED, SIDE, st.integers(1, 900), SIDE, SIDE, st.sampled_from([(), (1,), (3,)]))
def test_nearest_resize_is_pillows(
    seed: int, rows: int, columns: int, height: int, width: int, channels: tuple[int, ...]
) -> None:
    """Wide images, too, whose pixels are picked one by one, not several by an instruction."""
    image = _noise(seed, rows, columns, *channels)
    picture = Image.fromarray(image[..., 0] if channels == (1,) else image).copy()  # not read-only, in any Pillow
    if channels != (1,):
        operation = ops.Resize([height, width], F.InterpolationMode.NEAREST)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ops.Resize, "least_pixels", lambda self, channels: 0)
            made = run_operation(operation, picture)
        assert made is None or made.tobytes() == picture.resize((width, height), Image.Resampling.NEAREST).tobytes()
        assert (made is None) == (not core.available() or (rows, columns) == (height, width))
    expected = np.asarray(picture.resize((width, height), Image.Resampling.NEAREST)).reshape(height, width, *channels)
    for name in ("nearest", "nearest-exact"):
        assert np.array_equal(F.resize(image, [height, width], F.InterpolationMode(name)), expected)


@pytest.mark.skipif(not core_jobs.PILLOW_CHOOSES, reason="Pillow before 13 always resizes rows first")
@given(SEED, SIDE, SIDE, SIDE, SIDE)
def test_order_of_passes_is_pillows(seed: int, rows: int, columns: int, height: int, width: int) -> None:
    picture = Image.fromarray(_noise(seed, rows, columns, 3))
    bilinear = Image.Resampling.BILINEAR
    steps = [(width, rows), (width, height)]
    if core_jobs.vertical_first(rows, columns, height, width):
        steps[0] = (columns, height)
    stepwise = picture
    for size in steps:
        stepwise = stepwise.resize(size, bilinear)
    assert np.array_equal(np.asarray(stepwise), np.asarray(picture.resize((width, height), bilinear)))


@given(
    SEED,
    SIDE,
    SIDE,
    st.one_of(st.floats(-400, 400), st.integers(-8, 8).map(lambda n: 45 * n)),
    st.sampled_from(["nearest", "bilinear", "bicubic"]),
    st.booleans(),
    st.one_of(st.none(), st.tuples(st.integers(-90, 90), st.integers(-90, 90))),
)
def test_rotation_is_pillows(
    seed: int, rows: int, columns: int, angle: float, interpolation: str, expand: bool, center: Any
) -> None:
    image = _noise(seed, rows, columns, 3)
    resample = Image.Resampling[interpolation.upper()]
    expected = np.asarray(Image.fromarray(image).rotate(angle, resample, expand, center, fillcolor=(5, 6, 7)))
    result = F.rotate(image, angle, F.InterpolationMode(interpolation), expand, center, [5, 6, 7])
    np.testing.assert_array_equal(result, expected)


@given(SEED, SIDE, SIDE, st.integers(-80, 80), st.integers(-80, 80), st.integers(0, 90), st.integers(0, 90))
def test_crop_is_pillows(seed: int, rows: int, columns: int, top: int, left: int, height: int, width: int) -> None:
    image = _noise(seed, rows, columns, 3)
    expected = Image.fromarray(image).crop((left, top, left + width, top + height))
    result = geometry.crop(image, top, left, height, width)
    assert result.shape == (height, width, 3)
    if result.size:
        assert np.array_equal(result, np.asarray(expected))


@given(
    SEED, st.lists(st.sampled_from(["brightness", "posterize", "solarize", "invert", "gamma"]), min_size=1, max_size=5)
)
def test_composed_tables_equal_one_after_the_other(seed: int, names: list[str]) -> None:
    image = _noise(seed, 9, 11, 3)
    operations: dict[str, Any] = {
        "brightness": ops.AdjustBrightness(1.4),
        "posterize": ops.Posterize(3),
        "solarize": ops.Solarize(100.5),
        "invert": ops.Invert(),
        "gamma": ops.AdjustGamma(0.6, 1.1),
    }
    stepwise = image
    for name in names:
        stepwise = color.apply_table(stepwise, operations[name].table())
    composed = ops.LookUp(tuple(operations[name] for name in names)).table()
    assert np.array_equal(color.apply_table(image, composed), stepwise)


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (0, 0), (0, 4, 1)])
def test_empty_images_stay_empty(shape: tuple[int, ...]) -> None:
    empty = np.zeros(shape, dtype=np.uint8)
    operations = [
        geometry.hflip,
        geometry.vflip,
        lambda a: F.adjust_brightness(a, 0.5),
        lambda a: F.adjust_contrast(a, 0.5),
        lambda a: F.adjust_saturation(a, 0.5),
        lambda a: F.adjust_hue(a, 0.2),
        lambda a: F.posterize(a, 2),
        lambda a: F.solarize(a, 9),
        F.invert,
        F.equalize,
        F.autocontrast,
        lambda a: F.adjust_sharpness(a, 2.0),
    ]
    for operation in operations:
        assert operation(empty).shape == shape


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (0, 0)])
def test_an_empty_image_becomes_black_as_pillows(shape: tuple[int, ...]) -> None:
    empty = np.zeros(shape, np.uint8)
    expected = F.resize(Image.new("RGB" if len(shape) == 3 else "L", shape[1::-1]), [3, 4])
    assert np.array_equal(F.resize(empty, [3, 4]), np.asarray(expected))


def test_resize_takes_read_only_arrays_without_a_warning() -> None:
    image = _noise(1, 30, 40, 3)
    expected = F.resize(image, [12, 17], F.InterpolationMode("bilinear"))
    image.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(F.resize(image, [12, 17], F.InterpolationMode("bilinear")), expected)


@pytest.mark.parametrize("channels", [2, 4])
def test_other_channel_counts_are_planes_side_by_side(channels: int) -> None:
    image = _noise(2, 40, 30, channels)
    operations = [
        lambda a: F.resize(a, [22, 51], F.InterpolationMode("lanczos")),
        lambda a: F.resize(a, [22, 51], F.InterpolationMode("nearest")),
        lambda a: geometry.pad(a, 1, 2, 3, 4, 9),
        lambda a: F.rotate(a, 20, F.InterpolationMode.BICUBIC),
        lambda a: F.rotate(a, 20),
        geometry.hflip,
        lambda a: geometry.crop(a, -1, -2, 20, 50),
    ]
    for operation in operations:
        planes = [operation(image[..., i]) for i in range(channels)]
        assert np.array_equal(operation(image), np.stack(planes, axis=-1))


@given(st.floats(0, 6), st.integers(64, 90), st.booleans())
def test_vectorised_line_equals_its_table(factor: float, width: int, view: bool) -> None:
    """Every value in every column: the vector code and what it leaves over at a row's end round alike."""
    image = (np.arange(256)[:, None] + np.arange(width)).astype(np.uint8)
    image = np.stack([image] * 3, axis=-1)
    if view:
        image = np.pad(image, ((0, 0), (5, 2), (0, 0)))[:, 5:-2]
    table = ops.AdjustBrightness(factor).table()
    assert table is not None
    assert np.array_equal(F.adjust_brightness(image, factor), table[image])
    mean = int(np.asarray(Image.fromarray(image).convert("L")).mean() + 0.5)
    expected = Image.blend(Image.new("RGB", (width, 256), (mean,) * 3), Image.fromarray(image), factor)
    assert np.array_equal(F.adjust_contrast(image, factor), np.asarray(expected))


@given(st.integers(0, 254), st.integers(1, 255), st.integers(64, 90))
def test_autocontrast_of_any_range_is_pillows(low: int, span: int, width: int) -> None:
    values = low + np.arange(256)[:, None] % (min(span, 255 - low) + 1) + np.zeros((1, width), dtype=int)
    image = values.astype(np.uint8)
    expected = ImageOps.autocontrast(Image.fromarray(image))
    assert np.array_equal(F.autocontrast(image), np.asarray(expected))


SLOPE = st.one_of(st.floats(-3, 3), st.integers(-16, 16).map(lambda n: n / 8))
SHIFT = st.one_of(st.just(0.0), st.floats(-90, 90), st.integers(-40, 40).map(lambda n: n / 2))


@pytest.mark.needs_core
@given(SEED, SIDE, SIDE, st.sampled_from([0, 1, 3]), SLOPE, SHIFT, st.booleans())
def test_shears_are_bit_equal_to_pillows(
    seed: int, rows: int, columns: int, count: int, slope: float, shift: float, along_rows: bool
) -> None:
    image = _noise(seed, rows, columns, *([count] if count else []))
    matrix = [1, slope, shift, 0, 1, 0] if along_rows else [1, 0, 0, slope, 1, shift]
    fill = (9, 99, 199) if count == 3 else 99
    picture = Image.fromarray(image[..., 0] if count == 1 else image)
    expected = picture.transform((columns, rows), Image.Transform.AFFINE, matrix, fillcolor=fill)
    result = warped(image, core.Kind.AFFINE, matrix, "nearest", fill)
    assert np.array_equal(result.reshape(np.shape(expected)), expected)
