"""Operations that are drawn again and again, each made once: what is worked out about one is kept with it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fastpipe.ops.base import interned
from fastpipe.ops.geometry import CenterCrop, Crop, Pad, Resize

_FEW_PLACES = 1024
_SEQUENCES = (list, tuple)


def crop_at(top: int, left: int, height: int, width: int, places: int) -> Crop:
    """A crop that was drawn from so many places; interned where they are few."""
    return _crop(top, left, height, width) if places <= _FEW_PLACES else Crop(top, left, height, width)


def center_crop_to(size: Any) -> CenterCrop:
    """The crop of the middle; interned, as the others here, where its arguments are hashable."""
    kind, sides = _numbers(size)
    try:
        return _center_crop(kind, *sides)
    except TypeError:
        return CenterCrop(size)


def pad_by(padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Pad:
    """A border around the image."""
    kind, sides = _numbers(padding)
    fill_kind, fills = _numbers(fill)
    try:
        return _pad(kind, fill_kind, padding_mode, len(sides), *sides, *fills)
    except TypeError:
        return Pad(padding, fill, padding_mode)


def resize_to(size: Any, interpolation: Any, max_size: int | None = None, antialias: bool | None = None) -> Resize:
    """The image at another size."""
    kind, sides = _numbers(size)
    try:
        return _resize(kind, interpolation, max_size, antialias, *sides)
    except TypeError:
        return Resize(size, interpolation, max_size, antialias)


def _numbers(value: Any) -> tuple[Any, Any]:
    """What the numbers are in, None for nothing, and the numbers."""
    kind = type(value)
    return (kind, value) if kind in _SEQUENCES else (None, (value,))


def _again(kind: Any, numbers: tuple[Any, ...]) -> Any:
    return numbers[0] if kind is None else kind(numbers)


# typed: to Python 1, 1.0 and True are the same key, and to a transform they aren't the same argument.


@lru_cache(maxsize=4096, typed=True)
def _crop(top: int, left: int, height: int, width: int) -> Crop:
    return interned(Crop(top, left, height, width))


@lru_cache(maxsize=64, typed=True)
def _center_crop(kind: Any, *sides: Any) -> CenterCrop:
    return interned(CenterCrop(_again(kind, sides)))


@lru_cache(maxsize=256, typed=True)
def _pad(kind: Any, fill_kind: Any, padding_mode: str, count: int, *numbers: Any) -> Pad:
    return interned(Pad(_again(kind, numbers[:count]), _again(fill_kind, numbers[count:]), padding_mode))


@lru_cache(maxsize=256, typed=True)
def _resize(kind: Any, interpolation: Any, max_size: Any, antialias: Any, *sides: Any) -> Resize:
    return interned(Resize(_again(kind, sides), interpolation, max_size, antialias))
