"""`Program`: the work on one image, from the file's pixels to its place in a batch. Frozen and printable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from fastpipe.ops import Memo, TensorConversion, contracts_of
from fastpipe.ops.base import EXACT, Contract
from fastpipe.types import Box, ImageShape, Step


class Program(NamedTuple):
    """The work on one image, from its file to its place in a batch.

    Attributes:
        shape: the shape of the image as it is stored.
        region: the box of pixels that is decoded; None for all.
        steps: the steps on these pixels, a uint8 array ``(H, W, C)``, in order and in the region's coordinates; steps
            of an EXIF orientation are among them. A `ResizeAsFloats`, always the last one, gives floats.
        conversion: the conversion to a tensor; None if `after` has torchvision's own, or the result is no tensor.
        after: the steps after the conversion.
        result: the shape after `steps`.
        tv_image: a sample is a ``tv_tensors.Image``, as in v2; in a batch it is a plain tensor.
        in_rows: torchvision's tensor would be interleaved in memory, as Pillow's pixels are.
        keeps_info: True if a resulting PIL image has the input's ``info``, as Pillow's would; False if it has none.
            None if the result is a tensor, or if a foreign step decides.
        memo: the cache of a program that is used again, or whose steps are; else None. It has `Memo.jobs` if the whole
            program is used again, for images of this shape.
    """

    shape: ImageShape
    region: Box | None
    steps: tuple[Step, ...]
    conversion: TensorConversion | None
    after: tuple[Step, ...]
    result: ImageShape
    tv_image: bool = False
    in_rows: bool = False
    keeps_info: bool | None = None
    memo: Memo | None = None

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """The steps, the conversion and the steps after it."""
        return (*self.steps, *(() if self.conversion is None else (self.conversion,)), *self.after)

    @property
    def box(self) -> Box:
        """The region of the stored image that is decoded, also if it is the whole image."""
        return self.region or Box(0, 0, *self.shape.size)

    def __str__(self) -> str:
        box = self.box
        decode = f"decode rows {box.top}–{box.bottom}, columns {box.left}–{box.right}"
        return " → ".join([decode, *map(str, self.all_steps)])


@dataclass(frozen=True, slots=True)
class Views:
    """Several chains of drawn steps, each for the same image.

    Attributes:
        views: the steps of each chain.
    """

    views: tuple[tuple[Step, ...], ...]

    def apply(self, image: object) -> list[object]:
        """The result of each chain."""
        results = []
        for steps in self.views:
            result = image
            for step in steps:
                result = step.apply(result)
            results.append(result)
        return results

    def output_shape(self, shape: ImageShape) -> ImageShape:
        """The shape of the first view's result; the others may differ."""
        for step in self.views[0]:
            shape = step.output_shape(shape)
        return shape

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """The promises of all steps of all views, each once."""
        contracts = [contract for steps in self.views for step in steps for contract in contracts_of(step)]
        return tuple(dict.fromkeys(contracts)) or (EXACT,)

    def words(self) -> str:
        return " | ".join(", ".join(steps_in_words(steps)) or "as it is" for steps in self.views)

    def __str__(self) -> str:
        return " | ".join(" → ".join(map(str, steps)) or "as it is" for steps in self.views)


_UNSEEN = frozenset(
    {"as_tv_image", "convert_image_dtype", "normalize", "pil_to_tensor", "to_dtype", "to_pure_tensor", "to_tensor"}
)


def steps_in_words(steps: Iterable[Step]) -> list[str]:
    """A phrase for each step with a visible effect: without conversions to tensors and normalising."""
    return [in_words(step) for step in steps if getattr(step, "op", "") not in _UNSEEN]


def in_words(step: Step) -> str:
    """A step as a phrase such as ``"mirrored left-right"`` or ``"brightness x 1.31"``."""
    words = getattr(step, "words", None)
    return words() if words is not None else str(step).replace("×", "x").replace("→", ">")
