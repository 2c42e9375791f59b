"""Collate functions that mix a batch by torchvision's MixUp and CutMix: known to draw from torch's generator alone.

Any other Python function may draw from whatever it likes, so it isn't run in a thread ahead of time.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch.utils.data import default_collate

from fastpipe.rng import drawing
from fastpipe.rng.torch_patch import torch_draws_from

_MIX: Any = default_collate  # any object; only its name matters


def _starred(batch: Any) -> Any:
    return _MIX(*default_collate(batch))


def _whole(batch: Any) -> Any:
    return _MIX(default_collate(batch))


def _named(batch: Any) -> Any:
    images, labels = default_collate(batch)
    return _MIX(images, labels)


def _collated_first(batch: Any) -> Any:
    batch = default_collate(batch)
    return _MIX(*batch)


def _named_twice(batch: Any) -> Any:
    images, labels = default_collate(batch)
    images, labels = _MIX(images, labels)
    return images, labels


# Instructions that differ between functions that do the same, or between versions of Python.
_NOISE = frozenset({"CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "PRECALL", "PUSH_NULL", "RESUME"})
_CALLS = frozenset({"CALL", "CALL_FUNCTION", "CALL_METHOD"})
_MIXES = frozenset({"CutMix", "MixUp"})
_OVERRIDABLE = ("forward", "transform", "make_params")


def mixes_alone(collate: Any) -> bool:
    """Whether a function is ``mix(*default_collate(batch))``, or the same in two or three lines.

    `mix` is a `MixUp` or `CutMix` of ``v2``, torchvision's or ours, or a `RandomChoice` of these.
    """
    if type(collate) is not FunctionType or collate.__defaults__ or collate.__kwdefaults__:
        return False
    values = dict(collate.__globals__)
    for name, cell in zip(collate.__code__.co_freevars, collate.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            return False
    return _steps(collate.__code__, values) in _forms()


def mixed(collate: Callable[[Any], Any], samples: Any) -> Any:
    """Calls such a function, or a wrapper of it; its draws come from this thread's generators, if it has some."""
    with drawing() as generators, torch_draws_from(generators):
        return collate(samples)


@functools.cache
def _forms() -> frozenset[tuple[Any, ...]]:
    values = {"_MIX": None, "default_collate": default_collate}
    functions = (_starred, _whole, _named, _collated_first, _named_twice)
    return frozenset(_steps(function.__code__, values) for function in functions)


def _steps(code: CodeType, values: dict[str, Any]) -> tuple[Any, ...]:
    """A function's instructions, with what it refers to in place of the names that it does so by."""
    steps: list[Any] = [code.co_argcount, code.co_kwonlyargcount, code.co_flags & 0x0C]
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if name in _NOISE:
            continue
        if name in ("LOAD_GLOBAL", "LOAD_DEREF"):
            steps.append(values.get(value, ...))
        elif name in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(steps[-1], ModuleType):
            steps.append(getattr(steps.pop(), value, ...))
        else:
            steps.append(("CALL" if name in _CALLS else name, instruction.arg))
    return tuple(_meaning(step) for step in steps)


def _meaning(step: Any) -> Any:
    if step is None or _is_mix(step):
        return "mix"
    if step is default_collate:
        return "collate"
    return step if isinstance(step, (int, tuple)) else ...


def _is_mix(value: Any) -> bool:
    kind = type(value)
    if kind.__name__ == "RandomChoice" and _is_known(kind):
        return bool(value.transforms) and all(map(_is_mix, value.transforms))
    if kind.__name__ not in _MIXES or not _is_known(kind):
        return False
    getter = getattr(value._labels_getter, "func", value._labels_getter)
    hooked = value._forward_hooks or value._forward_pre_hooks or any(name in vars(value) for name in _OVERRIDABLE)
    return not hooked and getattr(getter, "__module__", "").startswith("torchvision.")


def _is_known(kind: type) -> bool:
    return kind.__module__.startswith("torchvision.transforms.v2.") or "_made_by_fastpipe" in vars(kind)
