"""torch's CPU generator in plain Python: the same numbers and the same state, without a tensor for each number.

The generator is an MT19937, whose state can be read and written. `MT19937Stream` reads it once, draws, and writes it
back. What is known here of torch (where its state lies, how it rounds) is checked against torch itself before the first
use, in `matches_torch`; where something differs, torch is called as ever.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
import threading
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from fastpipe.rng.float32 import STEP, arithmetic, float32, multiply_add, pack, span_of, unpack

# The 5,056 bytes of get_state: seed (uint64), left (int32), seeded (int32), next (uint64), 624 words as uint64, then
# the normal numbers that are kept for later. left is 625 - next; a fresh seed has (1, 0): no word is left.
_SIZE, _COUNT = 5056, 624
_KEY = slice(24, 24 + 8 * _COUNT)
_HEAD, _LEFT, _NEXT = struct.Struct("=QiiQ"), struct.Struct("=i"), struct.Struct("=Q")
_LEFT_AT, _NEXT_AT = 8, 16
# How many words are made at a time. A multiple of it is a block, so that none reaches into the next one.
_CHUNK = 156
# The same for a seed of a sample's own: enough for nearly every pipeline, and few are made in vain.
_SEEDED_CHUNK = 32

EXP_ERROR = 2.0**-21
"""Bound on the relative error of a side's length by torch's exp of its ratio; `matches_torch` checks it."""

_MASK = 0xFFFFFF
_ONE_WORD = 1 << 28  # fewer integers than these are chosen by one word in every version


class _Scratch(threading.local):
    """A thread's working memory, made once."""

    def __init__(self) -> None:
        with torch.inference_mode(False):  # else it couldn't be written to outside of that mode
            self.number = torch.empty([1], dtype=torch.float32, device="cpu")
        self.value: Any = memoryview(cast(Any, self.number.numpy()))
        self.twister = torch.Generator()
        self.bits = np.random.MT19937(0)
        self.legacy = np.random.RandomState(self.bits)  # its seeding is torch's


_scratch = _Scratch()


