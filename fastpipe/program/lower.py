"""Lowers drawn steps to a program, going backwards from the pixels of the result to the pixels that are decoded.

Each operation tells which part of its input a region of its result needs (`Operation.required_region`). So a crop moves
to the front of the chain, through flips, resizes and pixelwise operations, and only the part that is left is decoded.
Lowering changes no pixel of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch

from fastpipe import ops  # the families of operations that are seldom drawn are imported at their first use
from fastpipe.ops import (
    AsTvImage,
    Bounded,
    Crop,
    HFlip,
    LookUp,
    Memo,
    Operation,
    Resize,
    TableOperation,
    TensorConversion,
    TensorOperation,
    ToImage,
    ToPureTensor,
    Transpose,
    VFlip,
    ahead_of,
    fused_conversion,
    interned,
    memo_of,
)
from fastpipe.program.program import Program, Views
from fastpipe.program.step_order import StepOrder, order_of, sums_gray
from fastpipe.types import Box, ImageShape, Step, new_namedtuple

if TYPE_CHECKING:
    from fastpipe.ops import Layout, ResizeAsFloats

_Tail: TypeAlias = "tuple[TensorConversion | None, tuple[Step, ...], bool, ResizeAsFloats | None]"
"""The conversion to a tensor, the steps after it, whether the result is a ``tv_tensors.Image``, and the last step on
pixels if that already makes floats."""


def lower(steps: tuple[Step, ...], shape: ImageShape, *, orientation: int = 1) -> Program:
    """Lowers steps that start from a file to a program.

    Args:
        steps: the steps that were drawn for the upright image.
        shape: the shape of the upright image.
        orientation: the EXIF orientation that turns the stored image upright, 1 to 8.
    """
    # The key has an interned step's id, and the class of a step that was drawn for one image.
    kinds = [id(step) if hasattr(step, "interned") else type(step) for step in steps]
    key = (*kinds, shape[2], orientation, torch.get_default_dtype())
    chain = _chains.get(key)
    if chain is None:
        chain = _chains.keep(key, _Chain(steps))
    return chain.program(steps, shape, orientation)


def _are_interned(steps: Iterable[Step]) -> bool:
    return all(memo_of(step) is not None for step in steps)


class _Chain:
    """Caches the programs of all step chains that have the same interned steps and, for other steps, the same classes.

    Args:
        steps: the first such chain; kept alive, because `_chains` has the ids of its interned steps as keys.
    """

    __slots__ = ("_comes_again", "_steps", "_template")

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps
        self._comes_again = _are_interned(steps)
        self._template: _Template | None = None

    def program(self, steps: tuple[Step, ...], shape: ImageShape, orientation: int) -> Program:
        """The program of a chain of this kind: see `lower`."""
        program = _programs.get((self, shape)) if self._comes_again else None
        if program is not None:
            return program
        template = self._template
        program = None if template is None else template.program(steps, shape)
        if program is None:
            program, template = _lowered(steps, shape, orientation)
            self._template = self._template or template
        if self._comes_again:
            for step in program.steps:
                if isinstance(step, Operation) and memo_of(step) is None:
                    interned(step)
            program = _programs.keep((self, shape), program._replace(memo=Memo()))
        return program


class _Template(NamedTuple):
    """A program to copy for other images: only the decoded region, and perhaps the steps, differ.

    Attributes:
        moved: the order in which steps run, as in `StepOrder`.
        layout: the layout of torchvision's tensor after the first step; None if it doesn't depend on that step.
        original: the program that is copied.
        front: number of first steps that only choose the decoded region: 0 or 1.
        steps: the program's steps, which come after those; None if some are drawn for each image, and the program's
            steps are the chain's from `front` to `end`.
        end: the index of the step that makes a tensor.
        resizes: `steps` begin with a resize to a fixed size. It does nothing to an image of that size, which needs
            another program.
    """

    moved: tuple[int, ...]
    layout: Layout | None
    original: Program
    front: int
    steps: tuple[Step, ...] | None
    end: int
    resizes: bool

    def program(self, steps: tuple[Step, ...], shape: ImageShape) -> Program | None:
        """The program of a chain of the same kind; None if it has to be lowered in full."""
        moved, layout, original, front, local, end, resizes = self
        if moved:
            steps = tuple([steps[number] for number in moved])
        region, inner = None, shape
        if front:
            step: Any = steps[0]
            if layout is not None and ops.layout_after(step, shape, "rows") != layout:
                return None
            inner = step.output_shape(shape)
            required = step.required_region(_all_of(inner), shape)
            if required is None or required[1]:
                return None
            if inner != shape:
                region = required[0]
        result = original[5]
        if not resizes:
            result = inner
        elif inner[0] == result[0] and inner[1] == result[1]:
            return None
        if local is None:
            local = steps[front:end]
        program: Program = new_namedtuple(
            Program, (shape, region, local, original[3], original[4], result, *original[6:])
        )
        return program


# Keys: the kinds of the steps, and the other values that lowering depends on.
_chains: Bounded[tuple[object, ...], _Chain] = Bounded(4096)
# Programs of chains with interned steps only; keys: the chain and the image's shape.
_programs: Bounded[tuple[_Chain, ImageShape], Program] = Bounded(4096)


def _lowered(steps: tuple[Step, ...], stored: ImageShape, orientation: int) -> tuple[Program, _Template | None]:
    """Lowers steps to a program; also returns a template for chains of the same kind, or None."""
    turned = orientation != 1
    if turned:
        steps = (*turns(orientation), *steps)
        if orientation >= 5:
            stored = ImageShape(stored.width, stored.height, stored.channels)
    kinds = tuple(map(type, steps))
    order = order_of(kinds)
    stays = sums_gray(steps, stored, order)
    if stays:
        order = order_of(kinds, moves=False)
    if order.moved:
        steps = tuple([steps[number] for number in order.moved])
    on_pixels, on_tensor = steps[: order.pixels], steps[order.pixels :]
    shapes, does_nothing = _shapes(on_pixels, stored, order)
    tail = _conversion(on_tensor, shapes[-1]) if stays else _tail_of(on_tensor, shapes[-1])
    converted = order.pixels - order.ahead
    in_rows = order.in_rows if shapes[converted][2] > 1 else order.gray_in_rows
    in_rows = in_rows and (order.ahead == 0 or _leaves_rows(on_pixels, shapes, converted))
    is_plain = tail is not None and tail[3] is None and order.simple and not does_nothing
    if tail is None:
        first = len(on_pixels)
        in_rows = in_rows and not _resizes_gaps(on_tensor[1:], shapes[-1], _layout_after(on_pixels, shapes, converted))
        on_pixels, shapes, tail = _moved_ahead(on_pixels, shapes, on_tensor)
        in_rows = in_rows and _leaves_rows(on_pixels, shapes, first)
    conversion, after, tv_image, resize = tail
    if resize is not None:
        on_pixels, shapes = (*on_pixels, resize), [*shapes, resize.output_shape(shapes[-1])]
    if not is_plain:
        box, local = _regions(on_pixels, shapes, len(on_pixels))
    else:
        box, local = _regions(on_pixels, shapes, order.cut)
        local += on_pixels[order.cut :]
    region = None if box == (0, 0, stored[0], stored[1]) else box
    keeps_info = None if on_tensor else _keeps_info(on_pixels, shapes)
    program: Program = new_namedtuple(
        Program, (stored, region, local, conversion, after, shapes[-1], tv_image, in_rows, keeps_info, None)
    )
    if not is_plain or turned or not on_tensor or order.cut > 1:
        return program, None
    return program, _template(program, order, stored, on_pixels, on_tensor)


def _template(
    program: Program, order: StepOrder, stored: ImageShape, on_pixels: tuple[Step, ...], on_tensor: tuple[Step, ...]
) -> _Template | None:
    front = order.cut
    local = on_pixels[front:]
    reshaping = [number for number in range(front, order.pixels) if order.reshaping[number]]
    first = local[0] if reshaping == [front] else None
    resizes = isinstance(first, Resize) and first.fixed is not None and memo_of(first) is not None
    is_known = not front or isinstance(on_pixels[0], Operation)
    if not is_known or program.steps != local or not _are_interned(on_tensor) or (reshaping and not resizes):
        return None
    if program.result[2] != program.shape[2]:
        return None
    layout: Layout | None = None
    gray_or_rows = order.in_rows or (order.gray_in_rows and stored.channels == 1)
    if front and isinstance(on_pixels[0], Operation) and gray_or_rows and order.ahead == order.pixels:
        layout = ops.layout_after(on_pixels[0], stored, "rows")
    if not _are_interned(local):
        return _Template(order.moved, layout, program, front, None, order.pixels, resizes)
    # The resize makes the same shape from any image, so all later operations are the same for the core.
    kept = program._replace(memo=Memo(has_jobs=False)) if resizes or not local else program
    return _Template(order.moved, layout, kept, front, local, order.pixels, resizes)


def _layout_after(steps: Sequence[Step], shapes: Sequence[ImageShape], first: int) -> Layout:
    """The layout of torchvision's interleaved tensor after the steps from ``first`` on."""
    layout: Layout = "rows"
    for step, shape in zip(steps[first:], shapes[first:], strict=False):
        layout = ops.layout_after(step, shape, layout)
    return layout


