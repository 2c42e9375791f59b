"""torch's CPU generator in plain Python: the same numbers and the same state, without a tensor for each number.

The generator is an MT19937, whose state can be read and written. `MT19937Stream` reads it once, draws, and writes it
back. `matches_torch` checks all assumptions about torch (the layout of its state, its rounding) against torch itself
before the first use; if one is wrong, draws call torch.
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

# The 5,056 bytes of get_state: seed (uint64), left (int32), seeded (int32), next (uint64), 624 words as uint64, then a
# cached normal number. left is 625 - next; right after seeding they are (1, 0): no word is left.
_SIZE, _COUNT = 5056, 624
_KEY = slice(24, 24 + 8 * _COUNT)
_HEAD, _LEFT, _NEXT = struct.Struct("=QiiQ"), struct.Struct("=i"), struct.Struct("=Q")
_LEFT_AT, _NEXT_AT = 8, 16
# Number of words made at a time. It divides 624, so that no chunk reaches into the next block.
_CHUNK = 156
# The same for a sample's own seed: enough for nearly every pipeline, with few words wasted.
_SEEDED_CHUNK = 32

EXP_ERROR = 2.0**-21
"""Bound on the relative error of a side's length computed by math.exp instead of torch's; `matches_torch` checks it."""

_MASK = 0xFFFFFF
_ONE_WORD = 1 << 28  # fewer integers than these take one word in every version


class _Scratch(threading.local):
    """A thread's reusable objects."""

    def __init__(self) -> None:
        with torch.inference_mode(False):  # a tensor made in inference mode couldn't be written to outside of it
            self.number = torch.empty([1], dtype=torch.float32, device="cpu")
        self.value: Any = memoryview(cast(Any, self.number.numpy()))
        self.twister = torch.Generator()
        self.bits = np.random.MT19937(0)
        self.legacy = np.random.RandomState(self.bits)  # seeds as torch does


_scratch = _Scratch()


class MT19937Stream:
    """The numbers of a ``torch.Generator``, drawn in plain Python; methods are named after torch's functions.

    Args:
        source: the generator. It is unchanged until `flush`, and read anew by the first draw after that, so that other
            code may draw from it in between.

    Attributes:
        found: the generator's state when it was first read, or handed out, since this attribute was last set empty.
    """

    __slots__ = (
        "_buffer",
        "_chunk",
        "_kept",
        "_key",
        "_loaded",
        "_read",
        "_seed",
        "_source",
        "_state",
        "_stop",
        "_words",
        "found",
    )

    _state: torch.Tensor
    """A tensor on the memory of the buffer; not set while that is empty."""

    def __init__(self, source: torch.Generator | None) -> None:
        self._source = source
        self._seed = 0
        self._words: list[int] = []  # available words, the next one last; empty if the source has to be read first
        self._kept: list[int] = []  # the words that were available when the state in _buffer was written
        self._stop = 0  # the position in the block after the available words
        self._read = False
        self._buffer = bytearray()  # the state as last read or written; empty until the first time
        self._loaded = b""  # the state that was read last
        self._key = b""  # the block that _chunk belongs to; _chunk ends at position _stop
        self._chunk: list[int] = []
        self.found = b""

    @classmethod
    def seeded(cls, seed: int) -> MT19937Stream:
        """The stream of ``torch.Generator().manual_seed(seed)``, for a seed in ``[0, 2**63)``."""
        stream = cls(None)
        stream._seed = seed
        _scratch.legacy.seed(seed & 0xFFFFFFFF)
        stream._words, stream._stop = _scratch.bits.random_raw(_SEEDED_CHUNK)[::-1].tolist(), _SEEDED_CHUNK
        return stream

    def generator(self) -> torch.Generator:
        """The generator in the state after the draws so far; the next draw reads it anew."""
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

    def begin(self) -> None:
        """Begins a block of draws: writes the state after those of a block around it.

        Draws that a signal handler's exception has left behind are forgotten if the generator has been set since.
        """
        if self._read and self._source is not None and _content(self._source) != self._loaded:
            self.forget()
        self.flush()

    def forget(self) -> None:
        """Forgets the draws since the last `flush`, and what is kept of the generator's state."""
        self._buffer = bytearray()
        self._kept, self._words, self._read, self._key, self._chunk = [], [], False, b"", []

    def flush(self) -> None:
        """Writes the state after the draws so far into the generator."""
        if self._read and self._source is not None:
            # At least 1: no state stands for position 0 of a block, from which an interrupted draw may not have drawn.
            position = max(self._stop - len(self._words), 1)
            _LEFT.pack_into(self._buffer, _LEFT_AT, _COUNT + 1 - position)
            _NEXT.pack_into(self._buffer, _NEXT_AT, position)
            self._source.set_state(self._state)
            self._kept, self._words, self._read = self._words, [], False

    def _refill(self) -> int:
        """Makes new words available when none is left, and takes the next one."""
        if self._source is None:
            self.generator()
        if self._read:
            position = self._stop
        elif self._load() and self._kept:  # no other code has drawn
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
        self._chunk, self._words, self._stop, self._read = chunk, words, stop, True  # at once: signals
        return words.pop()

    def _load(self) -> bool:
        """Reads the source's state; True if it is the one that was written last."""
        assert self._source is not None
        self._loaded = content = _content(self._source)
        if not self.found:
            self.found = content
        if content == self._buffer:
            return True
        self._kept = []  # before the buffer has another state, after which a signal may raise
        if not self._buffer:
            self._buffer = bytearray(_SIZE)
            self._state = torch.frombuffer(self._buffer, dtype=torch.uint8)
        self._buffer[:] = content
        key = content[_KEY]
        if key != self._key:
            self._key, self._chunk = key, []
        return False

    def _position(self) -> int:
        """The position in the block, from the state that was read."""
        _, left, _, position = _HEAD.unpack_from(self._buffer)
        return _COUNT if left == 1 else position

    def _turn(self) -> None:
        """Makes the next block by torch's own twist, in a generator that nobody else uses."""
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
        if span is None:  # torch handles or refuses this range
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

        The ratio is ``torch.empty(1).uniform_(log_low, log_high).exp().item()``. The rounding of exp hardly ever
        changes the sides, which are integers. Only where it might is torch called, because that call releases the GIL,
        and getting it back takes 5 ms if another thread is busy.
        """
        exponent = self.uniform(log_low, log_high)
        if -80 < exponent < 80:  # outside, float32 may overflow or underflow
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
        """A tensor of float32 normal numbers, drawn by torch."""
        return torch.empty(size, dtype=torch.float32).normal_(generator=self.generator())


def _content(generator: torch.Generator) -> bytes:
    """The bytes of a generator's state."""
    state = generator.get_state()
    return ctypes.string_at(state.data_ptr(), _SIZE)


