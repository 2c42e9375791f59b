"""Pillow's images, from memory to memory: pixels, and the fourth byte of RGB, as Pillow's own functions leave it."""

from __future__ import annotations

import ctypes
import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import core_jobs
import numpy as np
import PIL
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter, ImageOps
from program.test_any_program import ANY, by_torchvision

from fastpipe import core
from fastpipe.core import Status, pillow
from fastpipe.core.structs import Isa
from fastpipe.ops import REGISTRY, AffineBy, HFlip, Operation, PillowBoxBlur, PillowPerspective
from fastpipe.ops.interpolation import InterpolationMode, pil_modes_mapping
from fastpipe.program import lower
from fastpipe.program.core_job import add_steps
from fastpipe.types import ImageShape, Recipe

PILLOW = int(PIL.__version__.partition(".")[0])

CONTEXTS: dict[Isa, core.Context] = {}


def contexts() -> dict[Isa, core.Context]:
    if not core.available():
        pytest.skip(core.why_not())
    if not CONTEXTS:
        CONTEXTS.update((isa, core.Context(isa)) for isa in core_jobs.isas())
    return CONTEXTS


def picture(height: int, width: int, rgbx_pad: int | None, seed: int = 0) -> Image.Image:
    """Noise in mode RGB, with a fourth byte that is the same everywhere, or noise, too."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (height, width, 4), np.uint8)
    pixels[rng.random((height, width)) < 0.3] = 255
    if rgbx_pad is not None:
        pixels[..., 3] = rgbx_pad
    return Image.frombytes("RGB", (width, height), pixels.tobytes(), "raw", "RGBX")


def four_bytes(image: Image.Image) -> np.ndarray:
    return np.frombuffer(image.tobytes("raw", "RGBX"), np.uint8).reshape(image.height, image.width, 4)


def run(context: core.Context, image: Image.Image, recipe: Recipe) -> Image.Image | None:
    """The core's result for a recipe; None where it doesn't have all of it."""
    program = lower(recipe.steps, recipe.shape)
    memory = core.memory_of(image)
    assert memory is not None
    job = core.Job()
    job.read_image(memory)
    shape = ImageShape(image.height, image.width, memory.channels)
    box = program.region
    if box is not None:
        job.box(*box)
        shape = ImageShape(*box.size, shape.channels)
    shape, taken = add_steps(job, program.steps, shape)
    if taken < len(program.steps):
        return None
    new = core.new_image(*shape)
    assert new is not None
    job.write_image(new[1])
    assert context.run(job) == Status.OK
    return new[0]


FOURTHS = st.sampled_from([255, 255, 0, 100, None])


@pytest.mark.filterwarnings("ignore")
@given(st.data(), st.integers(1, 60), st.integers(1, 60), FOURTHS)
@settings(max_examples=5 * settings.default.max_examples)
def test_the_fourth_byte_is_pillows(data: Any, height: int, width: int, rgbx_pad: int | None) -> None:
    image = expected = picture(height, width, rgbx_pad)
    shape, steps = ImageShape(height, width), []
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(sorted(ANY)))
        operation: Operation = REGISTRY[name](**data.draw(ANY[name](shape.height, shape.width)))
        try:
            expected = by_torchvision(operation, expected)
        except RuntimeError:  # corners that don't make a perspective
            return
        if expected.mode != "RGB":
            return
        steps.append(operation)
        shape = operation.output_shape(shape)
    for isa, context in contexts().items():
        recipe = Recipe(ImageShape(height, width), tuple(steps))
        made = run(context, image, recipe)
        if made is None:
            return
        np.testing.assert_array_equal(np.asarray(made), np.asarray(expected), err_msg=f"{isa.name} {steps}")
        np.testing.assert_array_equal(four_bytes(made), four_bytes(expected), err_msg=f"{isa.name} {steps}")


TURN, TILT = (0.9, 0.2, 1.0, -0.1, 1.1, 2.5), (1.1, 0.1, -5.0, 0.05, 0.9, 3.0, 0.001, -0.0005)
WARPS = {
    "affine": (AffineBy, Image.Transform.AFFINE, TURN),
    "scaled": (AffineBy, Image.Transform.AFFINE, (0.9, 0.0, 1.0, 0.0, 1.1, -2.5)),
    "shifted": (AffineBy, Image.Transform.AFFINE, (1.0, 0.0, 3.0, 0.0, 1.0, -5.0)),
    "perspective": (PillowPerspective, Image.Transform.PERSPECTIVE, TILT),
}


@pytest.mark.parametrize("rgbx_pad", [255, 0, 100, None])
@pytest.mark.parametrize("filter", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("name", WARPS)
def test_the_fourth_byte_of_a_warp_without_a_colour(name: str, filter: str, rgbx_pad: int | None) -> None:
    kind, method, numbers = WARPS[name]
    image = picture(37, 41, rgbx_pad)
    operation = kind(numbers, InterpolationMode(filter))
    expected = image.transform(image.size, method, numbers, pil_modes_mapping[InterpolationMode(filter)])
    later = expected.transpose(Image.Transpose.FLIP_LEFT_RIGHT).filter(ImageFilter.BoxBlur(2))
    for isa, context in contexts().items():
        for steps, theirs in (((operation,), expected), ((operation, HFlip(), PillowBoxBlur(2)), later)):
            made = run(context, image, Recipe(ImageShape(37, 41), steps))
            assert made is not None
            np.testing.assert_array_equal(four_bytes(made), four_bytes(theirs), err_msg=isa.name)


SIZES = [(1, 1), (1, 7), (5, 3), (64, 48), (33, 4096), (2047, 2048), (1024, 4096)]
MODES = ["RGB", "L"]


def array_in(memory: core.PillowMemory) -> np.ndarray:
    """The memory itself, ``(H, W, pixel_bytes)``."""
    count = memory.height * memory.row_stride
    pixels = np.frombuffer((ctypes.c_uint8 * count).from_address(memory.address), np.uint8)
    return pixels.reshape(memory.height, memory.width, memory.pixel_bytes)


@pytest.mark.needs_core
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", SIZES)
def test_the_memory_is_the_images(mode: str, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    array = rng.integers(0, 256, (*size, 3) if mode == "RGB" else size, np.uint8)
    made = Image.fromarray(array)
    for image in (made, made.copy(), made.transpose(Image.Transpose.FLIP_LEFT_RIGHT)):
        memory = core.memory_of(image)
        if image is made and image.readonly and PILLOW < 13:  # it shows the array's memory, and doesn't export that
            assert memory is None
            continue
        assert memory is not None
        assert (memory.height, memory.width, memory.channels) == (*size, 3 if mode == "RGB" else 1)
        known = np.asarray(image).reshape(*size, memory.channels)
        np.testing.assert_array_equal(array_in(memory)[..., : memory.channels], known)


@pytest.mark.needs_core
@pytest.mark.parametrize(("mode", "beyond"), [("RGB", (2049, 2048)), ("L", (4097, 4096))])
def test_an_image_of_several_blocks_has_none(mode: str, beyond: tuple[int, int]) -> None:
    image = Image.new(mode, beyond[::-1], None)
    assert core.memory_of(image) is None
    assert core.new_image(*beyond, len(mode)) is None
    assert core.memory_of(image.crop((0, 0, 2000, 2000))) is not None


@pytest.mark.needs_core
@pytest.mark.parametrize("mode", ["1", "P", "RGBA", "RGBX", "CMYK", "I", "F", "LA", "HSV", "YCbCr", "I;16"])
def test_other_modes_have_none(mode: str) -> None:
    assert core.memory_of(Image.new(mode, (4, 3))) is None


@pytest.mark.needs_core
def test_images_without_pixels_have_none() -> None:
    for size in ((0, 0), (0, 3), (3, 0)):
        assert core.memory_of(Image.new("RGB", size)) is None
        assert core.memory_of(Image.new("L", size)) is None
        assert core.new_image(*size, 3) is None


@pytest.mark.needs_core
def test_a_closed_image_and_one_that_cannot_be_loaded_raise_pillows_errors() -> None:
    file = io.BytesIO()
    picture(40, 60, 255).save(file, "JPEG")
    data = file.getvalue()
    with Image.open(io.BytesIO(data)) as image:
        assert core.memory_of(image) is not None
    with Image.open(io.BytesIO(data[: len(data) // 2])) as image, pytest.raises(OSError, match="truncated"):
        core.memory_of(image)
    closed = Image.new("RGB", (3, 2))
    closed.close()
    with pytest.raises(ValueError, match="closed image"):
        core.memory_of(closed)


@pytest.mark.needs_core
@pytest.mark.parametrize("suffix", ["pgm", "ppm", "tif", "bmp"])
def test_a_mapped_file_is_read_as_it_lies_or_not_at_all(tmp_path: Path, suffix: str) -> None:
    for channels in (1, 3):
        array = np.random.default_rng(0).integers(0, 256, (31, 17, 3), np.uint8)
        image = Image.fromarray(array if channels == 3 else array[..., 0])
        image.save(tmp_path / f"a.{suffix}")
        with Image.open(tmp_path / f"a.{suffix}") as opened:
            memory = core.memory_of(opened)
            if memory is not None:
                np.testing.assert_array_equal(np.squeeze(array_in(memory)[..., :channels]), np.asarray(image))


@pytest.mark.needs_core
def test_the_memory_outlives_the_image() -> None:
    array = np.random.default_rng(0).integers(0, 256, (300, 200, 3), np.uint8)
    image = Image.fromarray(array)
    memory = core.memory_of(image)
    assert memory is not None
    image.close()
    del image
    others = [Image.new("RGB", (200, 300), (1, 2, 3)) for _ in range(20)]
    np.testing.assert_array_equal(array_in(memory)[..., :3], array)
    del others


@pytest.mark.needs_core
@pytest.mark.parametrize("alignment", [1, 4, 64])
def test_rows_that_are_aligned(alignment: int) -> None:
    code = """if True:
        import ctypes, numpy as np
        from PIL import Image
        from fastpipe import core
        for size in ((16, 9), (5, 7), (63, 2), (64, 3)):
            for mode in ("RGB", "L"):
                new = core.new_image(size[1], size[0], len(mode))
                if new is None:
                    continue
                image, memory = new
                image.putpixel((size[0] - 1, size[1] - 1), 7)
                bytes = ctypes.string_at(memory.address, memory.row_stride * memory.height)
                assert bytes[-memory.pixel_bytes] == 7 and sum(bytes[: -memory.pixel_bytes]) == 0, (size, mode)
    """
    environment = {**os.environ, "PILLOW_ALIGNMENT": str(alignment)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.needs_core
def test_threads_read_one_image() -> None:
    image = picture(211, 307, 255)
    wrong: list[int] = []

    def work() -> None:
        for _ in range(50):
            memory = core.memory_of(image)
            new = core.new_image(211, 307, 3)
            assert memory is not None
            assert new is not None
            job = core.Job()
            job.read_image(memory)
            job.flip()
            job.write_image(new[1])
            status = core.run(job)
            if status or new[0].tobytes() != image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).tobytes():
                wrong.append(status)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_boxes_are_read_inside_the_image_alone(context: core.Context) -> None:
    image = picture(20, 31, None)
    memory = core.memory_of(image)
    assert memory is not None
    for box in ((0, 0, 20, 31), (3, 5, 17, 26), (19, 30, 1, 1), (0, 14, 20, 17)):
        for flipped in (False, True):
            top, left, height, width = box
            expected = image.crop((left, top, left + width, top + height))
            expected = expected.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flipped else expected
            new = core.new_image(height, width, 3)
            assert new is not None
            job = core.Job()
            job.read_image(memory)
            job.box(*box)
            if flipped:
                job.flip()
            job.write_image(new[1])
            assert context.run(job) == Status.OK
            np.testing.assert_array_equal(four_bytes(new[0]), four_bytes(expected))
    for box in ((0, 0, 21, 31), (1, 0, 20, 31), (0, 1, 20, 31), (-1, 0, 2, 2), (0, 0, 5, 0), (0, 31, 1, 1)):
        job = core.Job()
        job.read_image(memory)
        job.box(*box)
        job.write_array(np.empty((max(box[2], 1), max(box[3], 1), 3), np.uint8))
        assert context.run(job) == Status.BAD_REGION


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 200])
def test_nothing_but_the_pixels_is_read_and_written(context: core.Context, width: int) -> None:
    """Four bytes a pixel: into a place between others, and from one whose last fourth byte isn't there."""
    pixels = np.random.default_rng(0).integers(0, 256, (6, width, 4), np.uint8)
    around = np.full((8, 4 * width + 70), 0xA5, np.uint8)
    out = np.lib.stride_tricks.as_strided(around[1:, 33:], (6, width, 4), (around.strides[0], 4, 1), writeable=True)
    job = core.Job()
    job.read_pixels(pixels)
    job.write_array(out)
    assert context.run(job) == Status.OK
    np.testing.assert_array_equal(out, pixels)
    around[1:-1, 33:-37] = 0xA5
    assert (around == 0xA5).all()
    for offset in (0, 1):  # three channels with a fourth byte between: what lies there stays
        got = core_jobs.pixels(context, pixels[..., offset : offset + 3], (6, width, 3))
        np.testing.assert_array_equal(got, pixels[..., offset : offset + 3])
        kept = pixels.copy()
        job.read_pixels(255 - got)
        job.write_array(kept[..., offset : offset + 3])
        assert context.run(job) == Status.OK
        expected = pixels.copy()
        expected[..., offset : offset + 3] = 255 - got
        np.testing.assert_array_equal(kept, expected)


