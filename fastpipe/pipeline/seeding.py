"""Random numbers that depend on ``(seed, epoch, index)`` alone, and an epoch that reaches running workers."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from fastpipe.types import Generators

__all__ = ["SharedEpoch", "copied_generators", "keyed_generators", "keyed_globals", "sample_key"]


class SharedEpoch:
    """A number in shared memory: what the main process sets, workers see, persistent ones included.

    A worker that is forked inherits the memory; one that is spawned gets a handle, since torch's process pickler
    sends tensors that way. Ordinary pickling and deep copies take the number only.
    """

    def __init__(self, epoch: int = 0) -> None:
        self._number = _shared(torch.tensor([epoch], dtype=torch.int64))

    def get(self) -> int:
        return int(self._number[0])

    def set(self, epoch: int) -> None:
        self._number[0] = epoch

    def __getstate__(self) -> torch.Tensor:
        return self._number

    def __setstate__(self, number: torch.Tensor) -> None:
        self._number = _shared(number)

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedEpoch:
        return SharedEpoch(self.get())


def _shared(number: torch.Tensor) -> torch.Tensor:
    shared: torch.Tensor = number.share_memory_()  # type: ignore[no-untyped-call]
    return shared


def sample_key(seed: int, epoch: int, index: int) -> int:
    """64 bits that look unrelated for any two different triples."""
    digest = hashlib.blake2b(f"{seed},{epoch},{index}".encode(), digest_size=8, person=b"fastpipe sample")
    return int.from_bytes(digest.digest(), "little")


def keyed_generators(key: int) -> Generators:
    """Fresh generators, seeded by a key."""
    return Generators(torch.Generator().manual_seed(_signed(key)), random.Random(key))


def copied_generators() -> Generators:
    """Generators that will draw what the global ones would, and leave them where they are."""
    copied, python = torch.Generator(), random.Random()
    copied.set_state(torch.get_rng_state())
    python.setstate(random.getstate())
    return Generators(copied, python)


@contextlib.contextmanager
def keyed_globals(key: int) -> Iterator[None]:
    """torch's, Python's and numpy's global generators seeded by a key, and put back behind.

    For transforms that draw from the global generators while they see pixels. Not for several threads at once.
    """
    # The legacy global generator is the point: it is what such transforms draw from.
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    torch.default_generator.manual_seed(_signed(key))
    random.seed(key)
    np.random.seed(key & 0xFFFFFFFF)  # noqa: NPY002
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        np.random.set_state(before[2])  # noqa: NPY002


def _signed(key: int) -> int:
    """torch takes seeds from -2**63 to 2**64-1, but not the same ones in every version."""
    return key & 0x7FFF_FFFF_FFFF_FFFF
