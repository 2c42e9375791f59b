"""albumentations' checks of boxes, without work whose result is known."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpipe.interop.transforms.known_code import has_code

_CHECK = "5eae0499ecdba183"
"""Fingerprint of albumentations' ``check_bboxes``."""


class FilterOfBoxes:
    """albumentations' ``filter_bboxes``, which runs after each transform; keeps its last result for the same boxes.

    The result depends on the arguments only, so it is the same after a transform that only changes pixels.

    Args:
        plain: albumentations' function.
    """

    def __init__(self, plain: Callable[..., Any]) -> None:
        self._plain = plain
        self._last: tuple[tuple[object, ...], NDArray[np.generic]] | None = None

    def __call__(self, *args: object, **kwargs: object) -> object:
        key, last = _key_of_boxes(*args, **kwargs), self._last
        if key is not None and last is not None and key == last[0]:
            return last[1].copy()
        result = self._plain(*args, **kwargs)
        if key is not None and result.size:
            self._last = key, result.copy()
        return result


def _key_of_boxes(
    bboxes: object = None, shape: object = None, *others: object, **named: object
) -> tuple[object, ...] | None:
    """A key of all that a result depends on; None for arguments other than those that `Compose` gives."""
    if type(bboxes) is not np.ndarray or bboxes.ndim != 2 or bboxes.dtype.kind != "f" or type(shape) is not dict:
        return None
    numbers = (*shape.values(), *others, *named.values())
    if not {*map(type, numbers)} <= {int, float, type(None)}:
        return None
    return bboxes.tobytes(), bboxes.shape, bboxes.dtype, tuple(shape), tuple(named), numbers


def are_clearly_valid(bboxes: object) -> bool:
    """True for boxes that albumentations' ``check_bboxes`` accepts without its ``np.isclose``."""
    if type(bboxes) is not np.ndarray or bboxes.ndim != 2 or bboxes.shape[1] <= 3:
        return False
    corners = bboxes[:, :4]
    is_inside = ((corners >= 0) & (corners <= 1)).all()
    return bool(is_inside and (corners[:, 2:] > corners[:, :2]).all())


@lru_cache(maxsize=1)
def is_known_check(check: Callable[..., Any]) -> bool:
    """True if this is the ``check_bboxes`` for which `are_clearly_valid` was written."""
    return has_code([check], _CHECK)
