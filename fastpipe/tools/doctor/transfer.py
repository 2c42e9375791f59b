"""What it costs to move finished batches to a GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from fastpipe.loading.collate import DeferredImages
from fastpipe.tools.doctor.values import Transfer

__all__ = ["measure_transfer"]

_ROUNDS = 7
_IMAGES = 64


def measure_transfer(height: int, width: int, device: torch.device | str | None = None) -> Transfer | None:
    """Moves made-up batches of RGB images, normalised before or there.

    Args:
        height, width: of an image, in pixels.
        device: None for the CUDA device, where there is one.

    Returns:
        None where there is no CUDA device.
    """
    if device is None:
        if not torch.cuda.is_available():
            return None
        device = "cuda"
    place = torch.device(device)
    on_gpu = place.type == "cuda"
    pixels = torch.zeros((_IMAGES, 3, height, width), dtype=torch.uint8, pin_memory=on_gpu)
    floats = torch.zeros((_IMAGES, 3, height, width), pin_memory=on_gpu)
    half = torch.full((1, 3, 1, 1), 0.5)
    deferred = DeferredImages(pixels, half, half, torch.float32)
    return Transfer(
        torch.cuda.get_device_name(place) if on_gpu else str(place),
        _us(lambda: floats.to(place, non_blocking=True), on_gpu),
        _us(lambda: deferred.finish(place), on_gpu),
    )


def _us(work: Callable[[], object], wait: bool) -> float:
    """Median microseconds an image."""
    taken = []
    for _ in range(_ROUNDS + 1):
        start = time.perf_counter()
        work()
        if wait:
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:]) / _IMAGES * 1e6
