"""Random crops and flips of many images, drawn in one call from torch's own generator state or from seeds."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from itertools import chain
from struct import Struct

from fastpipe.core.library import quick
from fastpipe.core.structs import RawCrops

MOST_CHANCES = 4

_DRAWN = Struct("@5i")
_SIZE = _DRAWN.size
_EMPTY = array("i", bytes(_SIZE))

Range = tuple[float, float, float]
Drawn = tuple[int, int, int, int, int]


class CropDraws:
    """Draws of `RandomResizedCrop` and of the flips behind it; fpc_crops.

    An image's draw is ``(top, left, height, width, flips)``; flips has the first in its lowest bit.

    Args:
        scale, log_ratio: start, width and end of the ranges, as fpc_range has them.
        chances: of each flip, at most `MOST_CHANCES`; numbers that float32 has.
    """

    __slots__ = ("_address", "_draw", "_raw")

    def __init__(self, scale: Range, log_ratio: Range, chances: Sequence[float]) -> None:
        padded = (*chances, *(0.0,) * (MOST_CHANCES - len(chances)))
        self._raw = RawCrops(scale, log_ratio, padded, len(chances))
        self._address = ctypes.addressof(self._raw)
        self._draw = quick().fpc_draw_crops

    def from_state(self, state: int, shapes: Sequence[tuple[int, int, int]]) -> list[Drawn]:
        """Draws for one image after the other.

        Args:
            state: the address of what torch's ``get_state`` gives for a CPU generator; it is advanced.
            shapes: ``(height, width, channels)`` of each image.

        Returns:
            The draws, up to the first image whose crop is only known to who calls torch: the state is at that.
        """
        count = len(shapes)
        sizes, drawn = array("i", chain.from_iterable(shapes)), _EMPTY * count
        done = self._draw(self._address, state, sizes.buffer_info()[0], count, drawn.buffer_info()[0])
        return list(_DRAWN.iter_unpack(drawn))[:done]

    def from_seeds(self, seeds: Sequence[int], shapes: Sequence[tuple[int, int, int]]) -> list[Drawn]:
        """The same, each with the numbers of ``torch.Generator().manual_seed(seed)``; height 0 where it isn't known."""
        count = len(shapes)
        sizes, drawn, keys = array("i", chain.from_iterable(shapes)), _EMPTY * count, array("Q", seeds)
        into = drawn.buffer_info()[0]
        quick().fpc_draw_seeded(self._address, keys.buffer_info()[0], sizes.buffer_info()[0], count, into)
        return list(_DRAWN.iter_unpack(drawn))
