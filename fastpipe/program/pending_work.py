"""The work that makes the elements of pending tensors, from files or from pixels, by the core in one job."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

from fastpipe import core
from fastpipe.clock import clock
from fastpipe.core.factors import normalized_by_factor
from fastpipe.ops import (
    ConvertImageDtype,
    TensorShape,
    interned_once,
)
from fastpipe.program.core_job import claimed_by_core
from fastpipe.program.program import Program
from fastpipe.program.tensor_source import TensorSource, run_on_pixels, strides_of
from fastpipe.program.uses import is_unused, start_of_child
from fastpipe.readers.base import Pixels
from fastpipe.torch_modes import follows_calls
from fastpipe.types import Step

_TO_FLOATS = interned_once(ConvertImageDtype, torch.float32)

Library: TypeAlias = Callable[[], torch.Tensor]
Cut: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


class Account(Protocol):
    """Counts the time that pending tensors take, and may check their results."""

    @property
    def checks(self) -> bool:
        """True if results have to go through `check`."""

    @property
    def library(self) -> Library | None:
        """Makes the same tensor by the library alone; None if the library would have to draw."""

    @property
    def may_compare(self) -> bool:
        """True if one more tensor of the same file may be compared with the library's."""

    def count(self, seconds: float) -> None:
        """Adds the seconds that making elements took."""

    def check(self, made: torch.Tensor, seconds: float) -> torch.Tensor:
        """Checks a result, and returns the tensor to use: the result or a corrected one."""

    def after(self, call: Cut) -> Account:
        """The account of a tensor that the library makes from this one by a call."""


@dataclass(slots=True, eq=False, kw_only=True)
class PendingWork(ABC):
    """The work that makes a pending tensor's elements.

    Attributes:
        shape: the shape of the result.
        strides: the strides of the result, in elements, as the library's own tensor has them.
        account: counts the time and checks results.
        owner: returns the tensor; None if it is gone.
        made: the result; None until it is made.
        uses: how many times the elements have been made; at the second time they are the `result`.
        inference: torch's inference mode was on when the work was recorded.
    """

    shape: TensorShape
    strides: tuple[int, int, int]
    account: Account
    owner: Callable[[], torch.Tensor | None] = lambda: None
    made: torch.Tensor | None = None
    uses: int = 0
    inference: bool = field(default_factory=torch.is_inference_mode_enabled)

    @abstractmethod
    def _new(self) -> torch.Tensor:
        """Makes the result in new memory, with `strides`."""

    @abstractmethod
    def _write(self, out: torch.Tensor) -> None:
        """Writes the result into a tensor of its shape and dtype."""

    def result(self) -> torch.Tensor:
        """The result; made at the first call and shared by all callers."""
        if self.made is None:
            with ordinary(self.inference):
                result = self._make()
            with becoming_ordinary():
                if self.made is None:
                    self.made = result
        return self.made

    def held_bytes(self) -> int:
        """Bytes of the file that stay in memory until the elements are made."""
        return 0

    def fill(self, job: core.Job, sink: core.BatchSink, number: int) -> bool:
        """Fills a job that writes the result into a batch; False if `write` has to do it.

        Args:
            job: any job, which is filled anew.
            sink: the batch; its images have the result's shape and dtype.
            number: the result's position in the batch.
        """
        return False

    def write(self, out: torch.Tensor) -> None:
        """Writes the result into a tensor of its shape and dtype."""
        if self.uses or self.made is not None or self.account.checks or self._is_shared():
            out.copy_(self.result())
            return
        self.uses += 1
        begun = clock()
        with ordinary(self.inference):
            self._write(out)
        self.account.count(clock() - begun)

    def _make(self) -> torch.Tensor:
        begun = clock()
        result = self._new()
        seconds = clock() - begun
        if self.account.checks:
            return self.account.check(result, seconds)
        self.account.count(seconds)
        return result

    def _is_shared(self) -> bool:
        """True if other tensors share the result's memory, and may change it."""
        return False


