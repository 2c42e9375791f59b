"""Shared memory that batches are made in again and again.

A new piece of shared memory costs as much as decoding: the system clears its pages, maps each of them when it is first
written to, and takes them away again. So a worker keeps the pieces that it has handed out, and makes the next batch in
one that the main process has let go of: when the last tensor on it is gone, not before. Where that process was forked
meanwhile, the child may still see the batch: then the piece is left to it, and the worker takes another one. Likewise
where a batch is kept for long: the piece is the batch's alone from then on, and goes away with it.
"""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Callable, Sequence
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

_NUMBERS = 1 << 12
"""Batches of a worker that the main process may keep before further ones are in memory that isn't used again."""
_KEPT = 4
"""A batch is kept for long if it is there after this many requests for each of the worker's pieces."""

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
        self._count = count
        zeros = torch.zeros((workers, _NUMBERS), dtype=torch.uint8)
        self._in_use: torch.Tensor = zeros.share_memory_()  # type: ignore[no-untyped-call]
        self._pieces: dict[tuple[int, int], tuple[NDArray[np.uint8], NDArray[np.uint8]]] = {}
        _owners[self._token] = self

    def __getstate__(self) -> tuple[str, int, torch.Tensor]:
        return self._token, self._count, self._in_use

    def __setstate__(self, state: tuple[str, int, torch.Tensor]) -> None:
        self._token, self._count, self._in_use = state
        self._pieces = {}

    def of_worker(self, worker: int) -> WorkerSlots:
        """The pieces of one worker, which makes batches in them."""
        return WorkerSlots(self._token, worker, self._in_use[worker].numpy(), self._count)

    def open(
        self, worker: int, number: int, count: int, dtype: torch.dtype, piece: torch.Tensor | None, left: Sequence[int]
    ) -> torch.Tensor:
        """The first values of the piece that a batch came in; it is free again when nothing refers to their memory.

        Args:
            worker, number: which piece.
            count, dtype: of the values.
            piece: its memory, the first time.
            left: numbers of pieces that aren't used again: their memory goes away with the batches in them.
        """
        for other in left:
            self._pieces.pop((worker, other), None)
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


@dataclass(slots=True)
class _Piece:
    """Memory that a worker makes batches in, and when it was handed over last, as a count of batches."""

    memory: torch.Tensor
    handed_over: int = 0
    is_known: bool = False  # to the main process


class WorkerSlots:
    """The pieces of one worker, in its process.

    Args:
        token: names the loader's `Slots`.
        worker: its number.
        in_use: the state of each number, in shared memory.
        count: the most pieces that it keeps.
    """

    def __init__(self, token: str, worker: int, in_use: NDArray[np.uint8], count: int) -> None:
        self.token = token
        self.worker = worker
        self.in_use = in_use
        self._count = count
        self._asked = 0
        self._pieces: dict[int, _Piece] = {}
        self._left: list[int] = []  # numbers that the main process hasn't been told of

    def find(self, bytes_: int, make: Callable[[int], torch.Tensor]) -> Slot | None:
        """A piece of at least `bytes_` bytes that nobody uses; None where all are in use.

        Args:
            bytes_: of the batch.
            make: makes a new piece, uint8 ``(bytes_,)`` in shared memory.
        """
        self._asked += 1
        self._leave_kept()
        number = self._free_number()
        if number is None:
            return None
        piece = self._pieces.get(number)
        if piece is None or len(piece.memory) < bytes_ or self.in_use[number] == _LEFT:
            self.in_use[number] = _FREE
            self._pieces.pop(number, None)
            del piece  # given back before there is another
            piece = self._pieces[number] = _Piece(make(bytes_))
        return Slot(self, number, piece.memory)

    def _leave_kept(self) -> None:
        """Leaves pieces to the batches that are kept in them: others take their place."""
        since = self._asked - _KEPT * self._count
        for number, piece in [*self._pieces.items()]:
            if piece.handed_over < since and self.in_use[number] == _IN_USE:
                del self._pieces[number]
                self._left.append(number)

    def _free_number(self) -> int | None:
        """The number of a piece that nobody uses, or one without a piece where there may be more of them."""
        for number in self._pieces:
            if self.in_use[number] != _IN_USE:
                return number
        free = np.flatnonzero(self.in_use != _IN_USE)
        return int(free[0]) if len(free) and len(self._pieces) < self._count else None

    def hand_over(self, number: int) -> tuple[torch.Tensor | None, tuple[int, ...]]:
        """Gives a piece to the main process; returns its memory, the first time, and numbers that are left."""
        piece = self._pieces[number]
        self.in_use[number] = _IN_USE
        new = None if piece.is_known else piece.memory
        piece.handed_over, piece.is_known = self._asked, True
        left, self._left = tuple(self._left), []
        return new, left


@dataclass(slots=True)
class Slot:
    """A piece of memory for one batch."""

    owner: WorkerSlots
    number: int
    piece: torch.Tensor

    def handed_over(self, images: torch.Tensor) -> Any:
        """A stand-in to send for the images that were made here; the piece is theirs until they are gone."""
        owner = self.owner
        # The main process gets a handle of the memory once, and maps it once.
        new, left = owner.hand_over(self.number)
        piece = None if new is None else _Handle(new)
        layout = (tuple(images.shape), images.stride(), images.storage_offset())
        count = len(self.piece) // images.itemsize
        return _Sent((owner.token, owner.worker, self.number, count, images.dtype, piece, left, *layout))


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
    left: tuple[int, ...],
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
) -> torch.Tensor:
    """Makes a tensor of a batch that came from a worker; called in the main process."""
    return _owners[token].open(worker, number, count, dtype, piece, left).as_strided(shape, stride, offset)


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
