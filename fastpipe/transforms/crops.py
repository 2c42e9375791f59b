"""A random resized crop and flips behind it, drawn by the core for many images in one call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from fastpipe import core, ops
from fastpipe.rng import MT19937Stream
from fastpipe.rng.draws import cached_log_ratio
from fastpipe.rng.float32 import float32, span_of
from fastpipe.rng.generators import usable
from fastpipe.rng.keys import torch_seed
from fastpipe.transforms.conversion import ConvertImageDtype, Normalize, PILToTensor, ToTensor
from fastpipe.transforms.geometry import RandomHorizontalFlip, RandomResizedCrop, RandomVerticalFlip
from fastpipe.types import Generators, ImageShape, Step

_FLIPS = (RandomHorizontalFlip, RandomVerticalFlip)
SHAPELESS = frozenset({*_FLIPS, ConvertImageDtype, Normalize, PILToTensor, ToTensor})
"""Transforms that draw the same for images of any shape."""

_NOTHING = Generators()
_ANY = ImageShape(1, 1)
Steps = tuple[Step, ...]
Shape = tuple[int, int, int]


class CropsAndFlips:
    """Transforms that the core draws in one call; see `of`.

    Attributes of the transforms are read for every call: they may change.
    """

    __slots__ = ("_behind", "_crop", "_flips")

    def __init__(self, crop: Any, behind: Sequence[Any]) -> None:
        self._crop = crop
        self._behind = behind
        self._flips = [one for one in behind if _role(one) in ("flip", "flip of pixels")]

    @classmethod
    def of(cls, transforms: Sequence[Any]) -> CropsAndFlips | None:
        """Recognises a `RandomResizedCrop`, flips, and transforms that draw nothing; None for any others."""
        roles = [_role(one) for one in transforms]
        if not roles or roles[0] != "crop" or not {"flip", "flip of pixels", "no draw"}.issuperset(roles[1:]):
            return None
        if "no draw" in roles and "flip of pixels" in roles[roles.index("no draw") :]:
            return None
        made = cls(transforms[0], transforms[1:])
        return made if len(made._flips) <= core.MOST_CHANCES else None

    def draw(self, shapes: Sequence[ImageShape], stream: MT19937Stream) -> list[Steps]:
        """Draws the steps of the first of these images; the others are to be drawn transform by transform.

        Args:
            shapes: of the images.
            stream: of a generator; it is left behind what was drawn.
        """
        steps: list[Steps] = self._steps(self.numbers(shapes, stream))
        return steps

    def draw_keyed(self, shapes: Sequence[ImageShape], keys: Sequence[int]) -> list[Steps | None]:
        """Draws each image's steps as from its `keyed_generators`; None for one to be drawn transform by transform."""
        steps: list[Steps | None] = self._steps(self.numbers_keyed(shapes, keys))
        return steps or [None] * len(shapes)

    @property
    def most_flips(self) -> int:
        """All flips that can be drawn, a bit for each."""
        return (1 << len(self._flips)) - 1

    def numbers(self, shapes: Sequence[Shape], stream: MT19937Stream) -> Sequence[core.Drawn]:
        """Draws ``(top, left, height, width, flips)`` as `draw` does, without steps."""
        draws = self._draws()
        return () if draws is None else stream.advance(lambda state: draws.from_state(state, shapes))

    def numbers_keyed(self, shapes: Sequence[Shape], keys: Sequence[int]) -> Sequence[core.Drawn]:
        """The same for `draw_keyed`: a height of 0, or no result at all, where that gives None."""
        draws = self._draws() if usable() else None
        return () if draws is None else draws.from_seeds([torch_seed(key) for key in keys], shapes)

    def _draws(self) -> core.CropDraws | None:
        if not core.available():
            return None
        crop = self._crop
        theirs = type(crop) is not RandomResizedCrop  # v2's
        if theirs and (crop.antialias is False or torch.get_default_dtype() != torch.float32):
            return None
        log_low, log_high = cached_log_ratio(tuple(crop.ratio), torch.get_default_dtype())
        return _draws(crop.scale[0], crop.scale[1], log_low, log_high, *[float(flip.p) for flip in self._flips])

    def _steps(self, drawn: Sequence[core.Drawn]) -> Any:
        tails: dict[int, Steps] = {}
        made: list[Steps | None] = []
        for top, left, height, width, flips in drawn:
            tail = tails.get(flips)
            if tail is None:
                tail = tails[flips] = self.behind_crop(flips)
            made.append((ops.Crop(top, left, height, width), *tail) if height else None)
        return made

    def behind_crop(self, flips: int) -> Steps:
        """The steps behind the crop, for these flips: a bit mask, lowest bit first."""
        steps: list[Step] = [self._crop._resize()]
        shape = _ANY
        for one in self._behind:
            if one not in self._flips:
                drawn = one.draw(shape, _NOTHING)
                for step in drawn:
                    shape = step.output_shape(shape)
                steps += drawn
            else:
                if flips & 1:
                    steps.append(one._operation())
                flips >>= 1
        return tuple(steps)


def _role(transform: Any) -> str | None:
    """``"crop"``, ``"flip"`` or ``"no draw"``, as v2's classes say themselves; their flips here are of pixels alone."""
    kind = type(transform)
    if kind is RandomResizedCrop:
        return "crop"
    if kind in SHAPELESS:
        return "flip" if kind in _FLIPS else "no draw"
    role: str | None = vars(kind).get("_role")
    return role


@lru_cache(maxsize=64)
def _draws(low: float, high: float, log_low: float, log_high: float, *chances: float) -> core.CropDraws | None:
    scale, log_ratio = span_of(low, high), span_of(log_low, log_high)
    if scale is None or log_ratio is None or not (scale.exact and log_ratio.exact):
        return None
    return core.CropDraws(scale[:3], log_ratio[:3], [float32(chance) for chance in chances])
