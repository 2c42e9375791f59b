"""OpenCV's resize by INTER_LINEAR, by the core where the installed OpenCV computes the same bytes."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from fastpipe.kernels import trials
from fastpipe.kernels.arrays import UInt8Array, by_core

_SIZES = (
    ((37, 53), (24, 31)),
    ((53, 37), (101, 90)),
    ((375, 500), (224, 224)),
    ((96, 200), (48, 99)),
    ((1, 7), (5, 3)),
    ((300, 1), (7, 9)),
)
"""Heights and widths of the images of the trial, and of its results."""


def resized(image: UInt8Array, height: int, width: int) -> UInt8Array:
    """OpenCV's own result."""
    import cv2

    linear: Any = cv2
    made: UInt8Array = linear.resize(image, (width, height), interpolation=linear.INTER_LINEAR)
    return made


@lru_cache(maxsize=1)
def is_known() -> bool:
    """True if this OpenCV resizes as the core does, on this machine."""
    generator = np.random.default_rng(0)
    for size, wanted in _SIZES:
        image = generator.integers(0, 256, (*size, 3), dtype=np.uint8)
        ours = by_core(image, partial(_add, size=wanted), (*wanted, 3))
        if ours is None or not np.array_equal(ours, resized(image, *wanted)):
            trials.refuse("this OpenCV resizes linearly with other results than the core")
            return False
    return True


def _add(job: Any, size: tuple[int, int]) -> bool:
    job.resize_as_opencv(*size)
    return True
