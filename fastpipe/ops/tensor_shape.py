"""The shape of an image that is a tensor by now, of which more is known than of pixels."""

from __future__ import annotations

from functools import lru_cache

import torch

from fastpipe.types import ImageShape


class TensorShape(ImageShape):
    """The shape of an image that is a tensor by now.

    Attributes:
        dtype: of its elements.
        pure: a plain tensor, not a ``tv_tensors.Image``.
        ahead: all that follows the conversion to a tensor so far is done before it, on pixels: see `tensor_operation`.
    """

    dtype: torch.dtype
    pure: bool
    ahead: bool

    @classmethod
    def of(cls, size: tuple[int, ...], dtype: torch.dtype, pure: bool, ahead: bool = False) -> TensorShape:
        """The shape of an image of that ``(height, width, channels)``."""
        return _tensor_shape(*size, dtype, pure, ahead)


@lru_cache(maxsize=1024)
def _tensor_shape(height: int, width: int, channels: int, dtype: torch.dtype, pure: bool, ahead: bool) -> TensorShape:
    made = TensorShape(height, width, channels)
    made.dtype, made.pure, made.ahead = dtype, pure, ahead
    return made
