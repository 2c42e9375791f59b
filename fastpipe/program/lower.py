"""Lowering, from what was drawn to what runs: backwards from the pixels that are kept to the pixels that are decoded.

Each operation says what a region of its result needs (`Operation.required_region`). So a crop travels to the front of
the chain, through flips, resizes and whatever works pixel by pixel, and the file is decoded where something of it is
left. Nothing here changes a pixel of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import torch

from fastpipe.ops import (
    AsTvImage,
    Bounded,
    Crop,
    HFlip,
    Layout,
    LookUp,
    Memo,
    Operation,
    PilToTensor,
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
    layout_behind,
    memo_of,
)
from fastpipe.program.program import Program, Views
from fastpipe.types import Box, ImageShape, Step, new_namedtuple

_Tail: TypeAlias = "tuple[TensorConversion | None, tuple[Step, ...], bool]"


def lower(steps: tuple[Step, ...], shape: ImageShape, *, orientation: int = 1) -> Program:
    """The program of steps that start from a file.

    Args:
        steps: what was drawn for the upright image.
        shape: of that image.
        orientation: the EXIF orientation that turns the stored image upright, 1 to 8.
    """
    # An interned step's number, and the class of one that was drawn for one image.
    kinds = [id(step) if hasattr(step, "interned") else type(step) for step in steps]
    key = (*kinds, shape[2], orientation, torch.get_default_dtype())
    chain = _chains.get(key)
    if chain is None:
        chain = _chains.keep(key, _Chain(steps))
    return chain.program(steps, shape, orientation)


def _are_interned(steps: Iterable[Step]) -> bool:
    return all(memo_of(step) is not None for step in steps)


class _Chain:
    """Facts about steps of which some are interned, and the others of the same classes: most of their programs.

    Args:
        steps: the first of this kind; they live as long as their ids are used in `_chains`.
    """

    __slots__ = ("_comes_again", "_steps", "_template")

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps
        self._comes_again = _are_interned(steps)
        self._template: _Template | None = None

    def program(self, steps: tuple[Step, ...], shape: ImageShape, orientation: int) -> Program:
        """`lower` of steps of this kind."""
        made = _programs.get((self, shape)) if self._comes_again else None
        if made is not None:
            return made
        template = self._template
        made = None if template is None else template.program(steps, shape)
        if made is None:
            made, template = _lowered(steps, shape, orientation)
            self._template = self._template or template
        if self._comes_again:
            for step in made.steps:
                if isinstance(step, Operation) and memo_of(step) is None:
                    interned(step)
            made = _programs.keep((self, shape), made._replace(memo=Memo()))
        return made


class _Template(NamedTuple):
    """A program that other images get but for the part of them that it begins with.

    Attributes:
        moved: the order in which steps run, as `_Order.moved`.
        layout: the layout of torchvision's tensor after the first step; None where that doesn't depend on the step.
        made: one such program.
        front: how many steps from the front say which part of the image that is: none, or one.
        steps: the program's steps, after these; None where some are drawn for each image: those from `front` to `end`.
        end: number of the step that makes a tensor.
        resizes: `steps` begin with a resize to a fixed size, which no other image of that size gets.
    """

    moved: tuple[int, ...]
    layout: Layout | None
    made: Program
    front: int
    steps: tuple[Step, ...] | None
    end: int
    resizes: bool

    def program(self, steps: tuple[Step, ...], shape: ImageShape) -> Program | None:
        """The program of steps of the same kind; None where they need more thought."""
        moved, layout, made, front, local, end, resizes = self
        if moved:
            steps = tuple([steps[number] for number in moved])
        region, inner = None, shape
        if front:
            step: Any = steps[0]
            if layout is not None and layout_behind(step, shape, "rows") != layout:
                return None
            inner = step.output_shape(shape)
            found = step.required_region(_all_of(inner), shape)
            if found is None or found[1]:
                return None
            if inner != shape:
                region = found[0]
        result = made[5]
        if not resizes:
            result = inner
        elif inner[0] == result[0] and inner[1] == result[1]:
            return None
        if local is None:
            local = steps[front:end]
        program: Program = new_namedtuple(Program, (shape, region, local, made[3], made[4], result, *made[6:]))
        return program


# By the steps' kinds, and whatever else lowering depends on.
_chains: Bounded[tuple[object, ...], _Chain] = Bounded(4096)
# Of chains whose steps are all interned, by these and the image's shape.
_programs: Bounded[tuple[_Chain, ImageShape], Program] = Bounded(4096)


def _lowered(steps: tuple[Step, ...], stored: ImageShape, orientation: int) -> tuple[Program, _Template | None]:
    """The program of steps; and a template for steps of the same kinds, where there is one."""
    turned = orientation != 1
    if turned:
        steps = (*turns(orientation), *steps)
        if orientation >= 5:
            stored = ImageShape(stored.width, stored.height, stored.channels)
    order = _order_of(tuple(map(type, steps)))
    if order.moved:
        steps = tuple([steps[number] for number in order.moved])
    on_pixels, on_tensor = steps[: order.pixels], steps[order.pixels :]
    shapes, does_nothing = _shapes(on_pixels, stored, order)
    tail = _tail_of(on_tensor, shapes[-1][2])
    converted = order.pixels - order.ahead
    in_rows = order.in_rows if shapes[converted][2] > 1 else order.gray_in_rows
    in_rows = in_rows and (order.ahead == 0 or _leaves_rows(on_pixels, shapes, converted))
    is_plain = tail is not None and order.simple and not does_nothing
    if tail is None:
        first = len(on_pixels)
        on_pixels, shapes, tail = _moved_ahead(on_pixels, shapes, on_tensor)
        in_rows = in_rows and _leaves_rows(on_pixels, shapes, first)
        box, local = _regions(on_pixels, shapes, len(on_pixels))
    else:
        cut = order.cut if is_plain else len(on_pixels)
        box, local = _regions(on_pixels, shapes, cut)
        local += on_pixels[cut:]
    region = None if box == (0, 0, stored[0], stored[1]) else box
    keeps_info = None if on_tensor else _keeps_info(on_pixels, shapes)
    made: Program = new_namedtuple(
        Program, (stored, region, local, *tail[:2], shapes[-1], tail[2], in_rows, keeps_info, None)
    )
    if not is_plain or turned or not on_tensor or order.cut > 1:
        return made, None
    return made, _template(made, order, stored, on_pixels, on_tensor)


def _template(
    made: Program, order: _Order, stored: ImageShape, on_pixels: tuple[Step, ...], on_tensor: tuple[Step, ...]
) -> _Template | None:
    front = order.cut
    local = on_pixels[front:]
    reshaping = [number for number in range(front, order.pixels) if order.reshaping[number]]
    first = local[0] if reshaping == [front] else None
    resizes = isinstance(first, Resize) and first.fixed is not None and memo_of(first) is not None
    is_known = not front or isinstance(on_pixels[0], Operation)
    if not is_known or made.steps != local or not _are_interned(on_tensor) or (reshaping and not resizes):
        return None
    if made.result[2] != made.shape[2]:
        return None
    layout: Layout | None = None
    gray_or_rows = order.in_rows or (order.gray_in_rows and stored.channels == 1)
    if front and isinstance(on_pixels[0], Operation) and gray_or_rows and order.ahead == order.pixels:
        layout = layout_behind(on_pixels[0], stored, "rows")
    if not _are_interned(local):
        return _Template(order.moved, layout, made, front, None, order.pixels, resizes)
    # From any image the resize makes the same shape, from which on all is the same for the core.
    kept = made._replace(memo=Memo(has_jobs=False)) if resizes or not local else made
    return _Template(order.moved, layout, kept, front, local, order.pixels, resizes)


class _Order(NamedTuple):
    """Facts about a chain of steps that follow from their classes.

    Attributes:
        moved: the steps' numbers in the order in which they run; empty where that is theirs.
        ahead: how many of those after the conversion run before it; the last ones on pixels.
        pixels: how many are on pixels, in front of the conversion to a tensor.
        reshaping: whether each of those may change the shape.
        cut: how many from the front may need less than all of their input, or other operations; see `Operation`.
        simple: the others run as they are: none may cancel another, and no two are tables that become one.
        in_rows: the conversion leaves a tensor in rows of pixels.
        gray_in_rows: it does so with one channel; `ToTensor`, too, which leaves what is contiguous as it is.
    """

    moved: tuple[int, ...]
    ahead: int
    pixels: int
    reshaping: tuple[bool, ...]
    cut: int
    simple: bool
    in_rows: bool
    gray_in_rows: bool


@lru_cache(maxsize=1024)
def _order_of(kinds: tuple[type[Any], ...]) -> _Order:
    moved, ahead = _arranged(kinds)
    kinds = tuple(kinds[number] for number in moved)
    pixels, cut, flips, tables = 0, 0, 0, 0
    reshaping = []
    for kind in kinds:
        if getattr(kind, "makes_tensor", False):
            break
        pixels += 1
        reshaping.append(bool(getattr(kind, "changes_shape", True)))
        if getattr(kind, "narrows", True):
            cut, flips, tables = pixels, 0, 0
        else:
            flips += issubclass(kind, (HFlip, VFlip))
            tables += issubclass(kind, TableOperation)
    converts = pixels < len(kinds)
    in_rows = converts and issubclass(kinds[pixels], PilToTensor)
    simple = flips < 2 and tables < 2
    return _Order(moved if ahead else (), ahead, pixels, tuple(reshaping), cut, simple, in_rows, converts)


def _arranged(kinds: tuple[type[Any], ...]) -> tuple[tuple[int, ...], int]:
    """The order in which steps run: what gives the same bytes before the conversion to a tensor, ahead of that."""
    start = next((number for number, kind in enumerate(kinds) if getattr(kind, "makes_tensor", False)), len(kinds))
    ahead, kept = [], [start] if start < len(kinds) else []
    number = start + 1
    while number < len(kinds):
        if getattr(kinds[number], "moves_ahead", False):
            ahead.append(number)
        elif issubclass(kinds[number], ToPureTensor):
            kept.append(number)
        else:
            break
        number += 1
    return (*range(start), *ahead, *kept, *range(number, len(kinds))), len(ahead)


def _leaves_rows(steps: Sequence[Any], shapes: Sequence[ImageShape], first: int) -> bool:
    """Whether torchvision's tensor lies in rows of pixels, if steps from ``first`` on are done to one that does."""
    layout: Layout = "rows"
    for step, shape in zip(steps[first:], shapes[first:], strict=False):
        layout = layout_behind(step, shape, layout)
    return layout != "planes"


