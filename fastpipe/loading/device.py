"""Batches on their way to the training device, and ``ToTensor`` and ``Normalize`` there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from fastpipe.loading.collate import DeferredImages, map_tensors


def on_device(batches: Iterator[Any], device: torch.device) -> Iterator[Any]:
    """The batches, moved to a device and finished there.

    On a GPU each batch is copied and finished on a stream of its own, one batch ahead of the one that is handed out,
    so that both overlap with what the training loop runs; from pinned memory the copy doesn't hold up the process.
    """
    if device.type == "cuda":
        return _copied_ahead(batches, device)
    return (_moved(batch, device) for batch in batches)


def _moved(batch: Any, device: torch.device) -> Any:
    def place(part: Any) -> torch.Tensor:
        if isinstance(part, DeferredImages):
            return part.finish(device)
        placed: torch.Tensor = part.to(device, non_blocking=True)
        return placed

    return map_tensors(place, batch)


def _copied_ahead(batches: Iterator[Any], device: torch.device) -> Iterator[Any]:
    side: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def load() -> tuple[Any, Any] | None:
        for batch in batches:
            with torch.cuda.stream(side):
                moved = _moved(batch, device)
                return moved, side.record_event()
        return None

    ahead = load()
    while ahead is not None:
        batch, ready = ahead
        ahead = load()
        _wait_for_copy(batch, ready, device)
        yield batch
        del batch


def _wait_for_copy(batch: Any, ready: Any, device: torch.device) -> None:
    current: Any = torch.cuda.current_stream(device)
    current.wait_event(ready)
    # The memory belongs to the side stream: it must not be used again there while the training loop reads it.
    map_tensors(lambda tensor: tensor.record_stream(current), batch)
