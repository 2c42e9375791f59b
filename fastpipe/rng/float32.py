"""float32 arithmetic of torch's generator: its rounding, and the differences of versions, builds and processors."""

from __future__ import annotations

import functools
import math
import struct
from typing import NamedTuple

import torch

STEP = 2.0**-24
"""The factor of a word's last 24 bits."""

_FLOAT = struct.Struct("f")
pack, unpack = _FLOAT.pack, _FLOAT.unpack
"""``unpack(pack(x))[0]`` is a number rounded to float32."""
_DOUBLE, _BITS = struct.Struct("=d"), struct.Struct("=Q")


@functools.lru_cache(maxsize=1024)
def float32(value: float) -> float:
    """A number rounded as torch rounds one that it compares with a float32 tensor."""
    try:
        rounded: float = unpack(pack(value))[0]
    except OverflowError:
        rounded = math.copysign(math.inf, value)
    return rounded


@functools.lru_cache(maxsize=64)
def log_ratio(ratio: tuple[float, ...], dtype: torch.dtype) -> list[float]:
    """The logarithms in float32 (torch's default ``dtype``, which is part of the key), as torchvision rounds them."""
    logarithms: list[float] = torch.log(torch.tensor(ratio)).tolist()
    return logarithms


class Span(NamedTuple):
    """A range of floats as torch works with it, in float32.

    Attributes:
        start, width: its start, and how far its end is from there.
        end: the number for which torch gives the start instead; NaN where torch lets it be.
        exact: whether a number, in float64, is exact before it is rounded to float32.
    """

    start: float
    width: float
    end: float
    exact: bool


@functools.lru_cache(maxsize=4096)
def span_of(low: float, high: float) -> Span | None:
    """The span of a range.

    None for what is left to torch: ranges that it refuses, and numbers at the ends of float32's own range, where
    processors may be told to flush them to zero.
    """
    if not (isinstance(low, int | float) and isinstance(high, int | float) and -1e30 <= low <= high <= 1e30):
        return None
    start, end = float32(low), float32(high)
    width = float32(end - start)
    if 0 < abs(start) < 1e-30 or 0 < width < 1e-30:
        return None
    # A sum is a multiple of the smallest bit of either number: float64 holds it if it is at most 2**53 times that.
    smallest = min(_last_bit(width) * STEP, _last_bit(start))
    exact = arithmetic().fused and abs(start) + width <= smallest * 2.0**53
    return Span(start, width, end if arithmetic().half_open else math.nan, exact)


def _last_bit(value: float) -> float:
    """The value of the last of a float32's 24 bits; infinite for 0, which has none."""
    return math.ldexp(1.0, math.frexp(value)[1] - 24) if value else math.inf


def multiply_add(fraction: float, width: float, start: float) -> float:
    """``fraction * width + start`` of float32 numbers, rounded to float32 once, or twice where torch is built so."""
    product = fraction * width  # 48 bits: exact
    value: float
    if not arithmetic().fused:
        value = unpack(pack(unpack(pack(product))[0] + start))[0]
        return value
    total = product + start
    part = total - product
    missing = (product - (total - part)) + (start - part)  # what the sum has lost, exactly
    if missing and not _BITS.unpack(_DOUBLE.pack(total))[0] & 1:
        # Rounded to odd, the sum has a trace of what it lost; rounded to even, the next rounding might take a
        # number for the middle between two that isn't.
        total = math.nextafter(total, math.copysign(math.inf, missing))
    value = unpack(pack(total))[0]
    return value


class Arithmetic(NamedTuple):
    """torch's arithmetic, as far as versions, builds and processors differ in it.

    Attributes:
        fused: whether ``uniform_`` multiplies and adds with one rounding.
        half_open: whether ``uniform_`` gives the start of its range for a number that is rounded to its end.
        wide: from how many integers on ``randint`` takes two words to choose one.
    """

    fused: bool
    half_open: bool
    wide: int


@functools.cache
def arithmetic() -> Arithmetic:
    """The arithmetic of this torch."""
    low, high = float32(0.3), float32(1.7)
    # In float64 these sums are exact.
    expected = [unpack(pack(x * float32(high - low) + low))[0] for x in _some(0.0, 1.0)]
    twister = torch.Generator().manual_seed(0)
    torch.randint(0, 2**28, [1], generator=twister)
    words = int(twister.get_state()[16])  # how many were taken
    return Arithmetic(
        _some(low, high) == expected, max(_some(1.0, 1.0 + 2**-23)) == 1.0, 2**32 if words == 1 else 2**28
    )


def _some(low: float, high: float) -> list[float]:
    values = torch.empty([256], dtype=torch.float32, device="cpu")
    some: list[float] = values.uniform_(low, high, generator=torch.Generator().manual_seed(1)).tolist()
    return some
