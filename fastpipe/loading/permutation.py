"""A seeded permutation of tens of millions of indices, computed on demand and never stored.

The indices ``0 … length-1`` are laid out on a rectangle of about ``√length × √length`` cells, and a Feistel network
[1] with modular additions [2] shuffles the cells: each round shifts one coordinate by a keyed hash of the other, which
can be undone, so the whole is a bijection. The few cells beyond ``length`` are skipped by cycle walking [2]: a result
that falls on one goes through the network again. All arithmetic is on blocks of integers, so the numbers are the same
on every machine and version. A short permutation is computed as a whole and kept in a table.

[1] M. Luby, C. Rackoff, How to construct pseudorandom permutations from pseudorandom functions, 1988.
[2] J. Black, P. Rogaway, Ciphers with arbitrary finite domains, 2002.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from fastpipe.errors import DatasetError

_Words = NDArray[np.uint64]

# In theory, four rounds are enough on large domains; on small domains a round mixes less.
_ROUNDS = 8
_ROUNDS_SMALL = 32
_SMALL = 1 << 12
_LIMIT = 1 << 62  # each coordinate must fit 31 bits, so that 32-bit hash × coordinate stays within 64 bits


class Permutation:
    """A permutation of ``range(length)`` fixed by a key. It takes some 300 bytes, plus the table of a short one.

    Args:
        length: the number of indices, 0 to 2**62.
        key: integers of any size that fix the permutation, such as ``(seed, epoch)``.

    Raises:
        DatasetError: the length is negative or too large.
    """

    def __init__(self, length: int, key: tuple[int, ...]) -> None:
        if not 0 <= length <= _LIMIT:
            raise DatasetError(f"a permutation of {length} indices: give a length from 0 to 2**62.")
        self.length = length
        self._rows = math.isqrt(max(length - 1, 0)) + 1
        self._columns = -(-max(length, 1) // self._rows)
        self._keys = _round_keys(key, _ROUNDS_SMALL if length <= _SMALL else _ROUNDS)
        self._all: NDArray[np.int64] | None = None
        if length <= _SMALL:
            self._all = self._worked_out(np.arange(length))

    def __len__(self) -> int:
        return self.length

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The indices at positions ``(n,)``, each 0 ≤ position < length."""
        return self._worked_out(positions) if self._all is None else self._all[positions]

    def _worked_out(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        cells = self._shuffle(positions.astype(np.uint64))
        outside = np.flatnonzero(cells >= self.length)
        while len(outside):
            cells[outside] = self._shuffle(cells[outside])
            outside = outside[cells[outside] >= self.length]
        return cells.astype(np.int64)

    def _shuffle(self, cells: _Words) -> _Words:
        rows, columns = np.uint64(self._rows), np.uint64(self._columns)
        row, column = cells // columns, cells % columns
        for turn, key in enumerate(self._keys):
            if turn % 2 == 0:
                row = _shift(row, _hash(column, key), rows)
            else:
                column = _shift(column, _hash(row, key), columns)
        shuffled: _Words = row * columns + column
        return shuffled


def _shift(values: _Words, hashes: _Words, modulus: np.uint64) -> _Words:
    """``(values + hash scaled to 0 … modulus-1) mod modulus``; the scaling is a multiplication, not a division."""
    moved: _Words = values + ((hashes * modulus) >> np.uint64(32))
    moved -= modulus * (moved >= modulus)
    return moved


def _hash(values: _Words, key: np.uint64) -> _Words:
    """A keyed 32-bit hash of each value."""
    mixed: _Words = values ^ key
    scramble(mixed)
    mixed >>= np.uint64(32)
    return mixed


def scramble(words: _Words) -> None:
    """Scrambles 64-bit words in place by the finaliser of splitmix64, except for its last step.

    Source: G. Steele, D. Lea, C. Flood, Fast splittable pseudorandom number generators, 2014.
    """
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)


def _round_keys(key: tuple[int, ...], rounds: int) -> list[np.uint64]:
    text = ",".join(map(str, key)).encode()
    digest = hashlib.shake_128(b"fastpipe permutation " + text).digest(8 * rounds)
    return [np.uint64(word) for word in np.frombuffer(digest, dtype="<u8")]