class MT19937Stream:
    """The numbers of a ``torch.Generator``, drawn in plain Python; methods have the names of torch's functions.

    Args:
        source: the generator. It stays where it is until `flush`, and is read anew by the first draw after that,
            so that others may draw from it in between.

    Attributes:
        found: the state of the generator when it was first read, or handed out, since this was last made empty.
    """

    __slots__ = (
        "_buffer",
        "_chunk",
        "_kept",
        "_key",
        "_read",
        "_seed",
        "_source",
        "_state",
        "_stop",
        "_words",
        "found",
    )

    def __init__(self, source: torch.Generator | None) -> None:
        self._source = source
        self._seed = 0
        self._words: list[int] = []  # at hand, the next one last; none where the source has to be read first
        self._kept: list[int] = []  # those that were at hand when the state in _buffer was written
        self._stop = 0  # the position in the block after them
        self._read = False
        self._buffer = bytearray()  # the state, as it was read or written last; _state is a tensor of the same memory
        self._state: Any = None
        self._key = b""  # the block that the words in _chunk, up to _stop, are of
        self._chunk: list[int] = []
        self.found = b""

    @classmethod
    def seeded(cls, seed: int) -> MT19937Stream:
        """The stream of ``torch.Generator().manual_seed(seed)``, for a seed from ``[0, 2**63)``."""
        stream = cls(None)
        stream._seed = seed
        _scratch.legacy.seed(seed & 0xFFFFFFFF)
        stream._words, stream._stop = _scratch.bits.random_raw(_SEEDED_CHUNK)[::-1].tolist(), _SEEDED_CHUNK
        return stream

    def generator(self) -> torch.Generator:
        """The generator, at the state that the draws so far have led to; the next draw reads it anew."""
        if self._source is None:
            self._source = torch.Generator().manual_seed(self._seed)
            drawn = self._stop - len(self._words)
            if drawn:
                torch.empty([drawn], dtype=torch.float32, device="cpu").uniform_(generator=self._source)
            self._words = []
        if not self.found:
            self.found = _content(self._source)
        self.flush()
        return self._source

    def flush(self) -> None:
        """Writes the state that the draws so far have led to into the generator."""
        if self._read and self._source is not None:
            # At least 1: there's no state before a block's first number, which an interrupted draw may not have taken.
            position = max(self._stop - len(self._words), 1)
            _LEFT.pack_into(self._buffer, _LEFT_AT, _COUNT + 1 - position)
            _NEXT.pack_into(self._buffer, _NEXT_AT, position)
            self._source.set_state(self._state)
            self._kept, self._words, self._read = self._words, [], False

    def _refill(self) -> int:
        """Puts words into `_words`, where those at hand have come to an end, and takes the next."""
        if self._source is None:
            self.generator()
        if self._read:
            position = self._stop
        elif self._load() and self._kept:  # nobody else has drawn
            words = self._kept
            self._kept, self._words, self._read = [], words, True
            return words.pop()
        else:
            position = self._position()
        chunk, stop = self._chunk, self._stop
        if position == _COUNT or not stop - len(chunk) <= position < stop:
            if position == _COUNT:
                self._turn()
                position = 0
            stop = position - position % _CHUNK + _CHUNK
            key = np.frombuffer(self._buffer, np.uint64, _COUNT, _KEY.start)[position:stop].astype(np.uint32)
            chunk = _tempered(key)[::-1].tolist()
        words = chunk[: stop - position]
        self._chunk, self._words, self._stop, self._read = chunk, words, stop, True  # at once, for signal handlers
        return words.pop()

    def _load(self) -> bool:
        """Reads the source's state; whether it's the one that was written last."""
        assert self._source is not None
        content = _content(self._source)
        if not self.found:
            self.found = content
        if content == self._buffer:
            return True
        if not self._buffer:
            self._buffer = bytearray(_SIZE)
            self._state = torch.frombuffer(self._buffer, dtype=torch.uint8)
        self._buffer[:] = content
        key = content[_KEY]
        if key != self._key:
            self._key, self._chunk = key, []
        return False

    def _position(self) -> int:
        """The position in the block of the state that was read."""
        _, left, _, position = _HEAD.unpack_from(self._buffer)
        return _COUNT if left == 1 else position

    def _turn(self) -> None:
        """Goes on to the next block: torch's own twist, in a generator that nobody else has."""
        twister = _scratch.twister
        _LEFT.pack_into(self._buffer, _LEFT_AT, 1)
        twister.set_state(self._state)
        torch.empty([1], dtype=torch.float32, device="cpu").uniform_(generator=twister)
        self._key = _content(twister)[_KEY]
        self._buffer[_KEY] = self._key

    def rand(self) -> float:
        """``torch.rand(1).item()``."""
        return ((self._words.pop() if self._words else self._refill()) & _MASK) * STEP

    def bernoulli(self, p: float) -> bool:
        """``bool(torch.rand(1) < p)``."""
        return ((self._words.pop() if self._words else self._refill()) & _MASK) * STEP < float32(p)

    def exceeds(self, p: float) -> bool:
        """``bool(torch.rand(1) > p)``."""
        return self.rand() > float32(p)

    def uniform(self, low: float, high: float) -> float:
        """``torch.empty(1).uniform_(low, high).item()``."""
        span = span_of(low, high)
        if span is None:  # torch knows what to do or to say
            return float(torch.empty([1]).uniform_(low, high, generator=self.generator()).item())
        start, width, end, exact = span
        fraction = ((self._words.pop() if self._words else self._refill()) & _MASK) * STEP
        value: float
        if exact:
            value = unpack(pack(fraction * width + start))[0]
        else:
            value = multiply_add(fraction, width, start)
        return start if value == end else value

    def rectangle_sides(self, area: float, log_low: float, log_high: float) -> tuple[int, int]:
        """``round(math.sqrt(area * ratio))`` and ``round(math.sqrt(area / ratio))`` of a random ratio.

        The ratio is ``torch.empty(1).uniform_(log_low, log_high).exp().item()``. The sides are whole numbers that
        hardly ever depend on how an exp is rounded: only where they might is torch asked, whose call gives up the
        GIL. Where another thread is busy, it takes 5 ms to get that back.
        """
        exponent = self.uniform(log_low, log_high)
        if -80 < exponent < 80:  # beyond, a float32 may come to its end
            ratio = math.exp(exponent)
            w, h = math.sqrt(area * ratio), math.sqrt(area / ratio)
            columns, rows = round(w), round(h)
            if abs(w - columns) < 0.5 - EXP_ERROR * w and abs(h - rows) < 0.5 - EXP_ERROR * h:
                return columns, rows
        ratio = _exp(exponent)
        return round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))

    def randint(self, low: int, high: int) -> int:
        """``torch.randint(low, high, [1]).item()``."""
        count = high - low
        if not 0 < count < _ONE_WORD and not 0 < count < arithmetic().wide:
            if not 0 < count < 1 << 63:
                return int(torch.randint(low, high, [1], generator=self.generator()).item())
            upper = self._words.pop() if self._words else self._refill()
            lower = self._words.pop() if self._words else self._refill()
            return int(low + (upper << 32 | lower) % count)
        return low + (self._words.pop() if self._words else self._refill()) % count

    def randperm(self, n: int) -> list[int]:
        """``torch.randperm(n).tolist()``, for a small ``n``."""
        order = list(range(n))
        for i in range(n - 1):
            j = i + (self._words.pop() if self._words else self._refill()) % (n - i)
            order[i], order[j] = order[j], order[i]
        return order

    def randn(self, size: list[int]) -> torch.Tensor:
        """A tensor of float32 normal numbers, which torch alone can draw."""
        return torch.empty(size, dtype=torch.float32).normal_(generator=self.generator())


