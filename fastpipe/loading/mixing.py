"""Collate functions that mix a batch by torchvision's MixUp and CutMix: known to draw from torch's generator alone.

Any other Python function may draw from whatever it likes, so it isn't run in a thread ahead of time.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import CellType, FunctionType, ModuleType
from typing import Any

from torch.utils.data import default_collate

from fastpipe.rng import drawing
from fastpipe.rng.torch_patch import torch_draws_from

_MIXES = frozenset({"CutMix", "MixUp"})
_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})
_OVERRIDABLE = ("forward", "transform", "make_params")

# What the function is called with in place of a batch, and what its calls give in place of tensors.
_BATCH, _IMAGES, _LABELS, _MIXED_IMAGES, _MIXED_LABELS = (object() for _ in range(5))


def mixes_alone(collate: Any) -> bool:
    """Whether a function does what ``mix(*default_collate(batch))`` does, on whatever lines, and nothing else.

    `mix` is a `MixUp` or `CutMix` of ``v2``, torchvision's or ours, or a `RandomChoice` of these. A function without
    branches is called once, with stand-ins for these, for `default_collate` and for the batch, and with nothing else
    within its reach.
    """
    if type(collate) is not FunctionType or collate.__defaults__ or collate.__kwdefaults__:
        return False
    code = collate.__code__
    steps = list(dis.get_instructions(code))
    if any(step.opcode in _JUMPS for step in steps) or getattr(code, "co_exceptiontable", None):
        return False  # one call doesn't show all that it does
    names = {step.argval for step in steps if step.opname == "LOAD_GLOBAL"}
    try:
        scope = {name: _stand_in(collate.__globals__[name]) for name in names}
        cells = tuple(CellType(_stand_in(cell.cell_contents)) for cell in collate.__closure__ or ())
        alike = FunctionType(code, {"__builtins__": {}, **scope}, closure=cells)
        return bool(alike(_BATCH) == (_MIXED_IMAGES, _MIXED_LABELS))
    except Exception:  # a name that isn't known or assigned, or anything else done with a stand-in
        return False


def mixed(collate: Callable[[Any], Any], samples: Any) -> Any:
    """Calls such a function, or a wrapper of it; its draws come from this thread's generators, if it has some."""
    with drawing() as generators, torch_draws_from(generators):
        return collate(samples)


class _Module:
    """A module, of whose attributes there are stand-ins alone."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _stand_in(getattr(self._module, name))


def _stand_in(value: Any) -> Any:
    """A stand-in for what a function refers to, which takes and gives stand-ins.

    Raises:
        LookupError: there is none: the function may draw there.
    """
    if value is default_collate:
        return _collate
    if _is_mix(value):
        return _mix
    if isinstance(value, ModuleType):
        return _Module(value)
    raise LookupError(f"{value!r:.40}")


def _collate(batch: Any) -> Any:
    if batch is not _BATCH:
        raise ValueError("not the batch")
    return [_IMAGES, _LABELS]


def _mix(*inputs: Any) -> Any:
    given = inputs[0] if len(inputs) == 1 else inputs
    if [*given] != [_IMAGES, _LABELS]:
        raise ValueError("not the collated batch")
    return _MIXED_IMAGES, _MIXED_LABELS


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
