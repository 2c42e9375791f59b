"""Call stacks that torch keeps in case CUDA or another device, once initialised, fails at what was asked for before.

Until then, as in workers, each ``torch.manual_seed`` formats the stack three times, in 0.2 ms and more; a dataset may
seed for each image and for each mask. Here the lines are formatted when somebody reads them.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType, ModuleType
from typing import Any, overload

from fastpipe.hooks.patches import Patches, are_in_force


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces the module ``traceback`` for the module of a kind of devices, such as ``torch.cuda``."""
    if getattr(module, "traceback", None) is traceback:
        patches.put(module, "traceback", _Traceback())


class _Traceback:
    """The standard library's ``traceback``, whose `format_stack` formats later."""

    def format_stack(self, f: FrameType | None = None, limit: int | None = None) -> Sequence[str]:
        """The lines of the caller's stack, or of a given frame's, from the outermost call on."""
        frame = f or sys._getframe(1)
        if limit is not None or hasattr(sys, "tracebacklimit") or not are_in_force():
            return traceback.format_stack(frame, limit)
        return CallStack(frame)

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


class CallStack(Sequence[str]):
    """The lines that ``traceback.format_stack`` gives, without the frames, whose variables it would keep alive."""

    __slots__ = ("_calls",)

    def __init__(self, frame: FrameType | None) -> None:
        self._calls: list[tuple[str, int, str]] = []
        while frame is not None:
            code = frame.f_code
            self._calls.append((code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back

    def _lines(self) -> list[str]:
        calls = [traceback.FrameSummary(file, line, name, lookup_line=False) for file, line, name in self._calls]
        return traceback.format_list(calls[::-1])

    def __len__(self) -> int:
        return len(self._lines())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._lines()[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines())
