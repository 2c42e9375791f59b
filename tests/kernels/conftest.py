"""Images that the kernels are held against torchvision on: photo-like, odd, flat, gray, tiny."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

UInt8Array = npt.NDArray[np.uint8]


def _photo(height: int, width: int, seed: int) -> UInt8Array:
    """Soft shapes, edges and grain, as in a photograph."""
    rng = np.random.default_rng(seed)
    coarse = rng.uniform(0, 255, (max(height // 16, 2), max(width // 16, 2), 3)).astype(np.float32)
    image = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    y, x = np.mgrid[:height, :width]
    image[(x * 2 + y) % 61 < 17] *= 0.5
    return np.clip(image + rng.normal(0, 6, image.shape), 0, 255).astype(np.uint8)


IMAGES = {
    "photo": _photo(123, 187, 0),
    "tall": _photo(160, 61, 1),
    "noise": np.random.default_rng(2).integers(0, 256, (47, 53, 3), dtype=np.uint8),
    "gray": _photo(70, 91, 3)[..., 1],
    "one channel": _photo(64, 45, 4)[..., :1],
    "flat": np.full((20, 31, 3), 117, dtype=np.uint8),
    "few levels": np.random.default_rng(5).integers(0, 3, (33, 29, 3), dtype=np.uint8) * 120,
    "view": _photo(90, 130, 6)[7:80, 11:101],
    "row": _photo(17, 40, 7)[:1],
    "column": _photo(40, 17, 8)[:, :1],
    "two by two": _photo(16, 16, 9)[:2, :2],
    "pixel": np.array([[[3, 200, 77]]], dtype=np.uint8),
    "gray pixel": np.array([[9]], dtype=np.uint8),
}


@pytest.fixture(params=list(IMAGES))
def image(request: pytest.FixtureRequest) -> UInt8Array:
    return IMAGES[request.param]


@pytest.fixture
def photo() -> UInt8Array:
    return IMAGES["photo"]


@pytest.fixture
def to_pil() -> Callable[[UInt8Array], Image.Image]:
    """The array as torchvision would meet it."""
    return lambda array: Image.fromarray(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array)


@pytest.fixture
def distance() -> Callable[[UInt8Array, Image.Image], UInt8Array]:
    """The absolute differences of a kernel's result from a PIL image, whose size must be the same."""

    def measure(result: UInt8Array, expected: Image.Image) -> UInt8Array:
        reference = np.asarray(expected)
        if result.ndim == 3 and reference.ndim == 2:
            reference = reference[..., None]
        assert result.dtype == np.uint8
        assert result.shape == reference.shape
        return np.abs(result.astype(np.int16) - reference).astype(np.uint8)

    return measure
