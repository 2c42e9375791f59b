"""float32 arithmetic of torch's generator: its rounding, and how it differs by version, build and processor."""

from __future__ import annotations

import functools
import math
import struct
from typing import NamedTuple

import torch

STEP = 2.0**-24
"""The factor that maps the low 24 bits of a word to [0, 1)."""

_FLOAT = struct.Struct("f")
pack, unpack = _FLOAT.pack, _FLOAT.unpack
"""``unpack(pack(x))[0]`` rounds a number to float32."""
_DOUBLE, _BITS = struct.Struct("=d"), struct.Struct("=Q")


@functools.lru_cache(maxsize=1024)
def float32(value: float) -> float:
    """Rounds a number as torch does to compare it with a float32 tensor."""
    try:
        rounded: float = unpack(pack(value))[0]
    except OverflowError:
        rounded = math.copysign(math.inf, value)
    return rounded


@functools.lru_cache(maxsize=64)
def log_ratio(ratio: tuple[float, ...], dtype: torch.dtype) -> list[float]:
    """The logarithms in float32, as torchvision rounds them; ``dtype``, torch's default, only keys the cache."""
    logarithms: list[float] = torch.log(torch.tensor(ratio)).tolist()
    return logarithms


class Span(NamedTuple):
    """The range of a uniform draw, in float32, as torch computes with it.

    Attributes:
        start, width: the range's start and its width.
        end: the value that torch replaces by the start; NaN if it replaces none.
        exact: whether float64 holds a drawn number exactly before it is rounded to float32.
    """

    start: float
    width: float
    end: float
    exact: bool


@functools.lru_cache(maxsize=4096)
def span_of(low: float, high: float) -> Span | None:
    """The `Span` of a uniform draw's range.

    None for a range that torch has to handle: one that it refuses, or with numbers near the limits of float32, which
    processors may be set to flush to zero.
    """
    if not (isinstance(low, int | float) and isinstance(high, int | float) and -1e30 <= low <= high <= 1e30):
        return None
    start, end = float32(low), float32(high)
    width = float32(end - start)
    if 0 < abs(start) < 1e-30 or 0 < width < 1e-30:
        return None
    # A sum is a multiple of the lowest bit of either number: float64 holds it up to 2**53 times that bit.
    smallest = min(_last_bit(width) * STEP, _last_bit(start))
    exact = arithmetic().fused and abs(start) + width <= smallest * 2.0**53
    return Span(start, width, end if arithmetic().half_open else math.nan, exact)


def _last_bit(value: float) -> float:
    """The value of the lowest of a float32's 24 bits; infinite for 0, which has none."""
    return math.ldexp(1.0, math.frexp(value)[1] - 24) if value else math.inf


def multiply_add(fraction: float, width: float, start: float) -> float:
    """``fraction * width + start`` in float32, rounded once, or twice as in a torch without fused multiply-add."""
    product = fraction * width  # exact, with at most 48 bits
    value: float
    if not arithmetic().fused:
        value = unpack(pack(unpack(pack(product))[0] + start))[0]
        return value
    total = product + start
    part = total - product
    missing = (product - (total - part)) + (start - part)  # the exact rounding error of the sum
    if missing and not _BITS.unpack(_DOUBLE.pack(total))[0] & 1:
        # Round to odd: with round to even, the second rounding might take the sum for a tie between two float32
        # numbers that it isn't.
        total = math.nextafter(total, math.copysign(math.inf, missing))
    value = unpack(pack(total))[0]
    return value


class Arithmetic(NamedTuple):
    """Properties of torch's arithmetic that differ by version, build and processor.

    Attributes:
        fused: whether ``uniform_`` multiplies and adds with one rounding.
        half_open: whether ``uniform_`` gives the start of its range for a number that rounds to its end.
        wide: from this many integers on, ``randint`` uses two words to choose one.
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
    words = int(twister.get_state()[16])  # the number of words taken
    return Arithmetic(
        _some(low, high) == expected, max(_some(1.0, 1.0 + 2**-23)) == 1.0, 2**32 if words == 1 else 2**28
    )


def _some(low: float, high: float) -> list[float]:
    values = torch.empty([256], dtype=torch.float32, device="cpu")
    some: list[float] = values.uniform_(low, high, generator=torch.Generator().manual_seed(1)).tolist()
    return some
