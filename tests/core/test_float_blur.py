"""The core's blur of floats, in every instruction set, against sums in numpy; and what it touches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fastpipe import core
from fastpipe.core.planes import blur_floats

SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
Floats = NDArray[np.float32]
ODD = st.integers(0, 6).map(lambda half: 2 * half + 1)


def summed(image: Floats, along: Floats, down: Floats) -> Floats:
    """Chains of multiply-adds. The values have so few bits that float64 holds each product and sum exactly."""
    edges = (0, 0), (len(down) // 2,) * 2, (len(along) // 2,) * 2
    wide = np.pad(image.astype(np.float64), edges, mode="reflect")
    sums = np.zeros(image.shape, np.float32)
    height, width = image.shape[1:]
    for y, row in enumerate(down[:, None] * along):
        for x, weight in enumerate(row):
            part = wide[:, y : y + height, x : x + width] * np.float64(weight)
            sums = (part + sums).astype(np.float32)
    return sums


def weights(columns: int, rows: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    along, down = (rng.uniform(0.5, 1, size).astype(np.float32) / np.float32(size) for size in (columns, rows))
    return along, down


@SETTINGS
@given(st.integers(0, 4), st.integers(1, 40), st.integers(1, 80), ODD, ODD, st.integers(0, 10**6))
@example(1, 20, 101, 23, 31, 0)
def test_sums_are_added_in_order(
    context: core.Context, images: int, height: int, width: int, columns: int, rows: int, seed: int
) -> None:
    """Nothing but the result is written."""
    rng = np.random.default_rng(seed)
    along, down = weights(columns, rows, rng)
    image = rng.integers(-255, 256, (images, height, width)).astype(np.float32)
    memory = np.full(image.size + 20, 7, np.float32)
    out = memory[10:-10]
    given_weights = np.concatenate((along, down)).tobytes()
    arguments = image.ctypes.data, image.shape, given_weights, (columns, rows), out.ctypes.data
    done = blur_floats(context, *arguments)
    assert done == (columns // 2 < width and rows // 2 < height)
    if done:
        np.testing.assert_array_equal(out.reshape(image.shape), summed(image, along, down))
    assert memory[:10].tolist() == memory[-10:].tolist() == [7] * 10


@pytest.mark.needs_core
def test_all_instruction_sets_agree_to_the_last_bit() -> None:
    """For any floats: without a number, infinite ones, and -0, of which a sum of 0 is made."""
    import core_jobs

    rng = np.random.default_rng(3)
    for height, width, columns, rows in ((31, 45, 5, 9), (1, 70, 23, 1), (64, 33, 1, 3), (12, 17, 7, 7)):
        along, down = weights(columns, rows, rng)
        image = rng.standard_normal((3, height, width)).astype(np.float32)
        for place, value in enumerate((np.inf, np.nan, -np.inf, 1e-42, 3e38)):
            image[1].flat[7 * place] = value
        image[2] = -0.0
        results = []
        for isa in core_jobs.isas():
            out = np.full_like(image, 7)
            arguments = np.concatenate((along, down)).tobytes(), (columns, rows), out.ctypes.data
            assert blur_floats(core.Context(isa), image.ctypes.data, image.shape, *arguments)
            results.append(torch.from_numpy(out))
        for result in results:
            assert torch.equal(result.nan_to_num(), results[0].nan_to_num())
            assert not result[2].signbit().any()


def test_what_is_no_image_or_no_kernel_is_refused(context: core.Context) -> None:
    image = np.zeros(64, np.float32)
    at, three = image.ctypes.data, np.ones(6, np.float32).tobytes()
    assert blur_floats(context, at, (1, 4, 4), three, (3, 3), np.zeros(16, np.float32).ctypes.data)
    for shape in ((-1, 4, 4), (1, 0, 4), (1, 4, -4), (1, 1, 4), (1, 4, 1), (1, 4, 2**25)):
        assert not blur_floats(context, at, shape, three, (3, 3), at)
    for columns, rows in ((2, 4), (1, 4), (5, 0), (-1, 7), (1025, 1)):
        assert not blur_floats(context, at, (1, 600, 600), bytes(4 * (columns + rows)), (columns, rows), at)
    assert not blur_floats(context, at, (1, 4, 4), three, (3, 5), at)
