"""Keys of random numbers that depend on ``(seed, epoch, index)`` alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def sample_key(seed: int, epoch: int, index: int) -> int:
    """A seed of 64 bits hashed from (seed, epoch, index)."""
    return sample_keys(seed, epoch, (index,))[0]


def sample_keys(seed: int, epoch: int, indices: Iterable[int]) -> list[int]:
    """The `sample_key` of each index."""
    begun = hashlib.blake2b(b"%d,%d," % (seed, epoch), digest_size=8, person=b"fastpipe sample")
    keys = []
    for index in indices:
        hashed = begun.copy()
        hashed.update(b"%d" % index)
        keys.append(int.from_bytes(hashed.digest(), "little"))
    return keys


def torch_seed(key: int) -> int:
    """Makes a key a seed that every version of torch takes: some refuse values outside of ``[0, 2**63)``."""
    return key & 0x7FFF_FFFF_FFFF_FFFF
