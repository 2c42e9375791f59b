"""Shared memory that batches are made in again and again.

A new piece of shared memory costs as much as decoding: the system clears its pages, maps each of them when it is first
written to, and takes them away again. So a worker keeps the pieces that it has handed out, and makes the next batch in
one that the main process has let go of: when the last tensor on it is gone, not before. Where that process was forked
meanwhile, the child may still see the batch: then the piece is left to it, and the worker takes another one. Likewise
where a batch is kept for long: the piece is the batch's alone from then on, and goes away with it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing import active_children, current_process
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.multiprocessing.reductions import reduce_tensor

from fastpipe.environment import SHARED_MEMORY, no_descriptors_left, shared_memory_room
from fastpipe.errors import LoaderError
from fastpipe.memory.host_pool import tensor_on

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


@dataclass(slots=True)
class _Piece:
    """Memory that a worker makes batches in.

    Attributes:
        memory: the memory.
        lent: the array of the batch that is, or was, made in it; gone when nothing of this process refers to it.
        is_sent: that batch was handed over.
        handed_over: when the last one was, as a count of requests.
        is_known: to the main process.
    """

    memory: torch.Tensor
    lent: weakref.ref[NDArray[np.uint8]] | None = None
    is_sent: bool = False
    handed_over: int = 0
    is_known: bool = False


class WorkerPieces:
    """The pieces of a worker, in its process.

    Args:
        count: the most that it keeps; batches beyond them are in new memory.

    Raises:
        LoaderError: there is no room for what is noted about them.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._states = new_shared(_NUMBERS).zero_()
        self._in_use: NDArray[np.uint8] = self._states.numpy()
        self._is_known = False
        self._asked = 0
        self._pieces: dict[int, _Piece] = {}
        self._numbers: dict[int, int] = {}  # of pieces, by their address
        self._left: list[int] = []  # numbers that the main process hasn't been told of

    def lend(self, size: int) -> NDArray[np.uint8] | None:
        """At least `size` bytes for a batch; None where all pieces are in use.

        They are used again when nothing refers to this very array, and the main process has let go of the batch where
        it was sent. Views of the array must keep it itself.

        Raises:
            LoaderError: there is no room for a new piece.
        """
        self._asked += 1
        self._leave_kept()
        number = self._number_for(size)
        if number is None:
            return None
        piece = self._pieces.get(number)
        if piece is None or len(piece.memory) < size:
            self._drop(number)
            del piece  # given back before there is another
            self._in_use[number] = _FREE
            piece = self._pieces[number] = _Piece(new_shared(size))
            self._numbers[piece.memory.data_ptr()] = number
        array = piece.memory.numpy()[:]
        piece.lent, piece.is_sent = weakref.ref(array), False
        return array

    def _leave_kept(self) -> None:
        """Leaves pieces to the batches that are kept in them: others take their place."""
        since = self._asked - _KEPT * self._count
        for number, piece in [*self._pieces.items()]:
            if piece.handed_over < since and self._in_use[number] == _IN_USE:
                self._drop(number)
                self._left.append(number)

    def _drop(self, number: int) -> None:
        piece = self._pieces.pop(number, None)
        if piece is not None:
            del self._numbers[piece.memory.data_ptr()]

    def _number_for(self, size: int) -> int | None:
        """The number of the smallest free piece of at least `size` bytes, or of one to be replaced, or of a new one."""
        free = {}
        for number, piece in [*self._pieces.items()]:
            if self._in_use[number] == _LEFT:
                self._drop(number)
            elif self._in_use[number] == _FREE and (piece.lent is None or piece.lent() is None):
                free[number] = len(piece.memory)
        fitting = [number for number in free if free[number] >= size]
        if fitting:
            return min(fitting, key=lambda number: free[number])
        if free:
            return max(free, key=lambda number: free[number])
        if len(self._pieces) >= self._count:
            return None
        unused = (int(number) for number in np.flatnonzero(self._in_use != _IN_USE))
        return next((number for number in unused if number not in self._pieces), None)

    def reduced(self, tensor: torch.Tensor) -> tuple[object, ...] | None:
        """The stand-in for a tensor in a pickle for the main process, which the memory is handed over to.

        None for a tensor that doesn't lie in a piece that was lent, or in one whose batch was handed over before.
        """
        number = self._numbers.get(tensor.untyped_storage().data_ptr())
        piece = None if number is None else self._pieces[number]
        if piece is None or piece.is_sent or piece.lent is None or piece.lent() is None:
            return None
        if tensor.requires_grad or tensor.is_conj() or tensor.is_neg() or not tensor.numel():
            return None
        self._in_use[number] = _IN_USE
        states = None if self._is_known else _Handle(self._states)
        memory = None if piece.is_known else _Handle(piece.memory)  # sent once, and mapped once
        left, self._left = tuple(self._left), []
        piece.handed_over, piece.is_known, piece.is_sent, self._is_known = self._asked, True, True, True
        layout = (tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
        return _received, (current_process().name, states, number, memory, left, *layout)


_worker = 0, 0
"""The process that is a loader's worker, and how many pieces it keeps."""
_pieces: WorkerPieces | None = None


def begin_worker(count: int) -> None:
    """Has this process, a loader's worker, keep `count` pieces."""
    global _worker, _pieces
    _worker, _pieces = (os.getpid(), count), None
    with contextlib.suppress(LoaderError):  # which the first batch raises
        worker_pieces()


def is_begun() -> bool:
    """True in a loader's worker that was told to keep pieces."""
    return _worker[0] == os.getpid()


def worker_pieces() -> WorkerPieces | None:
    """The pieces of this process; None where it is no worker, or each batch has memory of its own.

    Raises:
        LoaderError: there is no room for any.
    """
    global _pieces
    process, count = _worker
    if process != os.getpid() or sys.platform != "linux":
        return None
    if _pieces is None:
        _pieces = WorkerPieces(count)
    return _pieces


def lent_bytes(size: int) -> NDArray[np.uint8] | None:
    """At least `size` bytes of this worker's pieces, as `WorkerPieces.lend` gives them; None without free pieces.

    Raises:
        LoaderError: there is no room for a new piece.
    """
    pieces = worker_pieces() if size else None
    return None if pieces is None else pieces.lend(size)


@dataclass(frozen=True, slots=True)
class _Handle:
    """Shared memory on its way, shared however small it is."""

    memory: torch.Tensor

    def __reduce__(self) -> Any:
        return reduce_tensor(self.memory)  # type: ignore[no-untyped-call]


class _Opened:
    """The pieces of one worker, as the main process sees them.

    Args:
        states: what is known of each.
    """

    def __init__(self, states: torch.Tensor) -> None:
        self.states: NDArray[np.uint8] = states.numpy()
        self._pieces: dict[int, NDArray[np.uint8]] = {}

    def open(self, number: int, memory: torch.Tensor | None, left: Iterable[int]) -> NDArray[np.uint8]:
        """The piece that a batch came in; it is free again when nothing refers to this very array.

        Args:
            number: which piece.
            memory: of the piece, the first time.
            left: numbers of pieces that aren't used again: their memory goes away with the batches in them.
        """
        for other in left:
            self._pieces.pop(other, None)
        if memory is not None:
            self._pieces[number] = memory.numpy()
        array = self._pieces[number][:]
        weakref.finalize(array, _free, self.states, number, os.getpid(), _forks).atexit = False
        return array


_opened: dict[str, _Opened] = {}
"""The pieces of each worker that have come, by its process's name: the number may be given again."""


def close_pieces(workers: Iterable[str]) -> None:
    """Gives up the pieces of workers that have ended; those with batches that are still there go away with them."""
    for worker in workers:
        _opened.pop(worker, None)


def _close(worker: str, opened: _Opened) -> None:
    """Gives up the pieces of a worker whose process is gone, unless another one has its name by now."""
    if _opened.get(worker) is opened:
        del _opened[worker]


def pieces_in_use(workers: Iterable[str]) -> int:
    """How many pieces of some workers hold a batch that is still there."""
    return sum(int((_opened[worker].states == _IN_USE).sum()) for worker in workers if worker in _opened)


def _free(states: NDArray[np.uint8], number: int, owner: int, forks: int) -> None:
    if os.getpid() == owner:  # a process forked from it has the same objects, but no say
        states[number] = _FREE if forks == _forks else _LEFT


def _received(
    worker: str,
    states: torch.Tensor | None,
    number: int,
    memory: torch.Tensor | None,
    left: tuple[int, ...],
    dtype: torch.dtype,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
) -> torch.Tensor:
    """Makes a tensor of a batch that came from a worker; called in the main process."""
    if states is not None:
        _opened[worker] = _Opened(states)
        for process in active_children():
            if process.name == worker:
                weakref.finalize(process, _close, worker, _opened[worker]).atexit = False
    # torch keeps the array for as long as there is a tensor, or anything made of one, on its memory.
    return tensor_on(_opened[worker].open(number, memory, left), shape, dtype, stride, offset)


def new_shared(size: int) -> torch.Tensor:
    """New shared memory, uint8 ``(size,)``: what torch's ``default_collate`` takes in a worker.

    Raises:
        LoaderError: there is no room for it, or no file descriptor.
    """
    try:
        storage = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if reason := no_descriptors_left(error):
            raise LoaderError(f"{reason}.") from error
        if "shared memory" not in str(error):
            raise
        raise too_small(size, "this batch takes") from error
    return torch.empty(0, dtype=torch.uint8).set_(storage)


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
