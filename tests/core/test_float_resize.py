"""The core's resize of floats, in every instruction set, against sums in numpy; and what it touches."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fastpipe import core, ops
from fastpipe.core import planes
from fastpipe.core.planes import FloatResize, FloatRounding
from fastpipe.errors import CoreError
from fastpipe.types import Box, Size

SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
SIDES = st.integers(1, 60)
SEEDS = st.integers(0, 10**6)
FORMS = st.sampled_from([*FloatRounding])
Floats = NDArray[np.float32]


CUBIC = FloatResize.CUBIC, FloatResize.CUBIC | FloatResize.FUSED_WEIGHTS


def multiply_add(x: Any, y: float, z: float, fused: bool) -> Any:
    """The product of floats is exact in float64, and its sum nearly so."""
    exact = np.float64(x) * y
    return np.float32((exact if fused else np.float64(np.float32(exact))) + z)


def cubic(x: Any, fused: bool) -> Any:
    """``HelperInterpCubic::aa_filter`` of torch."""
    if x < 1:
        inner = multiply_add(x, 1.5, -2.5, fused)
        return multiply_add(inner * x, np.float64(x), 1, fused)
    inner = multiply_add(multiply_add(x, -0.5, 2.5, fused), np.float64(x), -4, fused)
    return multiply_add(inner, np.float64(x), 2, fused) if x < 2 else np.float32(0)


def taps(inputs: int, outputs: int, of_cubic: FloatResize = FloatResize.FLOATS) -> list[tuple[int, Floats]]:
    """The first input and the weights of each output: ``_compute_indices_min_size_weights_aa`` of torch, for float."""
    one, fused = np.float32(1), bool(of_cubic & FloatResize.FUSED_WEIGHTS)
    scale = np.float32(inputs) / np.float32(outputs)
    support, inverse = max(scale, one), np.float32(1 / np.float64(scale)) if scale >= 1 else one
    support = np.float32(2) * support if of_cubic else support
    found = []
    for output in range(outputs):
        center = np.float32(np.float64(scale) * (output + 0.5))
        start = max(int(np.float64(center - support) + 0.5), 0)
        end = min(int(np.float64(center + support) + 0.5), inputs, start + math.ceil(support) * 2 + 1)
        weights = []
        for place in range(start, end):
            away = abs(np.float32((np.float64(np.float32(place) - center) + 0.5) * np.float64(inverse)))
            linear = one - away if away < 1 else np.float32(0)
            weights.append(cubic(away, fused) if of_cubic else linear)
        total = np.float32(0)
        for weight in weights:
            total += weight
        found.append((start, np.array([weight / total if total else weight for weight in weights], np.float32)))
    return found


def weighed(rows: Floats, outputs: int, form: FloatRounding) -> Floats:
    """Resizes the first axis. The values have so few bits that float64 holds each product and sum exactly."""
    result = []
    for start, weights in taps(len(rows), outputs):
        apart = {FloatRounding.APART: len(weights) - 1, FloatRounding.FUSED: 0}.get(form, (len(weights) - 1) // 4 * 4)
        total = rows[start] * weights[0]
        for number, weight in enumerate(weights[1:], 1):
            if number <= apart:
                total = total + rows[start + number] * weight
            else:
                exact = rows[start + number].astype(np.float64) * np.float64(weight)
                total = (exact + total).astype(np.float32)
        result.append(total)
    return np.stack(result)


@SETTINGS
@given(st.integers(1, 4), SIDES, SIDES, SIDES, st.booleans(), FORMS, st.booleans(), st.booleans(), SEEDS)
def test_sums_are_added_in_order(
    context: core.Context,
    channels: int,
    height: int,
    width: int,
    size: int,
    is_along: bool,
    form: FloatRounding,
    in_pixels: bool,
    out_pixels: bool,
    seed: int,
) -> None:
    """Within a larger image, so that rows have gaps; nothing but the result is written."""
    rows, columns = (height, size) if is_along else (size, width)
    out_pixels = out_pixels and channels > 1
    values = FloatResize.INTERLEAVED if out_pixels else FloatResize.FLOATS
    large = np.random.default_rng(seed).integers(-99, 100, (height + 2, width + 3, channels)).astype(np.float32)
    around = torch.from_numpy(large).permute(2, 0, 1)
    image = (around if in_pixels else around.contiguous())[:, 1:-1, 2:-1]
    memory = torch.full((channels * rows * columns + 20,), 7.0)
    out = memory[10:-10]
    sizes = channels, height, width, rows, columns
    done = planes.resize_floats(context, image.data_ptr(), image.stride(), sizes, out.data_ptr(), form, values)
    assert done
    axis = 1 if is_along else 0
    expected = np.moveaxis(weighed(np.moveaxis(image.permute(1, 2, 0).numpy(), axis, 0), size, form), 0, axis)
    result = out.numpy()
    if out_pixels:
        assert np.array_equal(result.reshape(rows, columns, channels), expected)
    else:
        assert np.array_equal(result.reshape(channels, rows, columns).transpose(1, 2, 0), expected)
    assert (memory[:10] == 7).all()
    assert (memory[-10:] == 7).all()


@SETTINGS
@given(st.integers(1, 40), st.integers(1, 60), st.sampled_from(CUBIC))
def test_cubic_weights(context: core.Context, inputs: int, outputs: int, of_cubic: FloatResize) -> None:
    """Rows with a single one among zeros show the weights."""
    image = torch.eye(inputs)[:, None].contiguous()
    out = torch.empty((inputs, 1, outputs))
    sizes = inputs, 1, inputs, 1, outputs
    arguments = image.data_ptr(), image.stride(), sizes, out.data_ptr(), FloatRounding.APART, of_cubic
    assert planes.resize_floats(context, *arguments)
    expected = np.zeros((inputs, outputs), np.float32)
    for place, (start, weights) in enumerate(taps(inputs, outputs, of_cubic)):
        expected[start : start + len(weights), place] = weights
    assert np.array_equal(out[:, 0].numpy(), expected)


def test_a_cubic_result_is_of_floats(context: core.Context) -> None:
    image, out = torch.zeros((1, 4, 4)), torch.zeros((1, 2, 2), dtype=torch.uint8)
    arguments = image.data_ptr(), image.stride(), (1, 4, 4, 2, 2), out.data_ptr(), FloatRounding.APART
    assert not planes.resize_floats(context, *arguments, FloatResize.CUBIC | FloatResize.TO_BYTES)


@pytest.mark.needs_core
def test_all_instruction_sets_agree_to_the_last_bit() -> None:
    import core_jobs

    image = torch.randn((3, 97, 131), generator=torch.Generator().manual_seed(1))
    sizes = (40, 30), (130, 200), (5, 131), (96, 2)
    for form, kind, (rows, columns) in itertools.product(FloatRounding, (FloatResize.FLOATS, *CUBIC), sizes):
        results = []
        for isa in core_jobs.isas():
            out = torch.empty((3, rows, columns))
            arguments = image.data_ptr(), image.stride(), (*image.shape, rows, columns), out.data_ptr(), form, kind
            assert planes.resize_floats(core.Context(isa), *arguments)
            results.append(out)
        assert all(torch.equal(result, results[0]) for result in results)


@SETTINGS
@given(st.integers(1, 4), SIDES, SIDES, SIDES, SIDES, FORMS, st.booleans(), SEEDS)
def test_bytes_are_made_floats_before_and_bytes_afterwards(
    context: core.Context,
    channels: int,
    height: int,
    width: int,
    rows: int,
    columns: int,
    form: FloatRounding,
    in_pixels: bool,
    seed: int,
) -> None:
    large = np.random.default_rng(seed).integers(0, 256, (height + 1, width + 2, channels), np.uint8)
    around = torch.from_numpy(large).permute(2, 0, 1)
    image = (around if in_pixels else around.contiguous())[:, 1:, 2:]
    sizes = channels, height, width, rows, columns
    expected, result = torch.empty((channels, rows, columns)), torch.empty((channels, rows, columns))
    given_floats = image.float().contiguous()
    arguments = given_floats.data_ptr(), given_floats.stride(), sizes, expected.data_ptr(), form
    assert planes.resize_floats(context, *arguments)
    values = FloatResize.FROM_BYTES
    assert planes.resize_floats(context, image.data_ptr(), image.stride(), sizes, result.data_ptr(), form, values)
    assert torch.equal(result, expected)
    memory = torch.full((expected.numel() + 20,), 7, dtype=torch.uint8)
    out = memory[10:-10]
    values |= FloatResize.TO_BYTES
    assert planes.resize_floats(context, image.data_ptr(), image.stride(), sizes, out.data_ptr(), form, values)
    assert torch.equal(out.view(expected.shape), expected.round().to(torch.uint8))
    assert memory[:10].tolist() == memory[-10:].tolist() == [7] * 10


def of_part(context: core.Context, image: NDArray[np.uint8], out: NDArray[Any], arguments: Any, **sink: Any) -> None:
    """Runs the operation as the only one of a job, with the arguments of `JobOperations.float_resize`."""
    job = core.Job()
    job.read_pixels(image)
    job.float_resize(*arguments)
    strides = out.strides
    job.write(out.ctypes.data, out.shape, strides, core.DType.FLOAT32, **sink)
    core.check(context.run(job))


@SETTINGS
@given(st.sampled_from([1, 3]), SIDES, SIDES, SIDES, SIDES, FORMS, *[st.booleans()] * 4, SEEDS)
def test_the_operation_makes_a_window_from_what_it_needs(
    context: core.Context,
    channels: int,
    height: int,
    width: int,
    rows: int,
    columns: int,
    form: FloatRounding,
    multiplied: bool,
    hflip: bool,
    vflip: bool,
    in_pixels: bool,
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    image = random.integers(0, 256, (height, width, channels), np.uint8)
    scaled = torch.from_numpy(image).permute(2, 0, 1).contiguous().float()
    scaled = scaled * (1 / 255) if multiplied else scaled / 255
    whole = torch.empty((channels, rows, columns))
    arguments = scaled.data_ptr(), scaled.stride(), (channels, height, width, rows, columns), whole.data_ptr(), form
    assert planes.resize_floats(context, *arguments)
    top, left = int(random.integers(rows)), int(random.integers(columns))
    size = int(random.integers(rows - top)) + 1, int(random.integers(columns - left)) + 1
    step = ops.ResizeAsFloats(Size(height, width), Size(rows, columns), Box(top, left, *size))
    expected = whole[:, top : top + size[0], left : left + size[1]]
    flags = form | FloatResize.HFLIP * hflip | FloatResize.VFLIP * vflip | FloatResize.MULTIPLY * multiplied
    expected = expected.flip([axis for axis, flips in ((1, vflip), (2, hflip)) if flips])
    mean, std = [0.25, 0.5, 0.75], [0.5, 0.25, 2.0]
    expected = (expected - torch.tensor(mean[:channels])[:, None, None]) / torch.tensor(std[:channels])[:, None, None]
    around = np.full((size[0] + 2, size[1], channels), 7, np.float32)
    if not in_pixels:
        around = np.full((channels, size[0] + 2, size[1]), 7, np.float32).transpose(1, 2, 0)
    box = step.box
    part = image[box.top : box.bottom, box.left : box.right]
    of_part(
        context,
        part,
        around[1:-1],
        ((height, width), box[:2], (rows, columns), step.window, flags),
        mean=mean,
        std=std,
    )
    assert np.array_equal(around[1:-1].transpose(2, 0, 1), expected.numpy())
    assert (around[[0, -1]] == 7).all()


def test_operations_that_do_not_fit_are_refused(context: core.Context) -> None:
    image, out = np.zeros((20, 30, 3), np.uint8), np.zeros((10, 12, 3), np.float32)
    whole = (20, 30), (0, 0), (10, 12), (0, 0, 10, 12), 0
    of_part(context, image, out, whole)
    for number, value in (
        (0, (20, 31 + 2**23)),
        (0, (19, 30)),
        (0, (-20, 30)),
        (1, (1, 0)),
        (1, (-1, 0)),
        (2, (9, 12)),
        (2, (0, 12)),
        (3, (1, 0, 10, 12)),
        (3, (-1, 0, 10, 12)),
        (4, FloatResize.TO_BYTES),
        (4, -1),
    ):
        arguments = [*whole]
        arguments[number] = value
        with pytest.raises(CoreError):
            of_part(context, image, out, arguments)
    far = np.zeros((4, 30, 3), np.uint8)
    with pytest.raises(CoreError):  # rows are missing
        of_part(context, far, out, ((20, 30), (8, 0), *whole[2:]))


def test_only_floats_come_after_the_operation(context: core.Context) -> None:
    image, out = np.zeros((20, 30, 3), np.uint8), np.zeros((10, 12, 3), np.uint8)
    whole = (20, 30), (0, 0), (10, 12), (0, 0, 10, 12), 0
    job = core.Job()
    job.read_pixels(image)
    job.float_resize(*whole)
    job.write_array(out)
    assert core.Status(context.run(job)) is core.Status.BAD_OPERATION
    job.flip()
    job.write_array(out.astype(np.float32))
    assert core.Status(context.run(job)) is core.Status.BAD_OPERATION


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_rounded_after_the_normalization(context: core.Context, dtype: torch.dtype) -> None:
    image = np.random.default_rng(5).integers(0, 256, (23, 31, 3), np.uint8)
    whole = (23, 31), (0, 0), (17, 40), (0, 0, 17, 40), 0
    results = []
    for kind in (torch.float32, dtype):
        out = torch.empty((3, 17, 40), dtype=kind)
        job = core.Job()
        job.read_pixels(image)
        job.float_resize(*whole)
        job.write_tensor(out, [0.4] * 3, [0.3] * 3)
        core.check(context.run(job))
        results.append(out)
    assert torch.equal(results[0].to(dtype), results[1])


def test_what_is_no_image_is_refused(context: core.Context) -> None:
    image = torch.zeros(400)
    at, strides = image.data_ptr(), (16, 4, 1)
    for shape in ((0, 4, 4, 4, 4), (3, 0, 4, 4, 4), (3, 4, -1, 4, 4), (3, 4, 4, 0, 4), (3, 4, 4, 4, 2**25)):
        assert not planes.resize_floats(context, at, strides, shape, at, FloatRounding.APART)
    for wrong in ((16, 4, 2), (2, 12, 3), (1, 12, 4)):
        assert not planes.resize_floats(context, at, wrong, (3, 4, 4, 4, 4), at, FloatRounding.APART)
