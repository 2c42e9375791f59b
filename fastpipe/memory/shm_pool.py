"""Shared memory in which batches are made again and again.

A new piece of shared memory costs as much as decoding: the system clears its pages, maps each at its first use, and
unmaps them at the end. So a worker keeps the pieces that it has handed out, and reuses one when the main process has
released it: when the last tensor on it is gone. If the main process has been forked in the meantime, the child may
still see the batch; then the worker gives up the piece, and takes another one. It also gives up the piece of a batch
that the user keeps for long: the piece then lives as long as the batch.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, current_process

import numpy as np
import torch
from numpy.typing import NDArray
from torch.multiprocessing.reductions import reduce_tensor

from fastpipe.environment import SHARED_MEMORY, no_descriptors_left, shared_memory_room
from fastpipe.errors import LoaderError
from fastpipe.memory.host_pool import GIVE_BACK, LentArray, tensor_on

# States of a piece, written by the main process and read by the worker.
_FREE, _IN_USE, _LEFT = 0, 1, 2

_NUMBERS = 1 << 12
"""The most batches of a worker that the main process may keep; further ones are in memory that isn't reused."""
_KEPT = 4
"""A batch counts as kept for long if it still exists after this many requests for each of the worker's pieces."""

_freed: NDArray[np.uint8] = np.array([_FREE], np.uint8)
"""The state of a piece whose batch is gone: FREE; LEFT for batches from before a fork, which a child may read."""
_owned: NDArray[np.bool_] = np.array([True])
"""False for batches that came before this process was forked off: its copies of them don't count."""


def _forking() -> None:
    global _freed
    _freed[0] = _LEFT
    _freed = np.array([_FREE], np.uint8)


def _forked() -> None:
    global _owned
    _owned[0] = False
    _owned = np.array([True])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forking, after_in_child=_forked)


@dataclass(slots=True)
class _Piece:
    """A piece of memory in which a worker makes batches.

    Attributes:
        memory: the memory.
        lent: the array of the current or last batch; dead when no object of this process refers to it.
        is_sent: that batch was sent to the main process.
        handed_over: the count of requests when a batch was last sent; 0 while the main process doesn't know the piece.
    """

    memory: torch.Tensor
    lent: weakref.ref[NDArray[np.uint8]] | None = None
    is_sent: bool = False
    handed_over: int = 0


class WorkerPieces:
    """The pieces of a worker, in the worker's process.

    Args:
        count: the most pieces to keep; further batches are in new memory.

    Raises:
        LoaderError: there is no shared memory for the pieces' states.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._states = new_shared(_NUMBERS).zero_()
        self._in_use: NDArray[np.uint8] = self._states.numpy()
        self._is_known = False
        self._asked = 0
        self._pieces: dict[int, _Piece] = {}
        self._left: list[int] = []  # numbers of given-up pieces of which the main process hasn't been told

    def lend(self, size: int) -> NDArray[np.uint8] | None:
        """Lends at least `size` bytes for a batch; None if all pieces are in use.

        They are reused once no object refers to this array object and, if the batch was sent, the main process has
        released it. Views have to keep a reference to the array object itself.

        Raises:
            LoaderError: there is no shared memory for a new piece.
        """
        self._asked += 1
        self._leave_kept()
        number = self._number_for(size)
        if number is None:
            return None
        piece = self._pieces.get(number)
        if piece is None or len(piece.memory) < size:
            self._pieces.pop(number, None)
            del piece  # freed before a new piece is allocated
            self._in_use[number] = _FREE
            piece = self._pieces[number] = _Piece(new_shared(size))
        array = piece.memory.numpy()[:]
        piece.lent, piece.is_sent = weakref.ref(array), False
        return array

    def _leave_kept(self) -> None:
        """Gives up the pieces of batches that are kept for long, so that other pieces can take their place."""
        since = self._asked - _KEPT * self._count
        for number, piece in [*self._pieces.items()]:
            if piece.handed_over < since and self._in_use[number] == _IN_USE:
                self._pieces.pop(number, None)
                self._left.append(number)

    def _number_for(self, size: int) -> int | None:
        """The number of the smallest free piece of at least `size` bytes, or of a piece to replace, or of a new one."""
        free = {}
        for number, piece in [*self._pieces.items()]:
            if self._in_use[number] == _LEFT:
                self._pieces.pop(number, None)
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
        """Reduces a tensor on a lent piece for pickling, as ``__reduce__`` does; the main process gets the piece.

        None for a tensor that isn't in a lent piece, or whose piece has been sent since it was lent.
        """
        address = tensor.untyped_storage().data_ptr()
        pieces = [*self._pieces.items()]
        number = next((one for one, piece in pieces if piece.memory.data_ptr() == address), None)
        if number is None:
            return None
        piece = self._pieces[number]
        if piece.is_sent or piece.lent is None or piece.lent() is None:
            return None
        if tensor.requires_grad or tensor.is_conj() or tensor.is_neg() or not tensor.numel():
            return None
        self._in_use[number] = _IN_USE
        states = None if self._is_known else _Handle(self._states)
        memory = None if piece.handed_over else _Handle(piece.memory)  # sent and mapped once
        left, self._left = tuple(self._left), []
        piece.handed_over, piece.is_sent, self._is_known = self._asked, True, True
        layout = (tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
        return _received, (current_process().name, states, number, memory, left, *layout)


_worker = 0, 0
"""The process id of this process if it is a loader's worker, and the number of pieces to keep."""
_pieces: WorkerPieces | None = None


