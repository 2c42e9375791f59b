"""Room for batches in shared memory, where workers hand them over."""

from __future__ import annotations

import os
from typing import NamedTuple

from fastpipe.errors import LoaderError

_FOLDER = "/dev/shm"


class Room(NamedTuple):
    """Bytes of shared memory: free now, and in all."""

    free: int
    size: int


def shared_memory_room(folder: str = _FOLDER) -> Room | None:
    """None where the system keeps shared memory elsewhere than in a file system that can be asked (not on Linux)."""
    try:
        status = os.statvfs(folder)
    except (AttributeError, OSError):
        return None
    return Room(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)


def too_small(needed: int, what: str) -> LoaderError:
    """The error where shared memory has no room for `needed` bytes; `what` says what they are."""
    room = shared_memory_room()
    has = "" if room is None else f", and {_FOLDER} has {_megabytes(room.free)} free of {_megabytes(room.size)}"
    wanted = f"{max(1, -(-2 * needed >> 30))}g"
    return LoaderError(
        f"shared memory is too small: {what} {_megabytes(needed)}{has}. Workers hand their batches over there. "
        f"Enlarge it (docker run --shm-size={wanted}, or mount -o remount,size={wanted} {_FOLDER}), or use a smaller "
        "batch_size, prefetch_factor or num_workers, or uint8 batches (device=…, or a transform that ends in "
        "PILToTensor): a quarter of the bytes of float32."
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count < 10_000_000 else f"{count / 1e6:.0f} MB"
