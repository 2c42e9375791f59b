"""What all kernels share about arrays: their types, and cv2's habit of dropping a channel axis of one."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["FloatArray", "UInt8Array", "like"]

UInt8Array: TypeAlias = npt.NDArray[np.uint8]
FloatArray: TypeAlias = npt.NDArray[np.float32]


def like(result: npt.NDArray[np.uint8], image: UInt8Array) -> UInt8Array:
    """``result`` with the channel axis that ``image`` has: cv2 returns ``(H, W)`` for ``(H, W, 1)``."""
    return result[..., None] if image.ndim == 3 and result.ndim == 2 else result
