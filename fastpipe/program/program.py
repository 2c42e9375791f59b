"""A program: what is done to one image, from the file's pixels to its place in a batch. Frozen and printable."""

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
        shape: the image as it is stored.
        region: the pixels of it that are decoded; None for all.
        steps: on these pixels, a uint8 array ``(H, W, C)``, in order and in their coordinates; an EXIF orientation's
            among them.
        conversion: to a tensor; None where `after` has torchvision's own, or nothing makes a tensor.
        after: on what the conversion gives.
        result: the shape that `steps` give.
        tv_image: what a sample gets is a ``tv_tensors.Image``, as v2 gives; in a batch it is a plain tensor.
        in_rows: torchvision's tensor lies in memory as Pillow's pixels do, row by row.
        keeps_info: a PIL image that comes out has the ``info`` of the one that came, as Pillow's would; else none. None
            where a tensor comes out, or where a foreign step decides.
        memo: what is kept with steps that other images get, too; else None. Where all of the program comes again, for
            images of this shape, `Memo.jobs` are kept, too.
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
        """The steps, the conversion and what follows it."""
        return (*self.steps, *(() if self.conversion is None else (self.conversion,)), *self.after)

    @property
    def box(self) -> Box:
        """The region of the stored image that is decoded, also where it is all of it."""
        return self.region or Box(0, 0, *self.shape.size)

    def __str__(self) -> str:
        box = self.box
        decode = f"decode rows {box.top}–{box.bottom}, columns {box.left}–{box.right}"
        return " → ".join([decode, *map(str, self.all_steps)])


@dataclass(frozen=True, slots=True)
class Views:
    """Several chains of drawn steps, each for the same image.

    Attributes:
        views: the steps of each.
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
        """The first view's: the others may differ."""
        for step in self.views[0]:
            shape = step.output_shape(shape)
        return shape

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """Each promise that occurs in a view."""
        found = [contract for steps in self.views for step in steps for contract in contracts_of(step)]
        return tuple(dict.fromkeys(found)) or (EXACT,)

    def words(self) -> str:
        return " | ".join(", ".join(steps_in_words(steps)) or "as it is" for steps in self.views)

    def __str__(self) -> str:
        return " | ".join(" → ".join(map(str, steps)) or "as it is" for steps in self.views)


_UNSEEN = frozenset(
    {"as_tv_image", "convert_image_dtype", "normalize", "pil_to_tensor", "to_dtype", "to_pure_tensor", "to_tensor"}
)


def steps_in_words(steps: Iterable[Step]) -> list[str]:
    """A phrase for each step that changes what is seen: conversions to tensors and normalising are left out."""
    return [in_words(step) for step in steps if getattr(step, "op", "") not in _UNSEEN]


def in_words(step: Step) -> str:
    """A step as a phrase such as ``"mirrored left-right"`` or ``"brightness x 1.31"``."""
    words = getattr(step, "words", None)
    return words() if words is not None else str(step).replace("×", "x").replace("→", ">")
