"""Seeds for albumentations' transforms, which keep their random state and their last parameters in themselves."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np

from fastpipe.interop import Foreign
from fastpipe.rng import preserved_globals, seed_python

ONE_AT_A_TIME = threading.RLock()
"""A lock, as threads have to take turns at a transform that keeps its state in itself."""


def seed(transform: Foreign, number: int) -> None:
    """Seeds all members by one shared pair of generators; albumentations' own set_random_seed starts all alike.

    Older versions draw from Python's global generator, which is seeded instead.
    """
    if hasattr(transform, "set_random_state"):
        transform.set_random_state(np.random.default_rng(number), random.Random(number))
    elif hasattr(transform, "set_random_seed"):
        transform.set_random_seed(number)
    else:
        seed_python(number)


@contextmanager
def seeded(transform: Foreign, number: int) -> Iterator[None]:
    """Seeds a transform for a block, which no other thread runs; Python's own generator stays as it was."""
    with ONE_AT_A_TIME, nullcontext() if hasattr(transform, "set_random_state") else preserved_globals():
        seed(transform, number)
        yield
