"""Pillow's images, from memory to memory: pixels, and the fourth byte of RGB, as Pillow's own functions leave it."""

from __future__ import annotations

from typing import Any

import core_jobs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from program.test_any_program import ANY, by_torchvision

from fastpipe import core
from fastpipe.core import Status
from fastpipe.core.structs import Isa
from fastpipe.ops import REGISTRY, Operation, Pad
from fastpipe.program import lower
from fastpipe.program.core_steps import add_steps
from fastpipe.types import ImageShape, Recipe

CONTEXTS: dict[Isa, core.Context] = {}


def contexts() -> dict[Isa, core.Context]:
    if not core.available():
        pytest.skip(core.why_not())
    if not CONTEXTS:
        CONTEXTS.update((isa, core.Context(isa)) for isa in core_jobs.isas())
    return CONTEXTS


def picture(height: int, width: int, fourth: int | None, seed: int = 0) -> Image.Image:
    """Noise in mode RGB, with a fourth byte that is the same everywhere, or noise, too."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (height, width, 4), np.uint8)
    pixels[rng.random((height, width)) < 0.3] = 255
    if fourth is not None:
        pixels[..., 3] = fourth
    return Image.frombytes("RGB", (width, height), pixels.tobytes(), "raw", "RGBX")


def four_bytes(image: Image.Image) -> np.ndarray:
    return np.frombuffer(image.tobytes("raw", "RGBX"), np.uint8).reshape(image.height, image.width, 4)


def run(context: core.Context, image: Image.Image, recipe: Recipe) -> Image.Image | None:
    """What the core makes of a recipe; None where it doesn't have all of it."""
    program = lower(recipe)
    memory = core.memory_of(image)
    assert memory is not None
    job = core.Job()
    job.read_image(memory)
    shape = ImageShape(image.height, image.width, memory.channels)
    box = program.request.box
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


def is_mirrored(operation: Any) -> bool:
    """Whether torchvision pads by way of numpy, which makes the fourth byte 255."""
    return isinstance(operation, Pad) and operation.padding_mode != "constant"


FOURTHS = st.sampled_from([255, 255, 0, 100, None])


@pytest.mark.filterwarnings("ignore")
@given(st.data(), st.integers(1, 60), st.integers(1, 60), FOURTHS)
@settings(max_examples=300)
def test_the_fourth_byte_is_pillows(data: Any, height: int, width: int, fourth: int | None) -> None:
    image = expected = picture(height, width, fourth)
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
        if sum(map(is_mirrored, steps)) == sum(map(is_mirrored, lower(recipe).steps)):  # none is cut off again
            np.testing.assert_array_equal(four_bytes(made), four_bytes(expected), err_msg=f"{isa.name} {steps}")