@dataclass(slots=True, eq=False)
class Record(PendingWork):
    """Work on a file to which steps can be added.

    Attributes:
        source: the file.
        steps: the steps on the image's tensor.
        program: the program from the file through the steps.
        base: for a window, the record of the tensor whose memory it shares.
        cuts: the indexing calls that cut the window out of the base's tensor.
        windows: how many windows were cut out of this tensor.
        parent: the record of the tensor on which the last steps were recorded; None for an image's own tensor.
        children: how many tensors were recorded on this one.
        kept: a copy of the elements, which nobody changes, for children; None until it is made.
    """

    source: TensorSource
    steps: tuple[Step, ...]
    program: Program
    base: Record | None = None
    cuts: tuple[Cut, ...] = ()
    windows: int = 0
    parent: Record | None = None
    children: int = 0
    kept: torch.Tensor | None = None

    def __post_init__(self) -> None:
        if self.parent is not None:
            self.parent.children += 1

    @classmethod
    def of(cls, source: TensorSource, account: Account) -> Record:
        """The record of a file's whole image, without steps."""
        shape = TensorShape.of(tuple(source.shape), torch.uint8, pure=True, ahead=True)
        program = source.program(())
        strides = strides_of(source, (), program, shape)
        return cls(source, (), program, shape=shape, strides=strides, account=account)

    def _make(self) -> torch.Tensor:
        if self.base is None or not self._is_shared():
            result = PendingWork._make(self)
            if self.children > self.windows and not self.is_file:  # the result's owner may change it
                self.kept = result.clone()
            return result
        shown = self.base.result()
        for cut in self.cuts:
            shown = cut(shown)
        return shown

    def _new(self) -> torch.Tensor:
        return self.elements(self.parent)

    def _write(self, out: torch.Tensor) -> None:
        run_recorded(self.parent, self.source, self.steps, self.program, out)

    def elements(self, user_of: Record | None) -> torch.Tensor:
        """Makes the elements in new memory, as a use of a record: the parent, or this one itself."""
        height, width, channels = self.shape
        out = None
        in_rows = self.strides == (1, width * channels, channels)
        if not in_rows and self.strides != (height * width, width, 1):
            out = self._laid_out()
        tensor = run_recorded(user_of, self.source, self.steps, self.program, out, in_rows).as_subclass(torch.Tensor)
        # What starts from kept elements is laid out as that allows.
        return tensor if tensor.stride() == self.strides else self._laid_out().copy_(tensor)

    def _laid_out(self) -> torch.Tensor:
        height, width, channels = self.shape
        return torch.empty_strided((channels, height, width), self.strides, dtype=self.shape.dtype, device="cpu")

    @property
    def is_file(self) -> bool:
        return self.source.is_file and not self.steps

    def keep(self) -> None:
        if self.made is None:
            self.result()
        if self.kept is None:
            with ordinary(self.inference):
                self.kept = self._new()

    def held_bytes(self) -> int:
        return self.source.held_bytes()

    def fill(self, job: core.Job, sink: core.BatchSink, number: int) -> bool:
        program = self.program
        if self.uses or self.made is not None or self.account.checks or self._is_shared():
            return False
        if program.conversion is None or not is_unused(self.parent) or not self.source.fill(job, program):
            return False
        self.uses += 1
        start_of_child(self.parent)
        sink.write(job, number, program.conversion.arithmetic)
        return True

    def _is_shared(self) -> bool:
        base = self.base
        return base is not None and (base.made is not None or base.windows > 1 or base.owner() is not None)


@dataclass(slots=True, eq=False)
class NormalizedPixels(PendingWork):
    """Loaded pixels that become an interleaved float32 tensor: ``(pixels - mean) * factor``.

    Attributes:
        pixels: uint8 ``(H, W, 3)``, contiguous; never changed.
        mean: float32 ``(3,)``.
        factor: float32 ``(3,)``.
        library: makes the tensor without the core, if the core refuses.
    """

    pixels: Pixels
    mean: NDArray[np.float32]
    factor: NDArray[np.float32]
    library: Library

    @classmethod
    def of(
        cls,
        pixels: Pixels,
        mean: NDArray[np.float32],
        factor: NDArray[np.float32],
        library: Library,
        account: Account,
    ) -> NormalizedPixels:
        """Makes the work for these pixels."""
        _, width, channels = pixels.shape
        shape = TensorShape.of(pixels.shape, torch.float32, pure=True)
        strides = 1, width * channels, channels
        return cls(pixels, mean, factor, library, shape=shape, strides=strides, account=account)

    def _new(self) -> torch.Tensor:
        array = normalized_by_factor(self.pixels, self.mean, self.factor)
        return self.library() if array is None else torch.from_numpy(array.transpose(2, 0, 1))

    def _write(self, out: torch.Tensor) -> None:
        if normalized_by_factor(self.pixels, self.mean, self.factor, out.permute(1, 2, 0).numpy()) is None:
            out.copy_(self.library())