def _leaves_rows(steps: Sequence[Step], shapes: Sequence[ImageShape], first: int) -> bool:
    """True if torchvision's tensor stays interleaved when the steps from ``first`` on are applied to it."""
    return _layout_after(steps, shapes, first) != "planes"


def _resizes_gaps(steps: Sequence[Step], shape: ImageShape, layout: Layout) -> bool:
    """True if one of torchvision's resizes gets a window of a tensor, with gaps between its rows.

    It makes a contiguous tensor of one. Here the window has no gaps, as it is cut out before the conversion.

    Args:
        steps: on torchvision's tensor, in torchvision's order.
        shape, layout: of the tensor before these steps.
    """
    for step in steps:
        like = step.like if isinstance(step, TensorOperation) else None
        if like is not None:
            if isinstance(like, Resize) and layout == "gaps":
                return True
            layout = ops.layout_after(like, shape, layout)
        elif layout == "gaps" and not isinstance(step, ToPureTensor):
            layout = "rows"  # torch's results have no gaps
        shape = ImageShape(*step.output_shape(shape))
    return False


def _shapes(steps: Sequence[Step], shape: ImageShape, order: StepOrder) -> tuple[list[ImageShape], bool]:
    """The shape before each step and after the last one; and whether a resize doesn't change the size."""
    shapes = [shape]
    does_nothing = False
    for step, reshapes in zip(steps, order.reshaping, strict=True):
        if reshapes:
            given = step.output_shape(shape)
            if isinstance(step, Resize) and given == shape:
                does_nothing = True
            shape = given
        shapes.append(shape)
    return shapes, does_nothing