def _shapes(steps: Sequence[Step], shape: ImageShape, order: _Order) -> tuple[list[ImageShape], bool]:
    """The shape before each step and after the last; and whether a resize gives the size that it gets."""
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
    """`Program.keeps_info` of steps that have these shapes before them."""
    keeps = True
    for step, shape in zip(steps, shapes, strict=False):
        if not isinstance(step, Operation):
            return None
        keeps = keeps and step.keeps_info(shape)
    return keeps


def _tail_of(tail: Sequence[Step], channels: int) -> _Tail | None:
    """The conversion to a tensor, what follows it, and whether a ``tv_tensors.Image`` comes out.

    None where there are operations on a tensor: what can be done on pixels is to be moved ahead.
    """
    return None if any(isinstance(step, TensorOperation) for step in tail) else _conversion(tail, channels)


def _moved_ahead(
    steps: tuple[Step, ...], shapes: list[ImageShape], after: Sequence[Step]
) -> tuple[tuple[Step, ...], list[ImageShape], _Tail]:
    """The steps on pixels with those that v2 does to a tensor and that can be done before, their shapes, the tail."""
    before, kept = _ahead_of_tensor(after, shapes[-1])
    for moved in before:
        shapes.append(moved.output_shape(shapes[-1]))
    return (*steps, *before), shapes, _conversion(kept, shapes[-1][2])


