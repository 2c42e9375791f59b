"""The generators of draws: the global ones, a thread's own, or keyed ones; emulated where torch's are known."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Generator

from fastpipe.rng.keys import torch_seed
from fastpipe.rng.mt19937 import MT19937Stream, matches_torch
from fastpipe.rng.torch_stream import TorchStream
from fastpipe.torch_modes import follows_calls, has_function_modes
from fastpipe.types import Generators, PythonRandom, PythonState

if TYPE_CHECKING:
    Stream: TypeAlias = MT19937Stream | TorchStream
else:  # TorchScript reads this as the type, and can't compile MT19937Stream
    Stream = TorchStream


class StreamGenerators(Generators):
    """`Generators` whose torch numbers come from an `MT19937Stream`, for fastpipe's own transforms.

    Other code gets torch's generator from `torch`, in the state after the draws so far. From then on all draws call
    torch, so that other code may draw in between.

    Args:
        stream: the stream of torch's generator, or of a seed.
        python: Python's generator.
        key: the seed of Python's and numpy's generators, which are made at first use; None to use the given ones.
        numpy: numpy's generator; None for the global one.
    """

    __slots__ = ("_key", "_numpy", "_python", "_stream", "stream")

    _key: int | None
    _numpy: object
    _python: PythonRandom
    _stream: MT19937Stream
    stream: Stream

    def __init__(
        self, stream: MT19937Stream, python: PythonRandom = random, key: int | None = None, numpy: object = None
    ) -> None:
        set_ = object.__setattr__  # the base is frozen
        set_(self, "stream", stream)
        set_(self, "_stream", stream)
        set_(self, "_key", key)
        set_(self, "_python", python if key is None else _LATER)
        set_(self, "_numpy", numpy if key is None else _LATER)

    @property
    def torch(self) -> Generator | None:
        if self.stream is self._stream:
            object.__setattr__(self, "stream", TorchStream(self._stream.generator()))
        return self.stream.generator()

    @property
    def python(self) -> PythonRandom:
        if self._python is _LATER:
            object.__setattr__(self, "_python", random.Random(self._key))
        return self._python

    @property
    def numpy(self) -> Any:
        if self._numpy is _LATER:
            assert self._key is not None
            object.__setattr__(self, "_numpy", _numpy_keyed(self._key))
        return self._numpy

    def plain(self) -> Generators:
        """The generators for code that knows no streams, in their current states; the next draw reads torch's anew."""
        source = self._stream.generator()
        return Generators(None if source is torch.default_generator else source, self.python, self.numpy)

    def __reduce__(self) -> tuple[object, ...]:
        return Generators, (self.torch, self.python, self.numpy)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._stream!r})"


_LATER = object()
"""A placeholder for a keyed generator until its first use, as seeding it takes longer than a draw."""


def stream_of(generators: Generators) -> Stream:
    """The stream that fastpipe's own transforms draw from."""
    return generators.stream if isinstance(generators, StreamGenerators) else TorchStream(generators.torch)


def numpy_of(generators: Generators) -> Any:
    """numpy's generator, with the methods of ``numpy.random.RandomState``; ``np.random`` for the global one."""
    return np.random if generators.numpy is None else generators.numpy


def _numpy_keyed(key: int) -> object:
    """numpy's legacy generator, which other libraries draw from, seeded by a key."""
    legacy = np.random
    return legacy.RandomState(key & 0xFFFFFFFF)


GLOBAL = Generators()
"""The global generators."""