def _keeps_info(steps: Sequence[Step], shapes: Sequence[ImageShape]) -> bool | None:
    """`Program.keeps_info` of steps; `shapes` has the shape before each."""
    keeps = True
    for step, shape in zip(steps, shapes, strict=False):
        if not isinstance(step, Operation):
            return None
        keeps = keeps and step.keeps_info(shape)
    return keeps


def _tail_of(tail: Sequence[Step], shape: ImageShape) -> _Tail | None:
    """The tail of a chain; None if there are operations on a tensor, of which some may have to move ahead of it.

    Args:
        tail: the steps from the conversion to a tensor on.
        shape: the image's shape before them.
    """
    return None if any(isinstance(step, TensorOperation) for step in tail) else _conversion(tail, shape)


def _moved_ahead(
    steps: tuple[Step, ...], shapes: list[ImageShape], after: Sequence[Step]
) -> tuple[tuple[Step, ...], list[ImageShape], _Tail]:
    """Moves steps on a tensor that can run on pixels before the conversion; returns steps, shapes and tail."""
    before, kept = _ahead_of_tensor(after, shapes[-1])
    for moved in before:
        shapes.append(moved.output_shape(shapes[-1]))
    return (*steps, *before), shapes, _conversion(kept, shapes[-1])


def _conversion(steps: Sequence[Step], shape: ImageShape) -> _Tail:
    tv_image = bool(steps) and isinstance(steps[0], ToImage)
    classes = [step for step in steps if isinstance(step, ToPureTensor)]
    if classes:
        steps = [step for step in steps if not isinstance(step, ToPureTensor)]
        tv_image = isinstance(classes[-1], AsTvImage)
    conversion, used = fused_conversion(steps, shape[2]) if steps else (None, 0)
    resizing = ops.resized_as_floats(conversion, steps[0], steps[used:], shape) if used < len(steps) else None
    if resizing is None:
        return conversion, tuple(steps[used:]), tv_image, None
    resize, others = resizing
    steps = *steps[:used], *others
    conversion, used = fused_conversion(steps, shape[2])
    return conversion, tuple(steps[used:]), tv_image, resize


