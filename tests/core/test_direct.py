"""The core's functions without a job: bytes looked up, rows flipped; and the addresses of arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastpipe import core
from fastpipe.core.addresses import address_of

SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def guarded(shape: tuple[int, ...], start: int) -> tuple[np.ndarray, np.ndarray]:
    """Memory, and an array in its middle that begins at any byte."""
    count = int(np.prod(shape))
    memory = np.full(count + 256, 0xA5, np.uint8)
    return memory, memory[64 + start : 64 + start + count].reshape(shape)


@SETTINGS
@given(count=st.integers(0, 400), start=st.integers(0, 63), seed=st.integers(0, 9))
def test_each_byte_is_looked_up_and_no_other(context: core.Context, count: int, start: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, count, np.uint8)
    table = rng.permutation(256).astype(np.uint8)
    memory, out = guarded((count,), start)
    context.look_up(image, table.tobytes(), out)
    np.testing.assert_array_equal(out, table[image])
    assert (memory == 0xA5).sum() - (out == 0xA5).sum() == 256
    out[...] = image
    context.look_up(out, table.tobytes(), out)
    np.testing.assert_array_equal(out, table[image])


@SETTINGS
@given(height=st.integers(0, 4), width=st.integers(0, 130), start=st.integers(0, 63))
def test_rows_are_flipped_and_nothing_else(context: core.Context, height: int, width: int, start: int) -> None:
    image = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
    memory, out = guarded(image.shape, start)
    context.flip(image, out)
    np.testing.assert_array_equal(out, image[:, ::-1])
    assert (memory == 0xA5).sum() - (out == 0xA5).sum() == 256


def test_the_address_of_any_array_is_numpys() -> None:
    image = np.zeros((5, 7, 3), np.uint8)
    frozen = np.frombuffer(bytes(20), np.uint8)
    for array in (image, image[2:, 1:], image[::-1, ::-2], image[..., 1], frozen, image.astype(np.float32)):
        assert address_of(array) == array.__array_interface__["data"][0]
