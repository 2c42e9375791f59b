"""Helpers of the kernels: channels of arrays, an axis that Pillow drops, single operations by the core or Pillow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from fastpipe import core
from fastpipe.core.addresses import address_of
from fastpipe.types import Array

UInt8Array: TypeAlias = npt.NDArray[np.uint8]


def channels(image: Array) -> int:
    """The number of channels; 1 for an array ``(H, W)``."""
    return 1 if image.ndim == 2 else image.shape[2]


def like(result: UInt8Array, image: UInt8Array) -> UInt8Array:
    """``result`` with a channel axis if ``image`` has one: Pillow has none for gray."""
    return result[..., None] if image.ndim == 3 and result.ndim == 2 else result


def by_core(image: UInt8Array, add: Callable[[core.Job], bool], shape: tuple[int, ...]) -> UInt8Array | None:
    """Runs the operation that ``add`` adds to a job; ``shape`` is the result's. None if the core can't do it."""
    if channels(image) not in (1, 3) or not image.size or not core.available():
        return None
    job = core.thread_job()
    job.read_pixels(image)
    if not add(job):
        core.give_back(job)
        return None
    out = np.empty(shape, np.uint8)
    job.write_pixels(address_of(out), shape[0], shape[1], 1 if len(shape) == 2 else shape[2])
    return out if core.check_or_unsure(core.run_thread_job(job)) else None


def through_pillow(image: UInt8Array, operation: Callable[[Image.Image], Image.Image]) -> UInt8Array:
    """Runs ``operation`` on the array as a Pillow image of one, three or four channels."""
    if channels(image) == 2:  # Pillow's mode with two channels is LA, with alpha
        return through_pillow(np.dstack([image, np.zeros_like(image)]), operation)[..., :2]
    if channels(image) == 4:
        # RGBX, unlike RGBA, has no alpha that Pillow would multiply into the colours.
        picture = Image.frombytes("RGBX", (image.shape[1], image.shape[0]), image.tobytes())
    else:
        picture = Image.fromarray(image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image)
    return like(np.array(operation(picture)), image)
