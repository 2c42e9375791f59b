"""From what was drawn to what runs: backwards from the pixels that are kept to the pixels that are decoded.

Each operation says what a region of its result needs (`Operation.within`). So a crop travels to the front of the chain,
through flips, resizes and whatever works pixel by pixel, and the file is decoded where something of it is left. Nothing
here changes a pixel of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import torch

from fastpipe.ops import (
    AsTvImage,
    Crop,
    HFlip,
    LookUp,
    Operation,
    PilToTensor,
    Resize,
    ResizeWindow,
    ScaledResize,
    TensorOperation,
    ToImage,
    ToPureTensor,
    Transpose,
    VFlip,
    ahead_of,
    fused_conversion,
    leaves_contiguous,
    reduced_scale,
)
from fastpipe.program.program import Fidelity, KeptSteps, Program, Views
from fastpipe.types import Box, DecodeRequest, ImageShape, Recipe, Size, Step

_WHOLE = DecodeRequest()


def lower(recipe: Recipe, fidelity: Fidelity = "torchvision", *, orientation: int = 1) -> Program:
    """The program for a recipe that starts from a file.

    Args:
        recipe: what was drawn for the upright image.
        fidelity: ``"fast"`` may decode at a reduced scale where a resize shrinks by two or more; that is approximate.
        orientation: the EXIF orientation that turns the stored image upright, 1 to 8.
    """
    steps, stored = recipe.steps, recipe.shape
    if orientation != 1:
        steps = (*turns(orientation), *steps)
        if orientation >= 5:
            stored = ImageShape(stored.width, stored.height, stored.channels)
    if fidelity == "torchvision" and (known := _crop_and_resize(steps, stored)) is not None:
        return known
    shape, shapes = stored, [stored]
    for number, step in enumerate(steps):
        if getattr(step, "makes_tensor", False):
            before, behind = _needed_tail(steps[number:], shape)
            steps = (*steps[:number], *before)
            in_rows = isinstance(step, PilToTensor)
            for moved in before:
                in_rows = in_rows and not leaves_contiguous(moved, shape)
                shape = moved.output_shape(shape)
                shapes.append(shape)
            tail = _tail_of(behind, shape)
            break
        shape = step.output_shape(shape)
        shapes.append(shape)
    else:
        tail, in_rows = _tail_of((), shape), False
    box, local = _backwards(steps, shapes)
    request = _WHOLE if box == (0, 0, stored.height, stored.width) else DecodeRequest(box)
    if fidelity == "fast":
        request, local = _scaled(box, request, local)
    return Program(stored, request, local, tail.conversion, tail.after, tail.result, tail.tv_image, in_rows)


def _crop_and_resize(steps: tuple[Step, ...], stored: ImageShape) -> Program | None:
    """What most training comes to: a crop, resized to a size that is given; None for any other program.

    What is behind the crop doesn't depend on the image.
    """
    if not steps:
        return None
    height, width, channels = stored
    crop = steps[0]
    request = _WHOLE
    if type(crop) is Crop:
        top, left, rows, columns = crop.top, crop.left, crop.height, crop.width
        if top < 0 or left < 0 or top + rows > height or left + columns > width:
            return None
        if rows != height or columns != width:
            request = _tuple(DecodeRequest, (_tuple(Box, (top, left, rows, columns)), 1))
            height, width = rows, columns
        steps = steps[1:]
    key = torch.get_default_dtype(), *map(id, steps)
    known = _known.get(key)
    if known is None:
        known = steps, resized(steps)
        # An object's number is its own as long as it's held.
        if all(getattr(step, "memory", None) is not None for step in steps):
            if known[1] is not None:
                known = steps, known[1]._replace(steps=KeptSteps(known[1].steps))
            if len(_known) == _MOST_KNOWN:
                _known.clear()
            _known[key] = known
    program = known[1]
    if program is None or channels != 3 or height < 1 or width < 1:
        return None
    size, _, local, conversion, after, result, tv_image, in_rows = program
    if height == size[0] and width == size[1]:
        return None
    made: Program = _tuple(Program, (stored, request, local, conversion, after, result, tv_image, in_rows))
    return made


_tuple: Any = tuple.__new__  # a named tuple's own is slower
_MOST_KNOWN = 4096
_known: dict[tuple[Any, ...], tuple[tuple[Step, ...], Program | None]] = {}


def resized(steps: tuple[Step, ...]) -> Program | None:
    """The program for a resize to a given size and what follows it, its shape the result's of the resize.

    None for other steps, and where not all of what the resize gives is needed.
    """
    resize = steps[0] if steps else None
    if not isinstance(resize, Resize) or not resize.fixed:
        return None
    behind = lower(Recipe(resize.output_shape(ImageShape(1, 1)), steps[1:]))
    return None if behind.request.box is not None else behind._replace(steps=(resize, *behind.steps))


def _tail_of(steps: Sequence[Step], shape: ImageShape) -> Program:
    """What follows the pixels' steps: the conversion to a tensor, and what is behind it."""
    tv_image = bool(steps) and isinstance(steps[0], ToImage)
    classes = [step for step in steps if isinstance(step, ToPureTensor)]
    if classes:
        steps = [step for step in steps if not isinstance(step, ToPureTensor)]
        tv_image = isinstance(classes[-1], AsTvImage)
    conversion, used = fused_conversion(steps, shape.channels) if steps else (None, 0)
    return Program(shape, _WHOLE, (), conversion, tuple(steps[used:]), shape, tv_image)