def _ahead_of_tensor(tail: Sequence[Step], shape: ImageShape) -> tuple[Sequence[Operation], Sequence[Step]]:
    """The operations on a tensor that can run before the conversion; and the conversion with the other steps."""
    before, kept = ahead_of(tail, shape)
    for step in before:
        shape = step.output_shape(shape)
    box, local = needed(kept, shape)
    if box != (0, 0, shape.height, shape.width):
        before.append(Crop(*box))
    return before, local


@lru_cache(maxsize=8)
def turns(orientation: int) -> tuple[Operation, ...]:
    """The operations of `PIL.ImageOps.exif_transpose` for an EXIF orientation, 1 to 8."""
    swapped = (Transpose(),) if orientation >= 5 else ()
    rows_back = (VFlip(),) if orientation in (3, 4, 7, 8) else ()
    columns_back = (HFlip(),) if orientation in (2, 3, 6, 7) else ()
    return (*swapped, *rows_back, *columns_back)


def needed(steps: Sequence[Step], shape: ImageShape) -> tuple[Box, tuple[Step, ...]]:
    """The box of an image or mask of this shape that steps need; and the steps in the box's coordinates."""
    shapes = [shape]
    for step in steps:
        shapes.append(step.output_shape(shapes[-1]))
    return _regions(steps, shapes, len(steps))


def _regions(steps: Sequence[Step], shapes: Sequence[ImageShape], count: int) -> tuple[Box, tuple[Step, ...]]:
    """The box that the first steps need for their whole result, and these steps in the box's coordinates.

    Args:
        steps: the steps, at least `count`.
        shapes: the shape before each step, and after the last one.
        count: number of first steps to look at.
    """
    region = _all_of(shapes[count])
    local: list[Step] = []  # in reverse order
    for number in range(count - 1, -1, -1):
        step, before = steps[number], shapes[number]
        required: tuple[Box, tuple[Step, ...]] | None = None
        if isinstance(step, Operation):
            required = step.required_region(region, before)
        elif isinstance(step, Views):
            required = _needed_by_views(step, before)
        if required is None:
            given = shapes[number + 1]
            if region != (0, 0, given.height, given.width):
                local.append(Crop(*region))
            local.append(step)
            region = _all_of(before)
        else:
            region, operations = required
            for operation in reversed(operations):
                _put_before(local, operation)
    local.reverse()
    return region, _tables_fused(local) if len(local) > 1 else tuple(local)


def _all_of(shape: ImageShape) -> Box:
    box: Box = new_namedtuple(Box, (0, 0, shape[0], shape[1]))
    return box


def _put_before(local: list[Step], operation: Step) -> None:
    """Adds an operation in front of others, unless it is a flip that cancels out with the next."""
    if isinstance(operation, (HFlip, VFlip)) and local and type(local[-1]) is type(operation):
        local.pop()
    else:
        local.append(operation)


def _needed_by_views(step: Views, shape: ImageShape) -> tuple[Box, tuple[Step, ...]]:
    """The region of the image that the views need together, and the views' steps in its coordinates."""
    chains = [_chain(view, shape) for view in step.views]
    top, left = min(box.top for box, _ in chains), min(box.left for box, _ in chains)
    bottom, right = max(box.bottom for box, _ in chains), max(box.right for box, _ in chains)
    region = Box(top, left, bottom - top, right - left)
    views = []
    for box, steps in chains:
        first = () if box == region else (Crop(box.top - top, box.left - left, box.height, box.width),)
        views.append((*first, *steps))
    return region, (Views(tuple(views)),)


def _chain(steps: Sequence[Step], shape: ImageShape) -> tuple[Box, tuple[Step, ...]]:
    view = lower(tuple(steps), shape)
    return view.box, (*view.all_steps, AsTvImage()) if view.tv_image else view.all_steps


def _tables_fused(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Fuses each run of consecutive table operations to one look-up."""
    if sum([isinstance(step, TableOperation) for step in steps]) < 2:
        return tuple(steps)
    fused: list[Step] = []
    for are_look_ups, group in groupby(steps, _has_table):
        run = list(group)
        if are_look_ups and len(run) > 1:
            fused.append(LookUp(tuple(step for step in run if isinstance(step, TableOperation))))
        else:
            fused += run
    return tuple(fused)


def _has_table(step: Step) -> bool:
    return isinstance(step, TableOperation) and step.table() is not None
