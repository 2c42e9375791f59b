"""Moves batches to the training device, and runs ``ToTensor`` and ``Normalize`` there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

import torch

from fastpipe.loading.collate import DeferredImages, map_tensors, to_device


class Source(Protocol):
    """Batches in the CPU's memory."""

    @property
    def is_drained(self) -> bool:
        """True if all batches were handed out."""

    def __next__(self) -> object: ...


class DeviceBatches(Iterator[object]):
    """The batches of a source, moved to a device and finished there.

    Args:
        source: the batches.
        device: the device to move them to.
    """

    def __init__(self, source: Source, device: torch.device) -> None:
        self.source = source
        self.device = device

    @property
    def is_drained(self) -> bool:
        """True if all batches were handed out."""
        return self.source.is_drained

    def __next__(self) -> object:
        return _moved(next(self.source), self.device)


class CopiedAhead(DeviceBatches):
    """Copies batches to a GPU and finishes them there, on a separate CUDA stream, one batch ahead.

    Copying and finishing overlap with the training loop's kernels; copies from pinned memory don't block the process.

    Args:
        source: the batches.
        device: a CUDA device; without a number, the device that is current when this object is made.
    """

    def __init__(self, source: Source, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        super().__init__(source, self._stream.device)
        # batches on the device, each with the event recorded at the end of its copy
        self._copies: deque[tuple[object, torch.cuda.Event]] = deque()
        self._ended = False
        self._error: Exception | None = None  # the error of the batch after these

    @property
    def is_drained(self) -> bool:
        """True if all batches were handed out, including those copied ahead."""
        return not self._copies and self._error is None and (self._ended or self.source.is_drained)

    def __next__(self) -> object:
        while len(self._copies) < 2 and not self._ended and self._error is None:
            try:
                self._copies.append(self._copied(next(self.source)))
            except StopIteration:
                self._ended = True
            except Exception as error:  # raised when this batch is requested, after the one before it is handed out
                self._error = error
        if not self._copies:
            failed, self._error = self._error or StopIteration(), None
            self._ended = True
            raise failed
        batch, copied = self._copies.popleft()
        current = torch.cuda.current_stream(self.device)
        current.wait_event(copied)
        # The memory belongs to the copy stream, which must not reuse it while the training loop reads it.
        map_tensors(lambda tensor: tensor.record_stream(current), batch)
        return batch

    def _copied(self, batch: object) -> tuple[object, torch.cuda.Event]:
        with torch.cuda.stream(self._stream):
            return _moved(batch, self.device), self._stream.record_event()


def on_device(source: Source, device: torch.device) -> DeviceBatches:
    """Moves the batches to a device and finishes them there; for a CUDA device, one batch ahead."""
    return CopiedAhead(source, device) if device.type == "cuda" else DeviceBatches(source, device)


def _moved(batch: object, device: torch.device) -> object:
    def place(part: torch.Tensor | DeferredImages) -> torch.Tensor:
        return part.finish(device) if isinstance(part, DeferredImages) else to_device(part, device)

    return map_tensors(place, batch)