def _content(generator: torch.Generator) -> bytes:
    """A generator's state."""
    state = generator.get_state()
    return ctypes.string_at(state.data_ptr(), _SIZE)


def _tempered(key: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The numbers of a Mersenne Twister's state."""
    y: NDArray[np.uint32] = key ^ (key >> np.uint32(11))
    y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
    y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
    y ^= y >> np.uint32(18)
    return y


def _exp(exponent: float) -> float:
    """``torch.exp`` of a float32, by torch's own: others round in other ways."""
    scratch = _scratch
    scratch.value[0] = exponent
    torch.exp(scratch.number, out=scratch.number)
    value: float = scratch.value[0]
    return value


@functools.cache
def matches_torch() -> bool:
    """Whether `MT19937Stream` gives this torch's numbers and states; found out once a process, in a few ms.

    On a torch of another layout or arithmetic, draws call torch one by one.
    """
    try:
        return _layout_agrees() and _exp_agrees() and _numbers_agree(0) and _numbers_agree(2**63 - 1)
    except (RuntimeError, struct.error):  # a state of another length, or one that torch refuses
        return False


def _layout_agrees() -> bool:
    generator = torch.Generator().manual_seed(5)
    heads = []
    for count in (0, 1, 622, 1, 1):
        if count:
            torch.empty([count], dtype=torch.float32, device="cpu").uniform_(generator=generator)
        content = generator.get_state().numpy().tobytes()
        heads.append(_HEAD.unpack_from(content))
        if len(content) != _SIZE:
            return False
    return heads == [(5, 1, 1, 0), (5, 624, 1, 1), (5, 2, 1, 623), (5, 1, 1, 624), (5, 624, 1, 1)]


def _exp_agrees() -> bool:
    exponents = torch.linspace(-10, 10, 4001, dtype=torch.float32, device="cpu")
    errors = torch.exp(exponents).double() / torch.exp(exponents.double()) - 1
    return errors.abs().max().item() < EXP_ERROR


_RANGES = ((0.0, 1.0), (0.08, 1.0), (-30.0, 30.0), (0.6, 1.4), (-0.1, 0.1), (100.0, 100.001), (1.0, 1.0 + 2**-22))
_COUNTS = (1, 2, 25, 1000, 65_536, 2**28 - 1, 2**28, 2**31 + 1, 2**32 - 1, 2**32, 2**63 - 1)


def _numbers_agree(seed: int) -> bool:
    """Compares hundreds of draws of every kind with torch's."""
    theirs = torch.Generator().manual_seed(seed)
    stream = MT19937Stream.seeded(seed)
    for turn in range(20):
        for low, high in _RANGES:
            expected = torch.empty([2]).uniform_(low / 60, high / 60, generator=theirs).exp().tolist()
            if [_exp(stream.uniform(low / 60, high / 60)) for _ in range(2)] != expected:
                return False
            if stream.uniform(low, high) != torch.empty([1]).uniform_(low, high, generator=theirs).item():
                return False
            if stream.rand() != torch.rand([1], generator=theirs).item():
                return False
        for count in _COUNTS:
            if stream.randint(-1, count - 1) != torch.randint(-1, count - 1, [1], generator=theirs).item():
                return False
        if stream.randperm(turn + 1) != torch.randperm(turn + 1, generator=theirs).tolist():
            return False
        # In between one normal number: torch keeps a second one in its state.
        if turn % 7 == 5 and not torch.equal(
            torch.randn([1], generator=stream.generator()), torch.randn([1], generator=theirs)
        ):
            return False
    return torch.equal(stream.generator().get_state(), theirs.get_state())
