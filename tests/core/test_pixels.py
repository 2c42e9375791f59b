"""Resizing and the other operations on pixels, against Pillow and torchvision's ways; sinks, against torch's."""

from __future__ import annotations

import itertools
from typing import Any

import core_jobs
import corpus
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from fastpipe import core
from fastpipe.core import Filter, Padding, Status
from fastpipe.transforms import functional

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
NAMES = {Padding.CONSTANT: "constant", Padding.EDGE: "edge", Padding.REFLECT: "reflect", Padding.SYMMETRIC: "symmetric"}


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Hard edges: black and white among all other values, so that results leave 0 to 255 and are clipped."""
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (height, width, channels), np.uint8)
    image[rng.random((height, width)) < 0.3] = 0
    image[rng.random((height, width)) < 0.3] = 255
    return image


def resized(image: np.ndarray, size: tuple[int, int], filter: Filter, box: Any = None) -> np.ndarray:
    picture = Image.fromarray(image if image.shape[2] == 3 else image[..., 0])
    return np.asarray(picture.resize(size[::-1], core_jobs.FILTERS[filter], box=box)).reshape(*size, -1)


@st.composite
def resizes(draw: st.DrawFn) -> dict[str, Any]:
    height, width = draw(st.integers(1, 90)), draw(st.integers(1, 90))
    out = draw(st.integers(1, 110)), draw(st.integers(1, 110))
    box = None
    if draw(st.booleans()):
        fraction = st.floats(0, 1, width=32)
        x0, y0 = draw(fraction) * (width - 1), draw(fraction) * (height - 1)
        x1, y1 = x0 + max(draw(fraction) * (width - x0), 0.5), y0 + max(draw(fraction) * (height - y0), 0.5)
        box = (x0, y0, min(x1, width), min(y1, height))
        if draw(st.booleans()):
            x0, y0 = int(x0), int(y0)
            box = (float(x0), float(y0), float(max(x0 + 1, int(x1))), float(max(y0 + 1, int(y1))))
    top, left = draw(st.integers(0, out[0] - 1)), draw(st.integers(0, out[1] - 1))
    window = (top, left, draw(st.integers(1, out[0] - top)), draw(st.integers(1, out[1] - left)))
    channels = draw(st.sampled_from([1, 3, 3]))
    filter = draw(st.sampled_from(list(Filter)))
    return {"image": noise(height, width, channels), "out": out, "box": box, "window": window, "filter": filter}


@pytest.mark.needs_core
@given(case=resizes(), flip=st.booleans())
@settings(max_examples=7 * settings.default.max_examples)
def test_resize(case: dict[str, Any], flip: bool) -> None:
    image, out, box, filter = case["image"], case["out"], case["box"], case["filter"]
    expected = resized(image, out, filter, box)
    first = core_jobs.vertical_first(*image.shape[:2], *out)
    for isa in core_jobs.isas():
        context = core.Context(isa)
        for window in ((0, 0, *out), case["window"]):
            operations: list[Any] = [("resize", image.shape[:2], (0, 0), out, window, filter, first, box)]
            part = expected[window[0] : window[0] + window[2], window[1] : window[1] + window[3]]
            others: list[Any] = [("resize", None, (0, 0), out, window, filter, 2 * core_jobs.PILLOW_CHOOSES)]
            if flip:
                operations.append(("flip",))
                others.append(("flip",))
                part = part[:, ::-1]
            got = core_jobs.pixels(context, image, part.shape, *operations)
            np.testing.assert_array_equal(got, part, err_msg=f"{isa.name} {window}")
            if box is None:  # the same without the input's size
                got = core_jobs.pixels(context, image, part.shape, *others)
                np.testing.assert_array_equal(got, part, err_msg=f"{isa.name} {window}")


@pytest.mark.needs_core
@given(case=resizes())
@settings(max_examples=3 * settings.default.max_examples)
def test_the_order_of_passes_is_chosen_as_pillow_13_does(case: dict[str, Any]) -> None:
    """By the size of what is there, whichever Pillow is installed."""
    image, out = case["image"], case["out"]
    rows, columns = image.shape[:2]
    first = rows > out[0] and rows - out[0] > 2 * (columns - out[1])
    context = core.Context(core_jobs.isas()[0])
    for whole in (None, (rows, columns)):
        got = [
            core_jobs.pixels(
                context, image, (*out, image.shape[2]), ("resize", whole, (0, 0), out, (0, 0, *out), case["filter"], n)
            )
            for n in (2, int(first))
        ]
        np.testing.assert_array_equal(*got)


@pytest.mark.parametrize("filter", list(Filter))
@pytest.mark.parametrize("size", [(500, 375, 224, 224), (340, 270, 224, 224), (60, 700, 224, 224), (20, 30, 500, 400)])
def test_resize_of_photos(context: core.Context, filter: Filter, size: tuple[int, int, int, int]) -> None:
    height, width, *out = size
    image = corpus.photo(height, width)
    first = core_jobs.vertical_first(height, width, *out)
    window = (0, 0, *out)
    got = core_jobs.pixels(
        context, image, (*out, 3), ("resize", (height, width), (0, 0), tuple(out), window, filter, first)
    )
    np.testing.assert_array_equal(got, resized(image, (out[0], out[1]), filter))


def test_a_window_needs_only_its_part_of_the_source(context: core.Context) -> None:
    """As Resize, CenterCrop do in evaluation: the pixels around are neither decoded nor there."""
    image = corpus.photo(300, 400)
    out, window = (256, 341), (16, 58, 224, 224)
    expected = resized(image, out, Filter.BILINEAR)[16:240, 58:282]
    first = core_jobs.vertical_first(300, 400, *out)
    part = image[10:290, 60:340]
    operation = ("resize", (300, 400), (10, 60), out, window, Filter.BILINEAR, first)
    np.testing.assert_array_equal(core_jobs.pixels(context, part, (224, 224, 3), operation), expected)
    job = core.Job()
    job.read_pixels(image[40:290, 60:340])  # rows are missing
    job.resize((300, 400), (40, 60), out, window, Filter.BILINEAR, first)
    job.write_array(np.empty((224, 224, 3), np.uint8))
    assert context.run(job) in (Status.BAD_OPERATION, Status.BAD_REGION)


def test_decoded_and_resized(context: core.Context) -> None:
    data, expected = corpus.files()["jpeg-420"], corpus.reference("jpeg-420")
    assert expected is not None
    for seed in range(30):
        rng = np.random.default_rng(seed)
        top, left = int(rng.integers(60)), int(rng.integers(80))
        height, width = int(rng.integers(1, 97 - top)), int(rng.integers(1, 131 - left))
        out = int(rng.integers(1, 80)), int(rng.integers(1, 80))
        job = core.Job()
        job.read(data)
        job.box(top, left, height, width)
        job.resize(
            (height, width), (0, 0), out, (0, 0, *out), Filter.BILINEAR, core_jobs.vertical_first(height, width, *out)
        )
        if seed % 2:
            job.flip()
        got = np.empty((*out, 3), np.uint8)
        job.write_array(got)
        assert context.run(job) == Status.OK
        part = resized(expected[top : top + height, left : left + width], out, Filter.BILINEAR)
        np.testing.assert_array_equal(got, part[:, ::-1] if seed % 2 else part)


def test_flips_crop_and_transpose(context: core.Context) -> None:
    for height, width in ((1, 1), (5, 3), (31, 70), (64, 33)):
        for channels in (1, 3):
            image = noise(height, width, channels)
            run = core_jobs.pixels
            np.testing.assert_array_equal(run(context, image, image.shape, ("flip",)), image[:, ::-1])
            np.testing.assert_array_equal(run(context, image, image.shape, ("flip_vertically",)), image[::-1])
            turned = image.transpose(1, 0, 2)
            np.testing.assert_array_equal(run(context, image, turned.shape, ("transpose",)), turned)
            np.testing.assert_array_equal(
                run(context, image, turned.shape, ("transpose",), ("flip",), ("flip_vertically",)), turned[::-1, ::-1]
            )
            top, left = height // 3, width // 4
            part = image[top : top + (height + 1) // 2, left : left + (width + 1) // 2]
            crop = ("crop", top, left, *part.shape[:2])
            np.testing.assert_array_equal(run(context, image, part.shape, crop), part)
            np.testing.assert_array_equal(run(context, image, part.shape, crop, ("flip",)), part[:, ::-1])


def test_exif_orientations(context: core.Context) -> None:
    ways: dict[int, list[tuple[str, ...]]] = {
        2: [("flip",)],
        3: [("flip",), ("flip_vertically",)],
        4: [("flip_vertically",)],
        5: [("transpose",)],
        6: [("transpose",), ("flip",)],
        7: [("transpose",), ("flip",), ("flip_vertically",)],
        8: [("transpose",), ("flip_vertically",)],
    }
    image = noise(20, 33)
    for orientation, operations in ways.items():
        picture = Image.fromarray(image)
        picture.getexif()[0x0112] = orientation
        expected = np.asarray(ImageOps.exif_transpose(picture))
        np.testing.assert_array_equal(core_jobs.pixels(context, image, expected.shape, *operations), expected)


@pytest.mark.parametrize("mode", list(Padding))
def test_padding(context: core.Context, mode: Padding) -> None:
    fill = (7, 200, 31) if mode is Padding.CONSTANT else (0, 0, 0)
    for height, width in ((6, 9), (31, 70)):
        image = noise(height, width)
        for sides in ((0, 0, 0, 0), (1, 2, 3, 4), (5, 0, 0, 5), (0, 5, 4, 0), (80, 70, 60, 50)):
            left, top, right, bottom = sides
            expected = np.asarray(
                functional.pad(Image.fromarray(image), list(sides), fill=fill, padding_mode=NAMES[mode])
            )
            got = core_jobs.pixels(context, image, expected.shape, ("pad", left, top, right, bottom, mode, fill))
            np.testing.assert_array_equal(got, expected)


def test_tables_and_gray(context: core.Context) -> None:
    image = noise(31, 45)
    tables = np.random.default_rng(1).integers(0, 256, (3, 256), np.uint8)
    expected = np.stack([tables[c][image[..., c]] for c in range(3)], -1)
    got = core_jobs.pixels(context, image, image.shape, ("look_up", tables.tobytes()))
    np.testing.assert_array_equal(got, expected)
    gray = np.asarray(Image.fromarray(image).convert("L"))[..., None]
    np.testing.assert_array_equal(core_jobs.pixels(context, image, (31, 45, 1), ("gray", 1)), gray)
    np.testing.assert_array_equal(core_jobs.pixels(context, image, image.shape, ("gray", 3)), gray.repeat(3, 2))
    one = np.ascontiguousarray(gray)
    table = tables[0].tobytes()
    np.testing.assert_array_equal(core_jobs.pixels(context, one, one.shape, ("look_up", table)), tables[0][gray])


def test_every_color_to_gray(context: core.Context) -> None:
    values = np.arange(1 << 24, dtype=np.uint32)[:: 37 if core.isa() else 1]
    image = np.stack([values >> 16, values >> 8 & 255, values & 255], -1).astype(np.uint8)[None]
    gray = np.asarray(Image.fromarray(image).convert("L"))[..., None]
    np.testing.assert_array_equal(core_jobs.pixels(context, image, gray.shape, ("gray", 1)), gray)


def test_a_chain(context: core.Context) -> None:
    image = corpus.photo(90, 120)
    tables = np.random.default_rng(1).integers(0, 256, (3, 256), np.uint8)
    out = (50, 60)
    step = np.pad(resized(image[10:80, 5:105], out, Filter.BICUBIC)[:, ::-1], ((2, 4), (1, 3), (0, 0)), mode="reflect")
    step = np.stack([tables[c][step[..., c]] for c in range(3)], -1)[3:53, 2:62]
    expected = np.asarray(Image.fromarray(np.ascontiguousarray(step)).convert("L"))[..., None].repeat(3, 2)
    got = core_jobs.pixels(
        context,
        image,
        expected.shape,
        ("crop", 10, 5, 70, 100),
        ("resize", (70, 100), (0, 0), out, (0, 0, *out), Filter.BICUBIC, core_jobs.vertical_first(70, 100, *out)),
        ("flip",),
        ("pad", 1, 2, 3, 4, Padding.REFLECT),
        ("look_up", tables.tobytes()),
        ("crop", 3, 2, 50, 60),
        ("gray", 3),
    )
    np.testing.assert_array_equal(got, expected)


def test_sources_of_any_strides(context: core.Context) -> None:
    base = noise(40, 50, 4)
    for image in (base[..., :3], base[::-2, ::3, :3], base[..., 2::-1], base[::-1, ::-1, 1:], base[..., 1:2]):
        got = core_jobs.pixels(context, image, image.shape)
        np.testing.assert_array_equal(got, image)
    planar = np.ascontiguousarray(base[..., :3].transpose(2, 0, 1)).transpose(1, 2, 0)
    np.testing.assert_array_equal(core_jobs.pixels(context, planar, planar.shape), planar)
    gray = base[..., 0]
    np.testing.assert_array_equal(core_jobs.pixels(context, gray, (40, 50)), gray)


def test_channels_in_the_other_order(context: core.Context) -> None:
    for height, width in ((1, 1), (3, 7), (5, 16), (2, 41), (37, 53)):
        image, around = noise(height, width), np.full((height + 2, width + 3, 3), 99, np.uint8)
        job = core.Job()
        job.read_pixels(image)
        job.write_array(around[1:-1, 1:-2, ::-1])
        assert context.run(job) == Status.OK
        expected = np.pad(image[..., ::-1], ((1, 1), (1, 2), (0, 0)), constant_values=99)
        np.testing.assert_array_equal(around, expected)


LAYOUTS = ("planar", "channels last", "reversed", "wide")


def sink(layout: str, channels: int, height: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor ``(C, H, W)`` of 99s in some layout of memory."""
    if layout == "channels last":
        return torch.full((height, width, channels), 99, dtype=dtype).permute(2, 0, 1)
    if layout == "wide":
        return torch.full((channels, height + 2, width + 5), 99, dtype=dtype)[:, 1:-1, 3:-2]
    if layout == "reversed":
        return torch.full((width, height, channels), 99, dtype=dtype).permute(2, 1, 0)
    return torch.full((channels, height, width), 99, dtype=dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_sinks(context: core.Context, layout: str, dtype: torch.dtype) -> None:
    # 256 values in each channel, and widths that fill no register.
    every = np.stack([np.roll(np.arange(256, dtype=np.uint8), k) for k in (0, 85, 170)], -1)[None]
    for image in (every, noise(37, 53), noise(3, 1), noise(5, 16), noise(8, 31)):
        height, width, channels = image.shape
        for (mean, std), multiplied in itertools.product(((None, None), (MEAN, STD)), (False, True)):
            if dtype is torch.uint8 and (mean is not None or multiplied):
                continue
            tensor = sink(layout, channels, height, width, dtype)
            job = core.Job()
            job.read_pixels(image)
            job.write_tensor(tensor, mean, std, multiplied)
            assert context.run(job) == Status.OK
            if dtype is torch.uint8:
                expected = torch.from_numpy(image.copy()).permute(2, 0, 1)
            else:
                expected = core_jobs.normalized(image, dtype, mean, std, multiplied)
            assert torch.equal(tensor, expected), (image.shape, mean, multiplied)
            if layout == "wide":
                whole = tensor._base
                assert whole is not None
                around = whole.clone()
                around[:, 1:-1, 3:-2] = 99
                assert (around == 99).all()


@pytest.mark.needs_core
@given(
    mean=st.lists(st.floats(-1, 2, width=32), min_size=3, max_size=3),
    std=st.lists(st.floats(0.00390625, 4, width=32), min_size=3, max_size=3),
)
@settings(max_examples=2 * settings.default.max_examples)
def test_means_and_deviations(mean: list[float], std: list[float]) -> None:
    image = np.arange(256, dtype=np.uint8)[None, :, None].repeat(3, 2)
    for isa in core_jobs.isas():
        context = core.Context(isa)
        for dtype, multiplied in itertools.product((torch.float32, torch.float16, torch.bfloat16), (False, True)):
            tensor = torch.empty((3, 1, 256), dtype=dtype)
            job = core.Job()
            job.read_pixels(image)
            job.write_tensor(tensor, mean, std, multiplied)
            assert context.run(job) == Status.OK
            assert torch.equal(tensor, core_jobs.normalized(image, dtype, mean, std, multiplied))


@pytest.mark.needs_core
@given(
    mean=st.lists(st.floats(-255, 255, width=32), min_size=3, max_size=3),
    factor=st.lists(st.floats(-4, 4, width=32), min_size=3, max_size=3),
    width=st.sampled_from([1, 7, 8, 256]),
)
@settings(max_examples=100)
def test_means_and_factors(mean: list[float], factor: list[float], width: int) -> None:
    """As numpy computes them in float32, in rows of pixels and in planes."""
    image = np.arange(256, dtype=np.uint8)[None, :width, None].repeat(3, 2).repeat(2, 0)
    expected = (image.astype(np.float32) - np.array(mean, np.float32)) * np.array(factor, np.float32)
    for isa in core_jobs.isas():
        context = core.Context(isa)
        planes = np.empty((3, 2, width), np.float32).transpose(1, 2, 0)
        for made in (np.empty(image.shape, np.float32), planes):
            job = core.Job()
            job.read_pixels(image)
            job.write_by_factor(made, mean, factor)
            assert context.run(job) == Status.OK
            np.testing.assert_array_equal(made, expected)


def test_gray_into_three_channels_and_one(context: core.Context) -> None:
    image = noise(9, 20, 1)
    tensor = torch.empty((1, 9, 20))
    job = core.Job()
    job.read_pixels(image)
    job.write_tensor(tensor, [0.5, 0.5, 0.5], [0.25, 0.25, 0.25])
    assert context.run(job) == Status.OK
    assert torch.equal(tensor, core_jobs.normalized(image, torch.float32, [0.5], [0.25]))


def bad_jobs() -> dict[str, Any]:
    """name → what is done to a job of 20×30 pixels into a sink of that size, so that it can't run."""
    return {
        "crop outside": lambda job: job.crop(10, 10, 20, 20),
        "crop before": lambda job: job.crop(-1, 0, 20, 30),
        "crop of nothing": lambda job: job.crop(0, 0, 0, 30),
        "crop overflows": lambda job: job.crop(2**31 - 1, 0, 20, 30),
        "unknown kind": lambda job: job._plain(77),
        "kind 0": lambda job: job._plain(0),
        "gray in two": lambda job: job.gray(2),
        "no table": lambda job: job._plain(core.Kind.LUT),
        "padding unknown": lambda job: job.pad(0, 0, 0, 0, 9),
        "padding negative": lambda job: job.pad(-1, 0, 1, 0),
        "padding huge": lambda job: job.pad(2**31 - 1, 0, 2**31 - 1, 0),
        "resize of another size": lambda job: job.resize((21, 30), (0, 0), (20, 30), (0, 0, 20, 30), 2, False),
        "resize of no height": lambda job: job.resize((0, 30), (0, 0), (20, 30), (0, 0, 20, 30)),
        "resize of what isn't there": lambda job: job.resize(None, (1, 0), (20, 30), (0, 0, 20, 30)),
        "resize to nothing": lambda job: job.resize((20, 30), (0, 0), (0, 30), (0, 0, 20, 30)),
        "resize to a huge size": lambda job: job.resize((20, 30), (0, 0), (2**31 - 1, 2**31 - 1), (0, 0, 20, 30)),
        "resize from a huge size": lambda job: job.resize((2**31 - 1, 2**31 - 1), (0, 0), (20, 30), (0, 0, 20, 30)),
        "window outside": lambda job: job.resize((20, 30), (0, 0), (40, 60), (30, 0, 20, 30)),
        "filter unknown": lambda job: job.resize((20, 30), (0, 0), (20, 30), (0, 0, 20, 30), 6),
        "box outside": lambda job: job.resize((20, 30), (0, 0), (20, 30), (0, 0, 20, 30), 2, False, (0, 0, 31, 20)),
        "box of nothing": lambda job: job.resize((20, 30), (0, 0), (20, 30), (0, 0, 20, 30), 2, False, (5, 0, 5, 20)),
        "box not a number": lambda job: job.resize(
            (20, 30), (0, 0), (20, 30), (0, 0, 20, 30), 2, False, (0, 0, float("nan"), 20)
        ),
        "box infinite": lambda job: job.resize(
            (20, 30), (0, 0), (20, 30), (0, 0, 20, 30), 2, False, (0, 0, float("inf"), 20)
        ),
        "transposed": lambda job: job.transpose(),
        "no sink": lambda job: setattr(job.raw.sink, "data", None),
        "sink of another type": lambda job: setattr(job.raw.sink, "dtype", 9),
        "sink of two channels": lambda job: setattr(job.raw.sink, "channels", 2),
        "sink of bytes normalized": lambda job: setattr(job.raw.sink, "flags", 1),
        "sink of bytes multiplied": lambda job: setattr(job.raw.sink, "flags", 2),
        "a factor without a mean": lambda job: setattr(job.raw.sink, "flags", 4),
        "sink of an unknown rule": lambda job: setattr(job.raw.sink, "flags", 8),
        "operations missing": lambda job: (
            setattr(job.raw, "operations", None),
            setattr(job.raw, "operation_count", 1),
        ),
        "operations negative": lambda job: setattr(job.raw, "operation_count", -1),
        "operations too many": lambda job: (job.flip(), setattr(job.raw, "operation_count", 2**31 - 1)),
    }


@pytest.mark.parametrize("name", bad_jobs())
def test_what_does_not_fit_is_refused(context: core.Context, name: str) -> None:
    job = core.Job()
    job.read_pixels(noise(20, 30))
    out = np.empty((20, 30, 3), np.uint8)
    job.write_array(out)
    bad_jobs()[name](job)
    assert context.run(job) in (Status.BAD_OPERATION, Status.BAD_REGION, Status.TOO_LARGE, Status.NO_MEMORY)
    # The context is as good as new.
    image = noise(20, 30)
    np.testing.assert_array_equal(core_jobs.pixels(context, image, image.shape, ("flip",)), image[:, ::-1])
