"""Saves and restores the states of torch's, Python's and numpy's generators, and seeds them by a key."""

from __future__ import annotations

import contextlib
import importlib
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from fastpipe.rng.generators import GLOBAL, StreamGenerators, ThreadGenerators, numpy_of
from fastpipe.rng.keys import torch_seed
from fastpipe.types import Generators, PythonState

# numpy's legacy global generator, because transforms without a generator of their own draw from it.
_numpy: Any = np.random


class GeneratorStates(NamedTuple):
    """States of torch's, Python's and numpy's generator; None for torch's if that generator isn't touched."""

    torch: torch.Tensor | None
    python: PythonState
    numpy: Any

    @classmethod
    def of(cls, generators: Generators | ThreadGenerators = GLOBAL, *, with_torch: bool = True) -> GeneratorStates:
        """The states of these generators."""
        given = plain(generators)
        state = _torch_of(given).get_state() if with_torch else None
        return cls(state, given.python.getstate(), numpy_of(given).get_state())

    def draws_like(self, other: GeneratorStates) -> bool:
        """True if the generators are in the same state."""
        return self._listed() == other._listed()

    def _listed(self) -> tuple[object, ...]:
        name, words, *rest = self.numpy
        return None if self.torch is None else self.torch.tolist(), self.python, name, words.tolist(), rest

    def restore(self, generators: Generators | ThreadGenerators = GLOBAL) -> None:
        """Sets these generators to the states."""
        given = plain(generators)  # a stream is flushed before, not after
        if self.torch is not None:
            _torch_of(given).set_state(self.torch)
        given.python.setstate(self.python)
        numpy_of(given).set_state(self.numpy)


def plain(generators: Generators | ThreadGenerators) -> Generators:
    """Any generators of a draw as plain `Generators`, in their current states."""
    return generators.plain() if isinstance(generators, (StreamGenerators, ThreadGenerators)) else generators


def _torch_of(generators: Generators) -> torch.Generator:
    return torch.default_generator if generators.torch is None else generators.torch


@contextlib.contextmanager
def preserved_globals() -> Iterator[None]:
    """Restores the global generators after the block. Not for use by several threads at once."""
    before = GeneratorStates.of()
    try:
        yield
    finally:
        before.restore()


def seed_python(seed: int) -> None:
    """Seeds Python's global generator, for libraries that draw from no other one."""
    random.seed(seed)


@contextlib.contextmanager
def keyed_globals(key: int) -> Iterator[None]:
    """Seeds the global generators by a key within the block, and restores them after it.

    For transforms that draw from the global generators while they process pixels. Not for several threads at once.
    """
    with preserved_globals():
        torch.default_generator.manual_seed(torch_seed(key))
        random.seed(key)
        _numpy.seed(key & 0xFFFFFFFF)
        yield


@contextlib.contextmanager
def as_globals(generators: Generators | ThreadGenerators, *, with_torch: bool = True) -> Iterator[None]:
    """Makes the global generators continue these within the block; draws there advance these.

    Not for several threads at once, unless these are the global ones.

    Args:
        generators: generators of any kind that a draw takes.
        with_torch: include torch's generator.
    """
    given = plain(generators)
    swaps_torch = with_torch and _torch_of(given) is not torch.default_generator
    if not swaps_torch and given.python is random and numpy_of(given) is _numpy:
        yield
        return
    before = GeneratorStates.of(with_torch=swaps_torch)
    GeneratorStates.of(given, with_torch=swaps_torch).restore()
    try:
        yield
    finally:
        GeneratorStates.of(with_torch=swaps_torch).restore(given)
        before.restore()


@contextlib.contextmanager
def rewound(error: type[Exception], generators: Generators) -> Iterator[None]:
    """Restores torch's, Python's and numpy's generators if the block raises that error."""
    before = GeneratorStates.of(generators)
    try:
        yield
    except error:
        before.restore(generators)
        raise


@contextlib.contextmanager
def rewound_on(error: type[Exception]) -> Iterator[None]:
    """Restores torch's global generator if the block raises that error."""
    before = torch.get_rng_state()
    try:
        yield
    except error:
        torch.set_rng_state(before)
        raise


def copied_generators() -> Generators:
    """Copies of the global generators: they draw the same numbers, and leave the originals unchanged."""
    copied = Generators(torch.Generator(), random.Random(), _numpy.RandomState())
    GeneratorStates.of().restore(copied)
    return copied


class Streams(ThreadGenerators):
    """The generators of a loader that prefetches in this process, seeded as in its only worker process.

    They are separate from the global ones, which other threads use meanwhile.

    Args:
        base_seed: the seed from which torch's loader seeds worker 0; or saved states to continue from.
    """

    def __init__(self, base_seed: int | GeneratorStates) -> None:
        super().__init__(torch.Generator(), random.Random(), _numpy.RandomState())
        if isinstance(base_seed, GeneratorStates):
            base_seed.restore(self)
        else:
            self.torch.manual_seed(base_seed)
            self.python.seed(base_seed)
            generate = getattr(importlib.import_module("torch.utils.data._utils.worker"), "_generate_state", None)
            self.numpy.seed(base_seed & 0xFFFFFFFF if generate is None else generate(base_seed, 0))

    def save(self) -> GeneratorStates:
        """The current states. Call it in the thread that draws from the streams, between two draws."""
        return GeneratorStates.of(self)

    def in_place(self) -> contextlib.AbstractContextManager[None]:
        """Makes the global generators continue these streams, for code that uses the global ones; not thread-safe."""
        return as_globals(self)