def _tempered(key: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The output words of a Mersenne Twister's state."""
    y: NDArray[np.uint32] = key ^ (key >> np.uint32(11))
    y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
    y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
    y ^= y >> np.uint32(18)
    return y


def _exp(exponent: float) -> float:
    """``torch.exp`` of a float32, by torch itself, because other functions round differently."""
    scratch = _scratch
    scratch.value[0] = exponent
    torch.exp(scratch.number, out=scratch.number)
    value: float = scratch.value[0]
    return value


@functools.cache
def matches_torch() -> bool:
    """True if `MT19937Stream` gives this torch's numbers and states; tested once a process, in a few ms.

    If it doesn't, as with another layout or arithmetic, draws call torch one by one.
    """
    try:
        return _layout_agrees() and _exp_agrees() and _numbers_agree(0) and _numbers_agree(2**63 - 1)
    except (RuntimeError, struct.error):  # a state of another length, or one that torch refuses to set
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
    """Compares draws of every kind with torch's own, before and after the end of a state's 624 words."""
    theirs = torch.Generator().manual_seed(seed)
    stream = MT19937Stream.seeded(seed)
    for turn in range(3):
        for low, high in _RANGES:
            expected = torch.empty([2]).uniform_(low / 60, high / 60, generator=theirs).exp().tolist()
            if [_exp(stream.uniform(low / 60, high / 60)) for _ in range(2)] != expected:
                return False
            if stream.uniform(low, high) != torch.empty([1]).uniform_(low, high, generator=theirs).item():
                return False
        if [stream.rand() for _ in range(300)] != torch.rand([300], generator=theirs).tolist():
            return False
        for count in _COUNTS:
            if stream.randint(-1, count - 1) != torch.randint(-1, count - 1, [1], generator=theirs).item():
                return False
        if stream.randperm(20 * turn + 1) != torch.randperm(20 * turn + 1, generator=theirs).tolist():
            return False
        # A normal number in between, because torch caches a second one in its state.
        if turn == 1 and not torch.equal(
            torch.randn([1], generator=stream.generator()), torch.randn([1], generator=theirs)
        ):
            return False
    return torch.equal(stream.generator().get_state(), theirs.get_state())
