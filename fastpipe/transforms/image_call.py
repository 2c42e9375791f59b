"""Calls of a `Compose` on a loaded image: its transforms are drawn from the image's size, and run as one program.

What is known of the transforms is worked out once. A call asks again only what may have changed since: which transforms
there are, whether they have hooks or methods of their own; a draw reads their attributes. Transforms that can't be
drawn are called, with the image that torchvision would give them, and those behind them are a program of their own.
Where a program fails, its transforms are called one after the other from where the generators stood: what is wrong is
said, and drawn until then, as ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch.nn.modules import module as _modules

from fastpipe.program.lower import lower
from fastpipe.program.on_image import run_on_image, shape_of
from fastpipe.program.profiling import profiled
from fastpipe.rng import drawing
from fastpipe.transforms._base import call, draws_from_stream
from fastpipe.transforms.adapters import planned
from fastpipe.transforms.pipeline import Pipeline, drawn_from, flatten, members_of
from fastpipe.types import ImageShape


class _Run(NamedTuple):
    """Transforms that follow each other.

    Attributes:
        transforms: the transforms.
        pipeline: draws for all of them; None where they are called.
        draws_from_python: they may draw from Python's generator or numpy's.
    """

    transforms: tuple[Any, ...]
    pipeline: Pipeline | None
    draws_from_python: bool


class ImageCall:
    """The way of an image through transforms, as it is as long as they stay the same.

    Args:
        transforms: what is called, one after the other.
    """

    __slots__ = ("_composites", "_dicts", "_lengths", "_members", "_transforms", "draws", "runs")

    def __init__(self, transforms: Iterable[Any]) -> None:
        self._transforms = tuple(transforms)
        members = [member for transform in self._transforms for member in flatten(transform)]
        self.runs = tuple(_runs(members))
        planned = [
            *_planned(self._transforms, {id(one) for run in self.runs if run.pipeline for one in run.transforms})
        ]
        self._composites = [one for one in planned if _members(one)]
        self._members = list(map(_members, self._composites))
        # A method that an instance gets, or a hook, makes one of these longer.
        watched = [_modules._global_forward_hooks, _modules._global_forward_pre_hooks]
        self.draws = any(run.pipeline is not None for run in self.runs) and not any(watched)
        for one in planned:
            own = getattr(one, "__dict__", {})
            watched += [own, *(own[name] for name in ("_forward_hooks", "_forward_pre_hooks") if name in own)]
        self._dicts: list[Any] = watched
        self._lengths = list(map(len, watched))

    def holds(self, transforms: Iterable[Any]) -> bool:
        """Whether the transforms, and those within them, are what they were."""
        return (
            tuple(transforms) == self._transforms
            and list(map(len, self._dicts)) == self._lengths
            and (not self._composites or list(map(_members, self._composites)) == self._members)
        )

    def __call__(self, image: Any) -> Any:
        for run in self.runs:
            shape = None if run.pipeline is None else shape_of(image)
            if shape is not None and run.pipeline is not None:
                image = _drawn(run, image, shape)
            else:
                for transform in run.transforms:
                    image = call(transform, image)
        return image


def _drawn(run: _Run, image: Any, shape: ImageShape) -> Any:
    """Draws for an image of that shape, and runs the program."""
    assert run.pipeline is not None
    turn = drawing(globally=True, with_python=run.draws_from_python)
    try:
        with turn as generators:
            steps = run.pipeline.steps(shape, generators)
        return run_on_image(lower(steps, shape), image, in_rows=True) if steps else image
    except Exception:
        turn.rewind()
    for transform in run.transforms:
        image = call(transform, image)
    return image


def _runs(members: Sequence[Any]) -> Iterator[_Run]:
    start = 0
    while start < len(members):
        end = drawn_from(members, start)
        if end > start:
            drawn = tuple(members[start:end])
            within = (inner for one in drawn for inner in _all_within(one))
            yield _Run(drawn, Pipeline(drawn, ()), any(map(_draws_from_python, within)))
        else:
            end = start + 1
            yield _Run((members[start],), None, False)
        start = end


def _planned(transforms: Iterable[Any], drawn: Collection[int]) -> Iterator[Any]:
    """Yields each Compose that is taken apart, of transforms and those within them, and what is drawn."""
    for transform in transforms:
        if id(transform) in drawn:
            yield from _all_within(transform)
        else:
            members = members_of(transform)
            if members is not None:
                yield transform
                yield from _planned(members, drawn)


def _all_within(transform: Any) -> Iterator[Any]:
    yield transform
    for member in _members(transform):
        yield from _all_within(member)


def _members(transform: Any) -> tuple[Any, ...]:
    found = getattr(transform, "transforms", None)
    return tuple(found) if isinstance(found, _LISTS) else ()


_LISTS = (list, tuple, torch.nn.ModuleList)


def _draws_from_python(transform: Any) -> bool:
    transform = planned(transform)
    own = getattr(transform, "_draws_from_python", None)
    return not draws_from_stream(transform) if own is None else bool(own)


@lru_cache(maxsize=256)
def _is_pillow(kind: Any) -> bool:
    """Whether these are Pillow's images; v2's stand-ins for them have no pixels."""
    return issubclass(kind, Image.Image) and not hasattr(kind, "stands_for")


class ImageCallSlot:
    """The base of transforms made of ``self.transforms``, one after the other, that run them as programs."""

    __slots__ = ("_image_call",)  # in no `vars`, no pickle and no copy

    _image_call: ImageCall

    def __getstate__(self) -> Any:
        return self.__dict__

    def _call_for(self, image: Any) -> ImageCall | None:
        """The call for an image; None where its transforms are to be called one by one."""
        kind: Any = type(image)
        if kind is not Image.Image and kind is not np.ndarray and not _is_pillow(kind):
            return None
        if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack() or profiled():
            return None
        transforms: Any = self.transforms  # type: ignore[attr-defined]
        known = getattr(self, "_image_call", None)
        if known is None or not known.holds(transforms):
            known = ImageCall(transforms) if isinstance(transforms, _LISTS) else _NONE
            object.__setattr__(self, "_image_call", known)
        return known if known.draws else None


_NONE = ImageCall(())