class drawing:
    """Reads the generators' state once for many draws, and writes it back: ``with drawing(generators) as held:``.

    Only one thread at a time can use the global generator's stream: others wait for the end of the block.

    Args:
        generators: the generators to draw from; None for the global ones.
        globally: use the global ones even where a thread's own ones replace them.
        with_python: `rewind` restores Python's and numpy's generators, too.
    """

    __slots__ = ("_before", "_given", "_globally", "_lock", "_others", "_stream", "_with_python")

    def __init__(
        self, generators: Generators | None = None, *, globally: bool = False, with_python: bool = False
    ) -> None:
        self._given = GLOBAL if generators is None else generators
        self._globally, self._with_python = globally, with_python
        self._stream: MT19937Stream | None = None
        self._lock: threading.RLock | None = None
        self._before = b""
        self._others: tuple[PythonState, Any] | None = None

    def __enter__(self) -> Generators:
        given = self._given
        if isinstance(given, StreamGenerators):
            return given
        source, python, numpy = given.torch, given.python, given.numpy
        if self._with_python:
            self._others = python.getstate(), numpy_of(given).get_state()
        if source is None or source is torch.default_generator:
            own = None if self._globally else _own.get()
            if own is not None:
                source, python, numpy = own.torch, own.python, own.numpy
            if not usable():
                self._before = (torch.default_generator if source is None else source).get_state().numpy().tobytes()
                return Generators(source, python, numpy) if own is not None else given
            kept = own or _shared
            try:
                self._lock = kept.lock
                self._lock.acquire()
                stream = self._stream = kept.stream
                stream.begin()
                stream.found = b""
                return kept.streamed(python, numpy)
            except BaseException:  # a signal handler's: there will be no __exit__
                with contextlib.suppress(RuntimeError):  # the lock wasn't acquired yet
                    kept.lock.release()
                raise
        if source.device.type == "cpu" and usable():
            self._stream = MT19937Stream(source)
        else:
            return given
        return StreamGenerators(self._stream, python, numpy=numpy)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        try:
            if self._stream is not None:
                self._stream.flush()
                self._before = self._stream.found
        except BaseException:  # a signal handler's: a later block must not write the draws of this one
            if self._stream is not None:
                self._stream.forget()
            raise
        finally:
            if self._lock is not None:
                self._lock.release()

    def rewind(self) -> None:
        """Restores the global generators to their states before the block, after a block that drew from them."""
        if self._before:
            torch.default_generator.set_state(torch.frombuffer(bytearray(self._before), dtype=torch.uint8))
        if self._others is not None:
            python, numpy = self._others
            random.setstate(python)
            numpy_of(GLOBAL).set_state(numpy)


class ThreadGenerators:
    """Generators that replace the global ones in a thread: see `active`.

    Attributes:
        torch, python, numpy: the generators; None for numpy's global one.
        stream: the stream of torch's generator, kept from draw to draw.
    """

    def __init__(self, torch: Generator, python: PythonRandom, numpy: Any = None) -> None:
        self.lock = threading.RLock()
        self.torch = torch
        self.python = python
        self.numpy = numpy
        self.stream = MT19937Stream(torch)
        self._streamed = StreamGenerators(self.stream, python, numpy=numpy)

    def streamed(self, python: PythonRandom, numpy: object) -> StreamGenerators:
        """The generators with the kept stream and these two; cached while they are the same."""
        kept = self._streamed
        changed = kept._python is not python or kept._numpy is not numpy
        if changed or kept.stream is not self.stream:  # or other code has got torch's generator
            kept = self._streamed = StreamGenerators(self.stream, python, numpy=numpy)
        return kept

    def plain(self) -> Generators:
        """The generators in their current states."""
        self.stream.flush()
        return Generators(self.torch, self.python, self.numpy)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Makes this thread draw from these generators instead of the global ones."""
        token = _own.set(self)
        try:
            yield
        finally:
            _own.reset(token)


_own: ContextVar[ThreadGenerators | None] = ContextVar("fastpipe_generators", default=None)


def _renew() -> None:
    """Sets `_shared`: the global generators with a stream that keeps prefetched numbers for the next draw."""
    global _shared
    _shared = ThreadGenerators(torch.default_generator, random)


_shared: ThreadGenerators
_renew()
if hasattr(os, "register_at_fork"):  # the child may inherit a lock held by a thread that it doesn't have
    os.register_at_fork(after_in_child=_renew)


def usable() -> bool:
    """True if torch now draws float32 numbers on the CPU, and `MT19937Stream` emulates it exactly."""
    return (
        torch.get_default_dtype() is torch.float32
        and not has_function_modes()  # for example torch.device as a context
        and not follows_calls()
        and matches_torch()
    )


def keyed_generators(key: int) -> Generators:
    """Fresh generators, seeded by a key."""
    seed = torch_seed(key)
    if usable():
        return StreamGenerators(MT19937Stream.seeded(seed), key=key)
    return Generators(torch.Generator().manual_seed(seed), random.Random(key), _numpy_keyed(key))
