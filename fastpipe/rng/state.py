"""States of torch's, Python's and numpy's generators: saved, restored, seeded by a key."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data._utils.worker import _generate_state

from fastpipe.rng.generators import ThreadGenerators, numpy_of
from fastpipe.rng.keys import torch_seed
from fastpipe.types import Generators

# The legacy global generator of numpy's is the point: it is what transforms draw from that know no other.
_numpy: Any = np.random


class GeneratorStates(NamedTuple):
    """States of torch's, Python's and numpy's generator; numpy's is None where there is none."""

    torch: torch.Tensor
    python: Any
    numpy: Any = None

    @classmethod
    def of(cls, generators: Generators | None = None) -> GeneratorStates:
        """The states of these generators; None for the global ones."""
        if generators is None or generators.torch is None:
            return cls(torch.get_rng_state(), random.getstate(), _numpy.get_state())
        numpy = None if generators.numpy is None else generators.numpy.get_state()
        return cls(generators.torch.get_state(), generators.python.getstate(), numpy)

    def draws_like(self, other: GeneratorStates) -> bool:
        """Whether the generators are in the same state; numpy's, where both have one."""
        same = torch.equal(self.torch, other.torch) and bool(self.python == other.python)
        return same and (None in (self.numpy, other.numpy) or _listed(self.numpy) == _listed(other.numpy))

    def restore(self) -> None:
        """Puts the global generators into these states."""
        torch.set_rng_state(self.torch)
        random.setstate(self.python)
        _numpy.set_state(self.numpy)


def _listed(state: Any) -> Any:
    """numpy's state, comparable."""
    name, words, *rest = state
    return name, words.tolist(), rest


@contextlib.contextmanager
def preserved_globals() -> Iterator[None]:
    """Restores the global generators behind the block. Not for several threads at once."""
    before = GeneratorStates.of()
    try:
        yield
    finally:
        before.restore()


@contextlib.contextmanager
def keyed_globals(key: int) -> Iterator[None]:
    """Seeds the global generators by a key within the block, and restores them behind it.

    For transforms that draw from the global generators while they see pixels. Not for several threads at once.
    """
    with preserved_globals():
        torch.default_generator.manual_seed(torch_seed(key))
        random.seed(key)
        _numpy.seed(key & 0xFFFFFFFF)
        yield


@contextlib.contextmanager
def as_globals(generators: Generators, *, with_torch: bool = True) -> Iterator[None]:
    """Puts these generators in the global ones' place within the block; draws there advance them.

    Not for several threads at once, unless these are the global ones.

    Args:
        generators: as for a draw.
        with_torch: torch's, too.
    """
    given = plain(generators)
    source, python, numpy = given.torch, given.python, numpy_of(given)
    swaps_torch = with_torch and source is not None and source is not torch.default_generator
    if not swaps_torch and python is random and numpy is _numpy:
        yield
        return
    before = GeneratorStates.of()
    random.setstate(python.getstate())
    _numpy.set_state(numpy.get_state())
    if swaps_torch and source is not None:
        torch.set_rng_state(source.get_state())
    try:
        yield
    finally:
        python.setstate(random.getstate())
        numpy.set_state(_numpy.get_state())
        random.setstate(before.python)
        _numpy.set_state(before.numpy)
        if swaps_torch and source is not None:
            source.set_state(torch.get_rng_state())
            torch.set_rng_state(before.torch)


def plain(generators: Generators) -> Generators:
    """The generators themselves, up to date, of any that a draw gets."""
    of_streams = getattr(generators, "plain", None)
    found: Generators = generators if of_streams is None else of_streams()
    return found


@contextlib.contextmanager
def rewound(error: type[Exception], generators: Generators) -> Iterator[None]:
    """Puts torch's, Python's and numpy's generators back to where they were if the block raises that error."""
    given = plain(generators)
    source = torch.default_generator if given.torch is None else given.torch
    before = source.get_state(), given.python.getstate(), numpy_of(given).get_state()
    try:
        yield
    except error:
        plain(generators)  # what a stream has drawn is written now, not behind this
        source.set_state(before[0])
        given.python.setstate(before[1])
        numpy_of(given).set_state(before[2])
        raise


@contextlib.contextmanager
def rewound_on(error: type[Exception], generator: torch.Generator | None = None) -> Iterator[None]:
    """Puts torch's generator back to where it was if the block raises that error; None for the global one."""
    source = torch.default_generator if generator is None else generator
    before = source.get_state()
    try:
        yield
    except error:
        source.set_state(before)
        raise


def copied_generators() -> Generators:
    """Generators that will draw what the global ones would, and leave them where they are."""
    copied, python, numpy = torch.Generator(), random.Random(), _numpy.RandomState()
    copied.set_state(torch.get_rng_state())
    python.setstate(random.getstate())
    numpy.set_state(_numpy.get_state())
    return Generators(copied, python, numpy)


class Streams:
    """The generators of a loader that works ahead in this process: those that its one worker process would have.

    They are apart from the global ones, which other threads use meanwhile.

    Args:
        base_seed: seeds them as torch's loader seeds worker 0; or a state that was saved, to go on from there.
    """

    def __init__(self, base_seed: int | GeneratorStates) -> None:
        self._numpy: Any = _numpy.RandomState()
        self._own = ThreadGenerators(torch.Generator(), random.Random(), self._numpy)
        if isinstance(base_seed, GeneratorStates):
            self._load(base_seed)
        else:
            self._own.torch.manual_seed(base_seed)
            self._own.python.seed(base_seed)
            self._numpy.seed(_generate_state(base_seed, 0))  # type: ignore[no-untyped-call]

    def save(self) -> GeneratorStates:
        """The present states. Call it in the thread that draws from them, between two draws."""
        own = self._own
        own.stream.flush()
        return GeneratorStates(own.torch.get_state(), own.python.getstate(), self._numpy.get_state())

    def _load(self, state: GeneratorStates) -> None:
        self._own.torch.set_state(state.torch)
        self._own.python.setstate(state.python)
        self._numpy.set_state(state.numpy)

    def here(self) -> contextlib.AbstractContextManager[None]:
        """Makes fastpipe's draws in this thread come from these streams; the global generators stay as they are."""
        return self._own.active()

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Makes the global generators these streams, for code that knows no others; not for several threads."""
        with preserved_globals():
            self.save().restore()
            try:
                yield
            finally:
                self._load(GeneratorStates.of())
