"""Where a draw's random numbers come from: generators, and their words while nobody else draws from them."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch import Generator

from fastpipe.transforms.words import Source, Words, words_agree
from fastpipe.types import Generators, ImageShape, Step


class WordGenerators(Generators):
    """`Generators` whose numbers come from `Words`, for fastpipe's own transforms.

    For everybody else `torch` is torch's generator, at the state that the draws so far have led to. Once somebody has
    it, all draws are torch's, so that they may take turns with his.

    Args:
        words: of the generator, or of a seed.
        python: Python's generator.
        key: what Python's generator is seeded with when it's asked for; None for the one that is given.
    """

    __slots__ = ("_key", "_python", "_words", "words")

    _key: int | None
    _python: Any
    _words: Words
    words: Source

    def __init__(self, words: Words, python: Any = random, key: int | None = None) -> None:
        set_ = object.__setattr__  # the base is frozen
        set_(self, "words", words)
        set_(self, "_words", words)
        set_(self, "_python", python)
        set_(self, "_key", key)

    @property
    def has_source(self) -> bool:
        """Whether the words are of a generator, and nobody has asked for that."""
        return isinstance(self.words, Words) and self._words.has_source

    @property
    def torch(self) -> Generator | None:
        if isinstance(self.words, Words):
            object.__setattr__(self, "words", self._words.generator())
        generator: Generator | None = self.words
        return generator

    @property
    def python(self) -> Any:
        if self._key is not None:
            object.__setattr__(self, "_python", random.Random(self._key))
            object.__setattr__(self, "_key", None)
        return self._python

    def plain(self) -> Generators:
        """The generators themselves, up to date, for whom words mean nothing; the words are read anew behind."""
        source = self._words.generator()
        return Generators(None if source is torch.default_generator else source, self.python)

    def __reduce__(self) -> Any:
        return Generators, (self.torch, self.python)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._words!r})"


class drawing:
    """``with drawing(generators) as held:`` reads their state once for many draws, and puts it back at the end.

    The global generator's words are one thread's at a time: others wait for the end.

    Args:
        generators: as for a draw; None for the global ones.
    """

    __slots__ = ("_given", "_lock", "_words")

    def __init__(self, generators: Generators | None = None) -> None:
        self._given = _GLOBAL if generators is None else generators
        self._words: Words | None = None
        self._lock: Any = None

    def __enter__(self) -> Generators:
        given = self._given
        if isinstance(given, WordGenerators):
            return given
        source = given.torch
        if source is None or source is torch.default_generator:
            own = _own.get()
            if own is not None:
                return self._kept(own) if usable() else Generators(own.torch, own.python)
            if usable():
                return self._kept(_shared, given.python)
        elif source.device.type == "cpu" and usable():
            self._words = Words(source)
            return WordGenerators(self._words, given.python)
        return given

    def _kept(self, shared: OwnGenerators, python: Any = None) -> Generators:
        self._lock = shared.lock
        self._lock.acquire()
        self._words = shared.words
        self._words.put_back()  # of a draw that this one is part of
        return WordGenerators(self._words, shared.python if python is None else python)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._words is not None:
            self._words.put_back()
        if self._lock is not None:
            self._lock.release()


_GLOBAL = Generators()


class OwnGenerators:
    """What takes the global generators' place in a thread: see `here`.

    Attributes:
        torch, python: the generators themselves.
        words: of torch's, kept from draw to draw.
    """

    def __init__(self, torch: Generator, python: Any) -> None:
        self.lock = threading.RLock()
        self.torch = torch
        self.python = python
        self.words = Words(torch)

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Within, this thread's draws come from these generators wherever they would come from the global ones."""
        token = _own.set(self)
        try:
            yield
        finally:
            _own.reset(token)


_own: ContextVar[OwnGenerators | None] = ContextVar("fastpipe_generators", default=None)


def _renew() -> None:
    """The global generators, whose words are kept so that `Words` finds what it made for the last draw."""
    global _shared
    _shared = OwnGenerators(torch.default_generator, random)


_shared: OwnGenerators
_renew()
if hasattr(os, "register_at_fork"):  # a fork may inherit a lock that a thread held which the child doesn't have
    os.register_at_fork(after_in_child=_renew)


def usable() -> bool:
    """Whether torch, called now, would draw float32 numbers on the CPU, and as `Words` do."""
    return (
        torch.get_default_dtype() is torch.float32
        and not torch._C._len_torch_function_stack()  # such as of a default device
        and not torch._C._len_torch_dispatch_stack()
        and words_agree()
    )


def torch_seed(key: int) -> int:
    """torch takes seeds from -2**63 to 2**64-1, but not the same ones in every version."""
    return key & 0x7FFF_FFFF_FFFF_FFFF


def keyed_generators(key: int) -> Generators:
    """Fresh generators, seeded by a key."""
    seed = torch_seed(key)
    if usable():
        return WordGenerators(Words.seeded(seed), key=key)
    return Generators(torch.Generator().manual_seed(seed), random.Random(key))


def draws_from_words(transform: Any) -> bool:
    """Whether a transform's ``draw`` is fastpipe's own, which knows `Words`."""
    return bool(type(transform).draw.__module__.startswith("fastpipe."))


def draw_steps(transform: Any, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
    """``transform.draw(shape, generators)``, with torch's own generator for a class that isn't fastpipe's."""
    if isinstance(generators, WordGenerators) and not draws_from_words(transform):
        generators = generators.plain()
    steps: tuple[Step, ...] = transform.draw(shape, generators)
    return steps