@dataclass(slots=True, eq=False)
class FloatsOfPixels(PendingWork):
    """``float()`` of an image's pixels; usually a division by 255 follows, so that these floats are never made.

    Attributes:
        pixels: the work that makes the pixels.
    """

    pixels: Record

    @classmethod
    def of(cls, pixels: Record, account: Account) -> FloatsOfPixels:
        """Makes the work that converts these pixels."""
        shape = TensorShape.of(tuple(pixels.shape), torch.float32, pure=True)
        pixels.children += 1
        return cls(pixels, shape=shape, strides=pixels.strides, account=account)

    def divided(self, account: Account) -> Record | None:
        """The work that makes the floats divided by 255; None if the core lacks a step."""
        pixels = self.pixels
        return after_conversion(pixels.source, (*pixels.steps, _TO_FLOATS), self.shape, account, parent=pixels)

    def _new(self) -> torch.Tensor:
        return self._pixels().float()

    def _write(self, out: torch.Tensor) -> None:
        out.copy_(self._pixels())

    def _pixels(self) -> torch.Tensor:
        """The pixels; made again unless they are kept, as the image's own tensor may have been changed since."""
        return self.pixels.elements(self.pixels)


def ordinary(inference: bool) -> AbstractContextManager[object]:
    """A context in which nothing of torch follows its functions' calls, and with inference mode as given."""
    plain: AbstractContextManager[object] = torch._C.DisableTorchFunction()
    if torch.is_inference_mode_enabled() == inference and not follows_calls():
        return plain
    contexts = ExitStack()
    contexts.enter_context(plain)
    contexts.enter_context(_disable_current_modes())
    contexts.enter_context(torch.inference_mode(inference))
    while torch._C._functorch.maybe_current_level() is not None:
        contexts.enter_context(temporarily_pop_interpreter_stack())
    return contexts


_lock = threading.Lock()


def becoming_ordinary() -> threading.Lock:
    """The lock for giving a tensor its memory; held for a moment only, never while pixels are made."""
    return _lock


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def after_conversion(
    source: TensorSource,
    steps: tuple[Step, ...],
    shape: TensorShape,
    account: Account,
    program: Program | None = None,
    parent: Record | None = None,
) -> Record | None:
    """The record of steps on a source's tensor that belong to its conversion; None if the core lacks a step.

    Args:
        source: the image.
        steps: the steps on its tensor.
        shape: the shape and dtype of the result.
        account: the account of the result.
        program: the program of the steps; None to make it.
        parent: the record of the tensor on which the last of them were recorded.
    """
    program = source.program(steps) if program is None else program
    if program.conversion is None or program.conversion.dtype is not shape.dtype:
        return None
    claimed = claimed_by_core(program)
    if claimed is None or claimed.after:
        return None
    strides = strides_of(source, steps, claimed, shape)
    return Record(source, steps, claimed, parent=parent, shape=shape, strides=strides, account=account)


def run_recorded(
    parent: Record | None,
    source: TensorSource,
    steps: tuple[Step, ...],
    program: Program,
    out: torch.Tensor | None = None,
    in_rows: bool = False,
) -> torch.Tensor:
    """Runs steps as `TensorSource.run` does, from what is kept of the tensors that they were recorded on.

    Args:
        parent: the record of the tensor on which the last steps were recorded, whose use this is.
        source: the image.
        steps: the steps on the image's tensor, of which the first are those of ``parent``.
        program, out, in_rows: see `TensorSource.run`.
    """
    known = start_of_child(parent)
    if not isinstance(known, Record) or known.kept is None:
        return source.run(steps, program, out, in_rows=in_rows)
    steps, kept = steps[len(known.steps) :], known.kept
    if kept.dtype is torch.uint8:
        return run_on_pixels(kept.permute(1, 2, 0).numpy(), steps, out, in_rows)
    tensor: Any = kept
    for step in steps:
        tensor = step.apply(tensor)
    return tensor if out is None else out.copy_(tensor)
