"""COCO's masks by the core: run lengths drawn as pycocotools draws them, hostile ones refused, planes turned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastpipe import core
from fastpipe.core.addresses import address_of
from fastpipe.core.masks import draw_runs, turn_planes

pytestmark = pytest.mark.needs_core
SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
sides = st.integers(1, 90)


def guarded(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Memory, and its middle: bytes that may be written, between others."""
    memory = np.full(count + 256, 0xA5, np.uint8)
    return memory, memory[128 : 128 + count]


def assert_nothing_else_is_written(memory: np.ndarray) -> None:
    assert (memory[:128] == 0xA5).all()
    assert (memory[-128:] == 0xA5).all()


def drawn(text: bytes, size: int) -> np.ndarray | None:
    """The core's mask; None where it refuses."""
    memory, out = guarded(size)
    done = draw_runs(text, address_of(out), size)
    assert_nothing_else_is_written(memory)
    return out if done else None


def text_of(runs: list[int]) -> bytes:
    """Run lengths in COCO's text: 5 bits a character, the lowest first; from the fourth on as differences."""
    text = bytearray()
    for place, run in enumerate(runs):
        rest = run - runs[place - 2] if place > 2 else run
        while True:
            bits, rest = rest & 31, rest >> 5
            ends = rest == (-1 if bits & 16 else 0)
            text.append(48 + bits + (0 if ends else 32))
            if ends:
                break
    return bytes(text)


@given(runs=st.lists(st.one_of(st.integers(0, 3), st.integers(0, 70_000)), max_size=60))
def test_zeros_and_ones_in_turn(runs: list[int]) -> None:
    size = sum(runs)
    expected = np.repeat(np.arange(len(runs)) % 2, runs).astype(np.uint8)
    made = drawn(text_of(runs), size)
    assert made is not None
    np.testing.assert_array_equal(made, expected)
    assert drawn(text_of(runs), size + 1) is None
    assert size == 0 or drawn(text_of(runs), size - 1) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (b"4", 3),  # more than there is
        (b"?", 3),  # less than nothing
        (b"31o?", 7),  # the fourth run goes below 0
        (b"3T", 3),  # ends within a number
        (b"QQQQQQ0", 1),  # a number of seven characters
        (b"3\0", 3),
        (b"/3", 3),
        (b"p3", 3),
        (b"\xff3", 3),
        (b"oooooo", 3),
        (b"", 3),
    ],
)
def test_what_is_no_mask_of_the_size_is_refused(text: bytes, size: int) -> None:
    assert drawn(text, size) is None


@given(text=st.binary(max_size=40), size=st.integers(1, 200))
def test_any_bytes(text: bytes, size: int) -> None:
    """Bytes in COCO's alphabet, and any others: what is drawn is what pycocotools decodes."""
    _mask = pytest.importorskip("pycocotools._mask")
    for one in (text, bytes(48 + byte % 64 for byte in text)):
        made = drawn(one, size)
        if made is not None:
            expected: Any = _mask.decode([{"size": [size, 1], "counts": one}])
            np.testing.assert_array_equal(made, expected[:, 0, 0])


@SETTINGS
@given(height=sides, width=sides, planes=st.integers(1, 3), most=st.sampled_from([1, 255]), seed=st.integers(0, 99))
def test_planes_are_turned(context: core.Context, height: int, width: int, planes: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lying = rng.integers(0, most + 1, (planes, width, height), np.uint8)
    lying *= rng.integers(0, 2, (width, height), np.uint8)
    upright = lying.transpose(0, 2, 1)
    shape = planes, height, width
    memory, out = guarded(lying.size)
    assert turn_planes(context, address_of(lying), shape, address_of(out), any_plane=False)
    np.testing.assert_array_equal(out.reshape(shape), upright)
    assert_nothing_else_is_written(memory)
    memory, out = guarded(height * width)
    assert turn_planes(context, address_of(lying), shape, address_of(out), any_plane=True)
    np.testing.assert_array_equal(out.reshape(height, width), upright.any(axis=0))
    assert_nothing_else_is_written(memory)


@pytest.mark.parametrize("shape", [(0, 5, 5), (1, 0, 5), (1, 5, -1), (2**31 - 1, 2**31 - 1, 2**31 - 1)])
def test_impossible_planes_are_refused(context: core.Context, shape: tuple[int, int, int]) -> None:
    out = np.zeros(25, np.uint8)
    assert not turn_planes(context, address_of(out), shape, address_of(out), any_plane=True)