def begin_worker(count: int) -> None:
    """Marks this process as a loader's worker that keeps `count` pieces."""
    global _worker, _pieces
    _worker, _pieces = (os.getpid(), count), None
    with contextlib.suppress(LoaderError):  # the first batch raises it
        worker_pieces()


def is_begun() -> bool:
    """True in a loader's worker that keeps pieces."""
    return _worker[0] == os.getpid()


def worker_pieces() -> WorkerPieces | None:
    """The pieces of this process; None if it isn't a worker that keeps pieces, or not on Linux.

    Raises:
        LoaderError: there is no shared memory for the pieces' states.
    """
    global _pieces
    if not is_begun() or sys.platform != "linux":
        return None
    if _pieces is None:
        _pieces = WorkerPieces(_worker[1])
    return _pieces


def lent_bytes(size: int) -> NDArray[np.uint8] | None:
    """Lends at least `size` bytes of this worker's pieces: see `WorkerPieces.lend`. None without a free piece.

    Raises:
        LoaderError: there is no shared memory for a new piece.
    """
    pieces = worker_pieces() if size else None
    return None if pieces is None else pieces.lend(size)


@dataclass(frozen=True, slots=True)
class _Handle:
    """Pickles shared memory as a handle, however small it is."""

    memory: torch.Tensor

    def __reduce__(self) -> tuple[object, ...]:
        return reduce_tensor(self.memory)  # type: ignore[no-untyped-call, no-any-return]


class _Opened:
    """The pieces of one worker in the main process.

    Args:
        states: the pieces' states, shared with the worker.
    """

    def __init__(self, states: torch.Tensor) -> None:
        self.states: NDArray[np.uint8] = states.numpy()
        self._pieces: dict[int, NDArray[np.uint8]] = {}
        self._lent: dict[int, LentArray] = {}

    def open(self, number: int, memory: torch.Tensor | None, left: Iterable[int]) -> NDArray[np.uint8]:
        """Opens the piece that a batch came in; it is free again once no object refers to this array object.

        Args:
            number: the piece's number.
            memory: the piece's memory, the first time that it comes; else None.
            left: the numbers of given-up pieces, whose memory is freed with the batches in it.
        """
        for other in left:
            self._pieces.pop(other, None)
        if memory is not None:
            self._pieces[number] = memory.numpy()
        array = self._pieces[number][:]
        self._lent[number] = lent = LentArray(array, GIVE_BACK)
        lent.give_back = partial(np.positive, _freed, out=self.states[number : number + 1], where=_owned)
        return array


_opened: dict[str, _Opened] = {}
"""The pieces of each worker, by its process's name, because process ids are reused."""


def close_pieces(workers: Iterable[str]) -> None:
    """Drops the pieces of workers that have ended; pieces with batches that still exist are freed with the batches."""
    for worker in workers:
        _opened.pop(worker, None)


def _close(worker: str, opened: _Opened) -> None:
    """Drops the pieces of a worker whose process is gone, unless another worker has the same name by now."""
    if _opened.get(worker) is opened:
        del _opened[worker]


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
    """Makes a tensor from a batch that came from a worker; called in the main process by unpickling."""
    if states is not None:
        _opened[worker] = _Opened(states)
        for process in active_children():
            if process.name == worker:
                weakref.finalize(process, _close, worker, _opened[worker]).atexit = False
    # torch keeps a reference to the array as long as a tensor on its memory exists.
    return tensor_on(_opened[worker].open(number, memory, left), shape, dtype, stride, offset)


def new_shared(size: int) -> torch.Tensor:
    """Allocates shared memory, uint8 ``(size,)``, as torch's ``default_collate`` does in a worker.

    Raises:
        LoaderError: there is too little shared memory, or no file descriptor left.
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


def shared(tensor: torch.Tensor) -> torch.Tensor:
    """Moves a tensor's values to shared memory, which forked workers inherit, and spawned ones get a handle to."""
    return tensor.share_memory_()  # type: ignore[no-untyped-call, no-any-return]


def too_small(needed: int, what: str) -> LoaderError:
    """The error for too little shared memory for `needed` bytes; `what` is the start of a phrase about them."""
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
