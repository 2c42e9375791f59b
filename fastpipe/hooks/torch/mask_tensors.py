"""Functions of torch that are slow on masks, made faster while a dataset that decodes COCO's masks makes a sample.

torch goes byte by byte through column-major masks, as from pycocotools, and through masks selected by a bool tensor:
0.5 ns a byte for ``any(dim=2)`` and ``stack``, 0.6 for ``masks[keep]``; a plain copy takes 0.03.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fastpipe import core
from fastpipe.core.masks import turn_planes
from fastpipe.hooks.faster_function import FasterFunction
from fastpipe.hooks.patches import Function, are_in_force

_LEAST = 1 << 12
"""Bytes of masks from which on a call takes longer than checking its arguments."""


class MaskMode(TorchFunctionMode):
    """Makes torch's functions on masks faster while samples are made."""

    sees_transforms = False  # see `fastpipe.torch_modes`

    def __torch_function__(
        self, function: Function, kinds: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        if are_in_force():
            function = _FASTER.get(function, function)
        return function(*args, **kwargs) if kwargs else function(*args)


class _Any(FasterFunction):
    """``mask.any(dim=2)`` of a column-major mask ``(H, W, N)``."""

    def takes(self, *args: object, **kwargs: object) -> bool:
        mask, *dims = *args, *kwargs.values()
        if dims not in ([2], [-1]) or type(dims[0]) is not int or (kwargs and kwargs.keys() != {"dim"}):
            return False
        return _lies_in_columns(mask, 3)

    def make(self, mask: torch.Tensor, *dims: object, **kwargs: object) -> torch.Tensor | str:
        height, width, parts = mask.shape
        out = torch.empty((height, width), dtype=torch.uint8)
        done = _turn(mask, (parts, height, width), out, any_plane=True)
        return out if done else "masks that the core refuses"


class _Stack(FasterFunction):
    """``torch.stack(masks)`` of column-major masks ``(H, W)``."""

    def takes(self, *args: Any, **kwargs: Any) -> bool:
        masks, *dims = *args, *kwargs.values()
        if type(masks) not in (list, tuple) or (kwargs and kwargs.keys() != {"dim"}):
            return False
        if dims not in ([], [0]) or not all(_lies_in_columns(mask, 2) for mask in masks):
            return False
        return len({mask.shape for mask in masks}) == 1

    def make(self, masks: Sequence[torch.Tensor], *dims: object, **kwargs: object) -> torch.Tensor | str:
        out = torch.empty((len(masks), *masks[0].shape), dtype=torch.uint8)
        done = all(_turn(mask, (1, *mask.shape), to, any_plane=False) for mask, to in zip(masks, out, strict=True))
        return out if done else "masks that the core refuses"


class _GetItem(FasterFunction):
    """``masks[keep]`` of masks ``(N, H, W)``, by a bool tensor ``(N,)``."""

    def takes(self, masks: torch.Tensor, keep: object) -> bool:
        if type(keep) is not torch.Tensor or keep.dtype is not torch.bool or not _is_of_masks(type(masks)):
            return False
        if masks.dtype not in (torch.uint8, torch.bool) or (masks.ndim, keep.ndim) != (3, 1) or masks.numel() < _LEAST:
            return False
        return len(keep) == len(masks) and masks.is_contiguous() and masks.is_cpu and keep.is_cpu

    def make(self, masks: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return masks.index_select(0, keep.nonzero().squeeze(1))


def _is_of_masks(kind: type) -> bool:
    """True for the class of tensors or of torchvision's masks, for which the result has the same class."""
    return kind is torch.Tensor or kind is getattr(sys.modules.get("torchvision.tv_tensors"), "Mask", None)


def _lies_in_columns(mask: object, dimensions: int) -> bool:
    """True for a plain, column-major uint8 tensor ``(H, W)`` or ``(H, W, N)`` without gaps."""
    if type(mask) is not torch.Tensor or mask.dtype is not torch.uint8 or mask.ndim != dimensions or not mask.is_cpu:
        return False
    height, width = mask.shape[:2]
    strides = (1, height, height * width)[:dimensions]
    return mask.numel() >= _LEAST and min(height, width) > 1 and mask.stride() == strides


def _turn(mask: torch.Tensor, shape: tuple[int, ...], out: torch.Tensor, *, any_plane: bool) -> bool:
    return turn_planes(core.thread_context(), mask.data_ptr(), shape, out.data_ptr(), any_plane=any_plane)


_FASTER: dict[object, Function] = {
    torch.Tensor.any: _Any("torch.Tensor.any", torch.Tensor.any),
    torch.any: _Any("torch.any", torch.any),
    torch.stack: _Stack("torch.stack", torch.stack),
    torch.Tensor.__getitem__: _GetItem("torch.Tensor.__getitem__", torch.Tensor.__getitem__),
}
