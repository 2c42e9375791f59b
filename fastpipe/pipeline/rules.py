"""Planner rules: a chain of drawn steps rewritten into one that gives the same pixels for less work.

Every rule is a pure function of one step, or of two neighbours, and the shape of the image before them; it
returns the steps that replace them, or None to leave them alone. A rule must be exact: the chain before and
after gives the same pixels, bit for bit (`tests/pipeline/test_rules.py` holds each rule to that).

The rules know operations by their functional names and never see a transform's class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastpipe.transforms.functional.geometry import center_crop_box
from fastpipe.transforms.steps import Call
from fastpipe.types import Box, ImageShape, Step

__all__ = ["crop_box", "rewrite"]

OneStepRule = Callable[[Call, ImageShape], "tuple[Step, ...] | None"]
TwoStepRule = Callable[[Call, Call, ImageShape], "tuple[Step, ...] | None"]


def crop_box(step: Call) -> Box:
    """The box of a ``crop`` call."""
    arguments = dict(step.args)
    return Box(arguments["top"], arguments["left"], arguments["height"], arguments["width"])


def crop_call(box: Box) -> Call:
    return Call("crop", (("top", box.top), ("left", box.left), ("height", box.height), ("width", box.width)))


def _drop_full_crop(crop: Call, shape: ImageShape) -> tuple[Step, ...] | None:
    return () if crop_box(crop) == (0, 0, *shape.size) else None


def _drop_same_size_resize(resize: Call, shape: ImageShape) -> tuple[Step, ...] | None:
    return () if resize.output_shape(shape).size == shape.size else None


def _center_crop_to_crop(center_crop: Call, shape: ImageShape) -> tuple[Step, ...] | None:
    box = Box(*center_crop_box(*shape.size, center_crop["output_size"]))
    return (crop_call(box),) if box.inside(shape.size) else None


def _drop_empty_pad(pad: Call, shape: ImageShape) -> tuple[Step, ...] | None:
    padding = pad["padding"]
    return () if not any([padding] if isinstance(padding, int) else padding) else None


def _merge_crops(first: Call, second: Call, shape: ImageShape) -> tuple[Step, ...] | None:
    outer, inner = crop_box(first), crop_box(second)
    if not inner.inside(outer.size):  # it would reach into the zeros around the first crop
        return None
    return (crop_call(Box(outer.top + inner.top, outer.left + inner.left, inner.height, inner.width)),)


def _crop_before_hflip(hflip: Call, crop: Call, shape: ImageShape) -> tuple[Step, ...] | None:
    box = crop_box(crop)
    return (crop_call(box._replace(left=shape.width - box.right)), hflip)


def _crop_before_vflip(vflip: Call, crop: Call, shape: ImageShape) -> tuple[Step, ...] | None:
    box = crop_box(crop)
    return (crop_call(box._replace(top=shape.height - box.bottom)), vflip)


def _cancel(first: Call, second: Call, shape: ImageShape) -> tuple[Step, ...] | None:
    return ()


def _crop_inside_pad(pad: Call, crop: Call, shape: ImageShape) -> tuple[Step, ...] | None:
    """Padding that the crop cuts off again was never needed."""
    padded = pad.output_shape(shape)
    padding = pad["padding"]
    sides = [padding] if isinstance(padding, int) else list(padding)
    left, top = sides[0], sides[1 % len(sides)]
    if min(sides) < 0 or not crop_box(crop).inside(padded.size):
        return None
    box = crop_box(crop)
    box = box._replace(top=box.top - top, left=box.left - left)
    return (crop_call(box),) if box.inside(shape.size) else None


_ONE: dict[str, OneStepRule] = {
    "center_crop": _center_crop_to_crop,
    "crop": _drop_full_crop,
    "pad": _drop_empty_pad,
    "resize": _drop_same_size_resize,
}

_TWO: dict[tuple[str, str], TwoStepRule] = {
    ("crop", "crop"): _merge_crops,
    ("hflip", "crop"): _crop_before_hflip,
    ("hflip", "hflip"): _cancel,
    ("pad", "crop"): _crop_inside_pad,
    ("vflip", "crop"): _crop_before_vflip,
    ("vflip", "vflip"): _cancel,
}


def rewrite(steps: Sequence[Step], shape: ImageShape) -> tuple[Step, ...]:
    """The steps rewritten until no rule applies.

    Args:
        steps: a recipe's steps.
        shape: the image that they start from.

    Each step is taken up once; where a rule replaces it or it and its left neighbour, the replacement is
    taken up again, so a crop travels left as far as it can: ``hflip, pad, crop`` becomes ``crop, hflip``.
    """
    done: list[tuple[Step, ImageShape]] = []  # each with the shape of the image before it
    todo = list(reversed(steps))
    while todo:
        step = todo.pop()
        left, before_left = done[-1] if done else (None, shape)
        before = left.output_shape(before_left) if left is not None else shape
        replacement = None
        if isinstance(step, Call):
            if rule := _ONE.get(step.op):
                replacement = rule(step, before)
            if replacement is None and isinstance(left, Call) and (pair := _TWO.get((left.op, step.op))):
                replacement = pair(left, step, before_left)
                if replacement is not None:
                    done.pop()
        if replacement is None:
            done.append((step, before))
        else:
            todo.extend(reversed(replacement))
    return tuple(step for step, _ in done)