@pytest.mark.parametrize(("mode", "kind"), [("L", "PNG"), ("RGB", "PNG"), ("P", "PNG"), ("RGB", "JPEG"), ("L", "JPEG")])
def test_files_come_with_pillows_fourth_byte(context: core.Context, mode: str, kind: str) -> None:
    file = io.BytesIO()
    picture(21, 34, 255).convert(mode).save(file, kind)
    with Image.open(file) as opened:
        expected = opened.convert("RGB")
    padded = ImageOps.expand(expected, 3, 7)  # 0 around 255
    for known, margin in ((expected, 0), (padded, 3)):
        new = core.new_image(known.height, known.width, 3)
        assert new is not None
        job = core.Job()
        job.read(file.getvalue())
        if margin:
            job.pad(3, 3, 3, 3, core.Padding.CONSTANT, known.getpixel((0, 0)), 0)
        job.write_image(new[1])
        assert context.run(job) == Status.OK
        np.testing.assert_array_equal(four_bytes(new[0]), four_bytes(known))


@pytest.mark.needs_core
def test_blocks_that_are_reused_and_small() -> None:
    """Pillow's arena is set in a process of its own: it is everybody's."""
    code = """if True:
        import ctypes, numpy as np
        from PIL import Image
        from fastpipe import core
        Image.core.set_blocks_max(8)
        seen = set()
        for block_size in (4096, 65536, 1 << 20):
            Image.core.set_block_size(block_size)
            for size in ((1, 1), (10, 20), (64, 64), (100, 100), (300, 300)):
                pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
                memory = core.memory_of(Image.fromarray(pixels).copy())
                seen.add(memory is None)
                if memory is not None:
                    bytes = ctypes.string_at(memory.address, size[0] * memory.row_stride)
                    rows = np.frombuffer(bytes, np.uint8).reshape(*size, 4)
                    assert np.array_equal(rows[..., :3], pixels), (block_size, size)
        assert seen == {True, False}
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.needs_core
def test_a_job_runs_only_inside_of_an_image() -> None:
    """`fpc_run_on_image` is told where the pixels lie: whatever it is told, it reads and writes images alone."""
    image, context = Image.new("RGB", (7, 5), (1, 2, 3)), core.thread_context()
    if core.memory_of(image) is None:
        pytest.skip("this Pillow doesn't show its memory")
    large = Image.new("RGB", (8, 5))
    source, wrong = image.im.__arrow_c_array__(), Image.new("L", (7, 5)).im.__arrow_c_array__()
    at = pillow.CAPSULE_POINTER_AT

    def run(
        part: tuple[int, int, int, int], count: int = 35, offset: int = 0, from_: Any = source, sink: Any = None,
        result: tuple[int, int, int] = (5, 7, 4),
    ) -> Status:  # fmt: skip
        job = core.Job()
        job.read_image_part(*part)
        job.write_new_image(*result)
        new = Image.new("RGB", (7, 5)).im.__arrow_c_array__() if sink is None else sink
        status = context.run_on_image(context.address, job.address, count, offset, id(from_) + at, id(new) + at, None)
        return Status(status)

    whole = 5, 7, 28, 4
    assert run(whole) == Status.OK
    assert run((4, 6, 28, 4), offset=32, result=(4, 6, 4), sink=Image.new("RGB", (6, 4)).im.__arrow_c_array__()) == 0
    for part, offset in (
        ((5, 7, 28, 4), 1), ((6, 7, 28, 4), 0), ((5, 7, 29, 4), 0), ((5, 8, 28, 4), 0), ((4, 7, 28, 4), 29),
        ((1, 7, 28, 4), 140), ((1, 1, 28, 4), -4), ((2, 7, -28, 4), 28), ((5, 7, 1 << 40, 4), 0), ((5, 7, 28, 3), 0),
    ):  # fmt: skip
        assert run(part, offset=offset) == Status.BAD_OPERATION, (part, offset)
    for count in (0, -1, 1 << 62):
        assert run(whole, count=count) == Status.BAD_OPERATION
    assert run(whole, from_=wrong) == run(whole, sink=wrong) == run(whole, count=34 + 8) == Status.UNSUPPORTED_MODE
    assert run(whole, sink=large.im.__arrow_c_array__()) == Status.UNSUPPORTED_MODE
    assert run(whole, result=(5, 7, 3)) == run(whole, result=(5, 0, 4)) == Status.BAD_OPERATION
