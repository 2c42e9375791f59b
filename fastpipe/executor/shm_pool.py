"""Shared memory that batches are made in again and again.

A new piece of shared memory costs as much as decoding: the system clears its pages, maps each of them when it is first
written to, and takes them away again. So a worker keeps the pieces that it has handed out, and makes the next batch in
one that the main process has let go of: when the last tensor on it is gone, not before. Where that process was forked
meanwhile, the child may still see the batch: then the piece is left to it, and the worker takes another one.
"""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.multiprocessing.reductions import reduce_tensor

from fastpipe.environment import SHARED_MEMORY, shared_memory_room
from fastpipe.errors import LoaderError

_owners: weakref.WeakValueDictionary[str, Slots] = weakref.WeakValueDictionary()

# What the main process writes, and the worker reads, about a piece.
_FREE, _IN_USE, _LEFT = 0, 1, 2

_forks = 0
"""How often this process has been forked."""


def _forking() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forking)


class Slots:
    """The shared memory of a loader's workers, as the main process sees it; made before the workers are.

    Args:
        workers: processes that make batches.
        count: pieces that each of them keeps; batches beyond them are in new memory.
    """

    def __init__(self, workers: int, count: int) -> None:
        self._token = secrets.token_hex(8)
        zeros = torch.zeros((workers, count), dtype=torch.uint8)
        self._in_use: torch.Tensor = zeros.share_memory_()  # type: ignore[no-untyped-call]
        self._pieces: dict[tuple[int, int], tuple[NDArray[np.uint8], NDArray[np.uint8]]] = {}
        _owners[self._token] = self

    def __getstate__(self) -> tuple[str, torch.Tensor]:
        return self._token, self._in_use

    def __setstate__(self, state: tuple[str, torch.Tensor]) -> None:
        self._token, self._in_use = state
        self._pieces = {}

    def of_worker(self, worker: int) -> WorkerSlots:
        """The pieces of one worker, which makes batches in them."""
        return WorkerSlots(self._token, worker, self._in_use[worker].numpy())

    def open(
        self, worker: int, number: int, count: int, dtype: torch.dtype, piece: torch.Tensor | None
    ) -> torch.Tensor:
        """The first values of the piece that a batch came in; it is free again when nothing refers to their memory."""
        if piece is not None:
            self._pieces[worker, number] = piece.numpy(), self._in_use[worker].numpy()
        whole, in_use = self._pieces[worker, number]
        view = whole[:]
        # torch keeps the array for as long as there is a tensor, or anything made of one, on its memory.
        weakref.finalize(view, _free, in_use, number, os.getpid(), _forks).atexit = False
        return torch.frombuffer(view, dtype=dtype, count=count)


def _free(in_use: NDArray[np.uint8], number: int, owner: int, forks: int) -> None:
    if os.getpid() == owner:  # a process forked from it has the same objects, but no say
        in_use[number] = _FREE if forks == _forks else _LEFT


class WorkerSlots:
    """The pieces of one worker, in its process."""

    def __init__(self, token: str, worker: int, in_use: NDArray[np.uint8]) -> None:
        self.token = token
        self.worker = worker
        self.in_use = in_use
        self.known: set[int] = set()
        self._pieces: list[torch.Tensor | None] = [None] * len(in_use)

    def find(self, bytes_: int, make: Callable[[int], torch.Tensor]) -> Slot | None:
        """A piece of at least so many bytes that nobody uses; None where all are in use.

        Args:
            bytes_: of the batch.
            make: makes a new piece, uint8 ``(bytes_,)`` in shared memory.
        """
        free = np.flatnonzero(self.in_use != _IN_USE)
        if not len(free):
            return None
        number = int(free[0])
        piece = self._pieces[number]
        if piece is None or len(piece) < bytes_ or self.in_use[number] == _LEFT:
            self.in_use[number] = _FREE
            piece = self._pieces[number] = None  # given back before there is another
            self.known.discard(number)
            piece = self._pieces[number] = make(bytes_)
        return Slot(self, number, piece)


@dataclass(slots=True)
class Slot:
    """A piece of memory for one batch."""

    owner: WorkerSlots
    number: int
    piece: torch.Tensor

    def handed_over(self, images: torch.Tensor) -> Any:
        """A stand-in to send for the images that were made here; the piece is theirs until they are gone."""
        owner, number = self.owner, self.number
        owner.in_use[number] = _IN_USE
        # The main process gets a handle of the memory once, and maps it once.
        piece = None if number in owner.known else _Handle(self.piece)
        owner.known.add(number)
        layout = (tuple(images.shape), images.stride(), images.storage_offset())
        count = len(self.piece) // images.itemsize
        return _Sent((owner.token, owner.worker, number, count, images.dtype, piece, *layout))


@dataclass(frozen=True, slots=True)
class _Handle:
    """A piece on its way, shared however small it is."""

    piece: torch.Tensor

    def __reduce__(self) -> Any:
        return reduce_tensor(self.piece)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class _Sent:
    arguments: tuple[Any, ...]

    def __reduce__(self) -> Any:
        return _received, self.arguments


def _received(
    token: str,
    worker: int,
    number: int,
    count: int,
    dtype: torch.dtype,
    piece: torch.Tensor | None,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
) -> torch.Tensor:
    """Makes a tensor of a batch that came from a worker; called in the main process."""
    return _owners[token].open(worker, number, count, dtype, piece).as_strided(shape, stride, offset)


def too_small(needed: int, what: str) -> LoaderError:
    """The error where shared memory has no room for `needed` bytes; `what` says what they are."""
    room = shared_memory_room()
    has = "" if room is None else f", and {SHARED_MEMORY} has {_megabytes(room.free)} free of {_megabytes(room.size)}"
    wanted = f"{max(1, -(-2 * needed >> 30))}g"
    return LoaderError(
        f"shared memory is too small: {what} {_megabytes(needed)}{has}. Workers hand their batches over there. "
        f"Enlarge it (docker run --shm-size={wanted}, or mount -o remount,size={wanted} {SHARED_MEMORY}), or use a "
        "smaller batch_size, prefetch_factor or num_workers, or uint8 batches (device=…, or a transform that ends in "
        "PILToTensor): a quarter of the bytes of float32."
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count < 10_000_000 else f"{count / 1e6:.0f} MB"
