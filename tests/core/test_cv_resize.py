"""The core's linear resize of OpenCV: OpenCV's own bytes, in every instruction set."""

from __future__ import annotations

from typing import Any

import core_jobs
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastpipe import core
from fastpipe.kernels import cv_resizing
from fastpipe.ops import ResizeAsOpenCv
from fastpipe.ops.base import on_array_by_core

cv2 = pytest.importorskip("cv2")
pytestmark = pytest.mark.needs_core

SIDES = st.integers(1, 150)


def photo(height: int, width: int, channels: int, seed: int = 0) -> np.ndarray:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def reference(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """OpenCV's fixed-point arithmetic, written out."""

    def axis(inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
        scale = 1.0 / (outputs / inputs)
        places = ((np.arange(outputs) + 0.5) * scale - 0.5).astype(np.float32)
        first = np.floor(places)
        part = (places - first).astype(np.float32)
        weights = np.stack([np.rint((np.float32(1) - part) * np.float32(2048)), np.rint(part * np.float32(2048))], 1)
        return first.astype(np.int64), weights.astype(np.int64)

    rows, columns, *_ = image.shape
    (across, beside), (down, below) = axis(columns, width), axis(rows, height)
    outside = (across < 0) | (across >= columns - 1)
    across, beside = np.clip(across, 0, columns - 1), np.where(outside[:, None], [2048, 0], beside)
    wide = image.reshape(rows, columns, -1).astype(np.int64)
    neighbours = wide[:, across], wide[:, np.minimum(across + 1, columns - 1)]
    sums = sum(one * weight[:, None] for one, weight in zip(neighbours, beside.T, strict=True)) >> 4
    top, bottom = np.clip(down, 0, rows - 1), np.clip(down + 1, 0, rows - 1)
    mixed = (sums[top] * below[:, 0, None, None] >> 16) + (sums[bottom] * below[:, 1, None, None] >> 16)
    return ((mixed + 2) >> 2).astype(np.uint8).reshape(height, width, *image.shape[2:])


def made(image: np.ndarray, height: int, width: int) -> Any:
    return on_array_by_core(ResizeAsOpenCv(height, width), image)


def check(image: np.ndarray, height: int, width: int) -> None:
    """Asserts that each instruction set makes the reference's bytes."""
    expected = reference(image, height, width)
    for isa in core_jobs.isas():
        shape = (*expected.shape, 1) if expected.ndim == 2 else expected.shape
        found = core_jobs.pixels(core.Context(isa), image, shape, ("resize_as_opencv", height, width))
        assert np.array_equal(found.reshape(expected.shape), expected), isa


@settings(deadline=None)
@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from([1, 3]), st.integers(0, 9))
@example(1, 1, 1, 1, 3, 0)
@example(1, 1, 224, 224, 3, 0)
@example(375, 500, 224, 224, 3, 0)
@example(1000, 1500, 256, 384, 3, 0)
@example(64, 64, 1024, 1100, 3, 0)
@example(64, 64, 32, 64, 3, 0)
def test_opencvs_bytes(rows: int, columns: int, height: int, width: int, channels: int, seed: int) -> None:
    image = photo(rows, columns, channels, seed)
    if (rows, columns) == (2 * height, 2 * width):
        assert made(image, height, width) is None  # OpenCV takes means of four pixels
        return
    check(image, height, width)
    if cv_resizing.is_known() and (rows, columns) != (height, width):
        assert np.array_equal(made(image, height, width), cv_resizing.resized(image, height, width))


def test_views_and_flips() -> None:
    image = photo(40, 61, 3)
    for view in (image[::-1], image[:, ::-1], image[3:30, 5:50], image[::2, ::3]):
        check(view, 23, 31)


def test_another_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    cv_resizing.is_known.cache_clear()
    monkeypatch.setattr(cv_resizing, "resized", lambda image, height, width: np.zeros((height, width, 3), np.uint8))
    assert not cv_resizing.is_known()
    monkeypatch.undo()
    cv_resizing.is_known.cache_clear()
