"""Random streams of a loader that works ahead in this process: those that its one worker process would have."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data._utils.worker import _generate_state

from fastpipe.transforms.drawing import OwnGenerators


class StreamState(NamedTuple):
    """Where three streams are."""

    torch: torch.Tensor
    python: Any
    numpy: Any


class Streams:
    """torch's, Python's and numpy's generators apart from the global ones, which other threads use meanwhile.

    Args:
        base_seed: seeds them as torch's loader seeds worker 0; or a state that was saved, to go on from there.
    """

    def __init__(self, base_seed: int | StreamState) -> None:
        generator, python = torch.Generator(), random.Random()
        self._numpy: Any = np.random.RandomState()
        if isinstance(base_seed, StreamState):
            generator.set_state(base_seed.torch)
            python.setstate(base_seed.python)
            self._numpy.set_state(base_seed.numpy)
        else:
            generator.manual_seed(base_seed)
            python.seed(base_seed)
            self._numpy.seed(_generate_state(base_seed, 0))  # type: ignore[no-untyped-call]
        self._own = OwnGenerators(generator, python)

    def save(self) -> StreamState:
        """Where they are now; in the thread that draws from them, between two draws."""
        own = self._own
        own.words.put_back()
        return StreamState(own.torch.get_state(), own.python.getstate(), self._numpy.get_state())

    def here(self) -> contextlib.AbstractContextManager[None]:
        """Within, fastpipe's draws in this thread come from these streams; the global generators stay as they are."""
        return self._own.here()

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Within, the global generators are these streams, for code that knows no others; not for several threads."""
        # The legacy global generator is the point: it is what such code draws from.
        before = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 - the global one
        _set(self.save())
        try:
            yield
        finally:
            self._own.torch.set_state(torch.get_rng_state())
            self._own.python.setstate(random.getstate())
            self._numpy.set_state(np.random.get_state())  # noqa: NPY002 - the global one
            _set(StreamState(*before))


def _set(state: StreamState) -> None:
    torch.set_rng_state(state.torch)
    random.setstate(state.python)
    np.random.set_state(state.numpy)  # noqa: NPY002 - the global one