def _conversion(steps: Sequence[Step], channels: int) -> _Tail:
    tv_image = bool(steps) and isinstance(steps[0], ToImage)
    classes = [step for step in steps if isinstance(step, ToPureTensor)]
    if classes:
        steps = [step for step in steps if not isinstance(step, ToPureTensor)]
        tv_image = isinstance(classes[-1], AsTvImage)
    conversion, used = fused_conversion(steps, channels) if steps else (None, 0)
    return conversion, tuple(steps[used:]), tv_image


def _ahead_of_tensor(tail: Sequence[Step], shape: ImageShape) -> tuple[Sequence[Operation], Sequence[Step]]:
    """Operations on a tensor that can be done before the conversion; and the conversion with the rest."""
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
    """The box of something of that shape, such as a mask, that steps need; and the steps in its coordinates."""
    shapes = [shape]
    for step in steps:
        shapes.append(step.output_shape(shapes[-1]))
    return _regions(steps, shapes, len(steps))


def _regions(steps: Sequence[Step], shapes: Sequence[ImageShape], count: int) -> tuple[Box, tuple[Step, ...]]:
    """The box that the first steps need for all of their result, and these steps in its coordinates.

    Args:
        steps: at least `count`.
        shapes: before each step, and after the last.
        count: how many are looked at, from the first on.
    """
    region = _all_of(shapes[count])
    local: list[Step] = []  # from the back
    for number in range(count - 1, -1, -1):
        step, before = steps[number], shapes[number]
        found: tuple[Box, tuple[Step, ...]] | None = None
        if isinstance(step, Operation):
            found = step.required_region(region, before)
        elif isinstance(step, Views):
            found = _needed(step, before)
        if found is None:
            given = shapes[number + 1]
            if region != (0, 0, given.height, given.width):
                local.append(Crop(*region))
            local.append(step)
            region = _all_of(before)
        else:
            region, made = found
            for operation in reversed(made):
                _put_before(local, operation)
    local.reverse()
    return region, _tables_fused(local) if len(local) > 1 else tuple(local)


def _all_of(shape: ImageShape) -> Box:
    made: Box = new_namedtuple(Box, (0, 0, shape[0], shape[1]))
    return made


def _put_before(local: list[Step], operation: Step) -> None:
    """Adds an operation in front of others; two flips the same way cancel out."""
    if isinstance(operation, (HFlip, VFlip)) and local and type(local[-1]) is type(operation):
        local.pop()
    else:
        local.append(operation)


def _needed(step: Views, shape: ImageShape) -> tuple[Box, tuple[Step, ...]]:
    """The region of the image that the views need together, and what each does to that region."""
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
    """The steps with each run of look-ups made one."""
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
