"""The shape of an image that has been converted to a tensor."""

from __future__ import annotations

from functools import lru_cache

import torch

from fastpipe.types import ImageShape


class TensorShape(ImageShape):
    """The shape of an image that has been converted to a tensor.

    Attributes:
        dtype: the tensor's dtype.
        pure: a plain tensor, not a ``tv_tensors.Image``.
        ahead: all operations since the conversion run before it, on pixels: see `tensor_operation`.
    """

    dtype: torch.dtype
    pure: bool
    ahead: bool

    @classmethod
    def of(cls, size: tuple[int, ...], dtype: torch.dtype, pure: bool, ahead: bool = False) -> TensorShape:
        """Makes the shape of a tensor image from its ``(height, width, channels)``."""
        return _tensor_shape(*size, dtype, pure, ahead)


@lru_cache(maxsize=1024)
def _tensor_shape(height: int, width: int, channels: int, dtype: torch.dtype, pure: bool, ahead: bool) -> TensorShape:
    shape = TensorShape(height, width, channels)
    shape.dtype, shape.pure, shape.ahead = dtype, pure, ahead
    return shape