def _needed_tail(tail: Sequence[Step], shape: ImageShape) -> tuple[Sequence[Operation], Sequence[Step]]:
    """What v2 does to a tensor, as far as it can be done before the conversion; and the conversion with the rest."""
    if not any(isinstance(step, TensorOperation) for step in tail):
        return (), tail
    before, kept = ahead_of(tail, shape)
    for step in before:
        shape = step.output_shape(shape)
    shapes = [shape]
    for behind in kept:
        shapes.append(behind.output_shape(shapes[-1]))
    box, local = _backwards(kept, shapes)
    if box != (0, 0, shape.height, shape.width):
        before.append(Crop(*box))
    return before, local


@lru_cache(maxsize=8)
def turns(orientation: int) -> tuple[Operation, ...]:
    """What `PIL.ImageOps.exif_transpose` does for an EXIF orientation, 1 to 8."""
    swapped = (Transpose(),) if orientation >= 5 else ()
    rows_back = (VFlip(),) if orientation in (3, 4, 7, 8) else ()
    columns_back = (HFlip(),) if orientation in (2, 3, 6, 7) else ()
    return (*swapped, *rows_back, *columns_back)


def needed(steps: Sequence[Step], shape: ImageShape) -> tuple[Box, tuple[Step, ...]]:
    """The box of something of that shape, such as a mask, that steps need; and the steps in its coordinates."""
    shapes = [shape]
    for step in steps:
        shapes.append(step.output_shape(shapes[-1]))
    return _backwards(steps, shapes)


def _backwards(steps: Sequence[Step], shapes: Sequence[ImageShape]) -> tuple[Box, tuple[Step, ...]]:
    """The box that is decoded, and the steps in its coordinates; ``shapes``: before each step, and the last."""
    last = shapes[-1]
    region = Box(0, 0, last.height, last.width)
    local: list[Step] = []  # from the back
    for step, before, behind in zip(reversed(steps), reversed(shapes[:-1]), reversed(shapes), strict=False):
        found: tuple[Box, tuple[Step, ...]] | None = None
        if isinstance(step, Operation):
            found = step.within(region, before)
        elif isinstance(step, Views):
            found = _needed(step, before)
        if found is not None:
            region, made = found
            for operation in reversed(made):
                _put_before(local, operation)
            continue
        if region != (0, 0, behind.height, behind.width):
            local.append(Crop(*region))
        local.append(step)
        region = Box(0, 0, before.height, before.width)
    local.reverse()
    return region, _tables_fused(local)


def _put_before(local: list[Step], operation: Step) -> None:
    """Two flips the same way, one behind the other, are none."""
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
    view = lower(Recipe(shape, tuple(steps)))
    return view.box, (*view.all_steps, AsTvImage()) if view.tv_image else view.all_steps


def _tables_fused(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps with each run of look-ups made one."""
    if len(steps) < 2 or sum(map(_has_table, steps)) < 2:
        return tuple(steps)
    fused: list[Step] = []
    for are_look_ups, group in groupby(steps, _has_table):
        run = list(group)
        if are_look_ups and len(run) > 1:
            fused.append(LookUp(tuple(step for step in run if isinstance(step, Operation))))
        else:
            fused += run
    return tuple(fused)


def _has_table(step: Step) -> bool:
    return isinstance(step, Operation) and step.pointwise and step.table() is not None


def _scaled(box: Box, request: DecodeRequest, steps: tuple[Step, ...]) -> tuple[DecodeRequest, tuple[Step, ...]]:
    """``fidelity="fast"``: decoded at a reduced DCT scale where the first step resizes to much less.

    libjpeg-turbo's inverse DCT gives an image at 1/2, 1/4 or 1/8 of its size for less work than the full one. The
    result is a good box-filtered reduction, but not the one that torchvision computes: ``benchmarks/fidelity.py``
    measures the error.
    """
    first = steps[0] if steps else None
    if isinstance(first, Resize):
        source, size, mode = box, first.output_shape(ImageShape(*box.size)).size, first.mode
    elif isinstance(first, ResizeWindow):
        source, size, mode = _shown(first, box), first.window.size, first.mode
    else:
        return request, steps
    scale = reduced_scale(source.size, size)
    if scale == 1:
        return request, steps
    return DecodeRequest(request.box, scale), (ScaledResize(source, size, mode), *steps[1:])


def _shown(resize: ResizeWindow, box: Box) -> Box:
    """The part of the image that a window shows, without what the filter reads around it."""
    down, across = resize.whole.height / resize.result.height, resize.whole.width / resize.result.width
    window, inside = resize.window, resize.box
    top, bottom = (round(edge * down) - inside.top for edge in (window.top, window.bottom))
    left, right = (round(edge * across) - inside.left for edge in (window.left, window.right))
    shown = Size(max(bottom - top, 1), max(right - left, 1))
    return Box(box.top + top, box.left + left, *shown)
