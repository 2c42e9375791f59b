"""Stacks batches in reused memory where a loader's ``collate_fn`` calls torch's ``default_collate`` or ``torch.stack``.

torch makes tensors of numpy arrays first, without a copy, and raises for those of which it can't; so they are stacked
like tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeAlias

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data._utils.collate import default_collate

from fastpipe.hooks.patches import Function
from fastpipe.memory.stacking import stacked

Collate: TypeAlias = Callable[[Sequence[object]], object]
Stack: TypeAlias = Callable[[Sequence[torch.Tensor]], "torch.Tensor | None"]

_thread = threading.local()


def stacking(collate: Collate) -> Collate:
    """Wraps a ``collate_fn`` so that it stacks in reused memory."""

    def collate_stacking(samples: Sequence[object]) -> object:
        with stacking_by(stacked), nullcontext() if collate is default_collate else _StackMode():
            return collate(samples)

    return collate_stacking


@contextmanager
def stacking_by(stack: Stack) -> Iterator[None]:
    """Makes `collated` call a function within the block, in this thread."""
    before = getattr(_thread, "stack", None)
    _thread.stack = stack
    try:
        yield
    finally:
        _thread.stack = before


def collated(batch: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The result of torch's ``collate_tensor_fn`` for some tensors; None if torch has to make it."""
    stack: Stack | None = getattr(_thread, "stack", None)
    return None if stack is None else stack(batch)


class _StackMode(TorchFunctionMode):
    """Makes ``torch.stack`` use reused memory while a ``collate_fn`` runs."""

    sees_transforms = False  # see `fastpipe.torch_modes`

    def __torch_function__(
        self, function: Function, kinds: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        batch = _stack(*args, **(kwargs or {})) if function is torch.stack else None
        return function(*args, **(kwargs or {})) if batch is None else batch


def _stack(tensors: object = None, dim: object = 0, **others: object) -> torch.Tensor | None:
    """The result of ``torch.stack`` along a new first dimension; None if torch has to make it."""
    return stacked(tensors) if type(dim) is int and dim == 0 and not others else None
