"""The queues between a loader and its workers: without a thread, a socket or a file descriptor for each batch.

torch's loader takes multiprocessing's queues. These pickle and write in a thread of their own, which needs the main
process's GIL whenever a batch is asked for. Each tensor comes as a file descriptor, for which the main process connects
to the worker, and both authenticate: 1.5 ms a batch, for labels as for images. Here the caller of ``put`` writes the
message itself, with small tensors in it. Images are in memory that both processes have mapped
(`fastpipe.memory.shm_pool`), so that only a short message is sent.
"""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
import select
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing import queues
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import get_worker_info

from fastpipe.environment import no_descriptors_left
from fastpipe.memory.host_pool import tensor_on
from fastpipe.memory.shm_pool import worker_pieces

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import BoundedSemaphore, Lock

NO_ROOM = 74
"""Exit status of a worker that has too little shared memory for its results."""
NO_DESCRIPTORS = 75
"""Exit status of a worker that has no file descriptor left for its results."""

_SMALL = 1 << 13  # bytes; smaller tensors are copied, which is less work than sending a descriptor
_AT_ONCE = getattr(select, "PIPE_BUF", 0) - 4  # a pipe that polls as writable takes this many bytes and their length
_OTHERS_WRITE_S = 1.0


def with_direct_queues(context: BaseContext | None) -> BaseContext:
    """A copy of a multiprocessing context (None: the default one) whose queues are `DirectQueue`s."""
    direct = copy.copy(multiprocessing.get_context() if context is None else context)
    vars(direct)["Queue"] = lambda: DirectQueue(ctx=direct)
    return direct


class DirectQueue(queues.Queue):  # type: ignore[type-arg]
    """multiprocessing's queue, whose ``put`` writes the message itself if the pipe takes it at once.

    A message that is too long for that, or meets a full pipe, goes through multiprocessing's thread, and so do all
    later ones. So neither side waits for the other to read, and messages stay in order.
    """

    # multiprocessing's own attributes
    _wlock: Lock
    _writer: Connection
    _sem: BoundedSemaphore
    _thread: threading.Thread | None
    _closed: bool
    _send_bytes: Callable[[bytes], None]

    def put(self, obj: object, block: bool = True, timeout: float | None = None) -> None:
        message = _dumps(obj) if get_worker_info() is None else _batch(obj)
        if self._closed or self._thread is not None or not self._write(message):
            super().put(_Pickled(message), block, timeout)

    def _write(self, message: bytes) -> bool:
        """Writes a message if the pipe takes it at once; True if it did."""
        if sys.platform == "win32" or len(message) > _AT_ONCE or not self._wlock.acquire(True, _OTHERS_WRITE_S):
            return False
        try:
            pipe = select.poll()
            pipe.register(self._writer.fileno(), select.POLLOUT)
            if [happened for _, happened in pipe.poll(0)] != [select.POLLOUT]:
                return False
            self._sem.acquire()
            self._send_bytes(message)
        finally:
            self._wlock.release()
        return True


class _Pickled:
    """A pickled message for multiprocessing's thread, which pickles it again; unpickles to the message's object."""

    def __init__(self, message: bytes) -> None:
        self._message = message

    def __reduce__(self) -> tuple[object, ...]:
        return pickle.loads, (self._message,)


class _Pickler(ForkingPickler):
    """Sends tensors in the worker's pieces by their position, small ones by value, and others as torch does."""

    def reducer_override(self, obj: object) -> Any:  # as pickle declares it
        if type(obj) is not torch.Tensor or obj.device.type != "cpu" or obj.layout != torch.strided:
            return NotImplemented
        pieces = worker_pieces()
        in_its_place = None if pieces is None else pieces.reduced(obj)
        if in_its_place is not None:
            return in_its_place
        if not _is_small(obj):
            return NotImplemented
        flat = obj.detach().resolve_conj().resolve_neg().reshape(-1).view(torch.uint8)
        return _tensor_of, (bytearray(flat.numpy()), obj.dtype, tuple(obj.shape))


def _is_small(tensor: torch.Tensor) -> bool:
    return (
        tensor.numel() * tensor.element_size() <= _SMALL
        and tensor.is_contiguous()
        and not (tensor.requires_grad or tensor.is_quantized)
    )


def _tensor_of(data: bytearray, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return tensor_on(data, shape, dtype) if data else torch.empty(shape, dtype=dtype)


def _dumps(obj: object) -> bytes:
    """Pickles a batch's number and indices.

    Integers are formatted without a pickler, whose buffer makes malloc consolidate all the small blocks that a training
    step has freed; that takes 0.3 ms.
    """
    number, indices = obj if type(obj) is tuple and len(obj) == 2 else (None, None)
    if type(number) is int and type(indices) is list and {*map(type, indices)} == {int}:
        listed = "\nI".join(map(str, indices))
        return f"(I{number}\n](I{listed}\net.".encode()  # pickle protocol 1: a tuple of a number and a list of numbers
    try:
        return pickle.dumps(obj)  # in torch's protocol, because later ones make arrays read-only
    except Exception:  # for objects that only multiprocessing can pickle, which raises other errors again
        return bytes(ForkingPickler.dumps(obj))


def _batch(obj: object) -> bytes:
    """Pickles a batch; if that fails, ends the worker, so that the main process doesn't wait for it for ever."""
    try:
        into = io.BytesIO()
        _Pickler(into).dump(obj)
        return into.getvalue()
    except Exception as error:  # a sample may be of any class
        traceback.print_exception(error)
        sys.stderr.flush()
        if no_descriptors_left(error):
            os._exit(NO_DESCRIPTORS)
        os._exit(NO_ROOM if "shared memory" in str(error) else 1)
