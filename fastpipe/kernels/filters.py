"""Neighbourhood filters of uint8 arrays: sharpness bit-equal to torchvision on PIL images, the blur within 1/255.

Arrays are uint8 ``(H, W)`` or ``(H, W, C)``, may be non-contiguous views, and are never changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from fastpipe.kernels._arrays import UInt8Array, like


def gaussian_blur(image: UInt8Array, kernel_size: Sequence[int], sigma: Sequence[float]) -> UInt8Array:
    """Blur by a Gaussian cut off to ``kernel_size``, edges reflected without repeating the edge pixel.

    Args:
        image: uint8 ``(H, W)`` or ``(H, W, C)``.
        kernel_size: columns and rows of the kernel ``(x, y)``, odd.
        sigma: standard deviations ``(x, y)`` in pixels, positive.
    """
    if image.size == 0:
        return np.zeros(image.shape, np.uint8)
    kernel_x = _gaussian_kernel(kernel_size[0], sigma[0])
    kernel_y = _gaussian_kernel(kernel_size[1], sigma[1])
    blurred = cv2.sepFilter2D(image, cv2.CV_32F, kernel_x, kernel_y, borderType=cv2.BORDER_REFLECT_101)
    return like(cv2.convertScaleAbs(blurred), image)


def _gaussian_kernel(size: int, sigma: float) -> npt.NDArray[np.float32]:
    half = (size - 1) * 0.5
    weights = np.exp(-0.5 * (np.linspace(-half, half, size) / sigma) ** 2)
    result: npt.NDArray[np.float32] = (weights / weights.sum()).astype(np.float32)
    return result
