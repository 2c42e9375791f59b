"""Contiguous copies of flipped and transposed images, by OpenCV."""

from __future__ import annotations

import sys

import numpy as np


def turned(array: object) -> object:
    """Copies a flipped or transposed view of an image to a new array by OpenCV; None for any other array.

    ``Transpose``, ``RandomRotate90`` and ``D4`` give such views. numpy copies them value by value; OpenCV takes a tenth
    of the time.
    """
    if type(array) is not np.ndarray or array.flags.c_contiguous or array.dtype not in (np.uint8, np.float32):
        return None
    if not array.size or array.ndim not in (2, 3) or array.shape[2:] not in ((), (2,), (3,), (4,)):
        return None
    cv2 = sys.modules["cv2"]
    upended, flipped = (stride < 0 for stride in array.strides[:2])
    upright = array[:: -1 if upended else 1, :: -1 if flipped else 1]
    across = upright.swapaxes(0, 1)
    if across.flags.c_contiguous:
        result = cv2.transpose(across)
    elif upright.flags.c_contiguous:
        result = upright
    else:
        return None
    return cv2.flip(result, -1 if upended and flipped else int(flipped)) if upended or flipped else result
