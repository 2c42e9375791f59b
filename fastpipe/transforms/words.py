"""The words of a Mersenne Twister as torch's generator would give them, without a tensor for each.

torch's CPU generator is an MT19937, whose state can be read and put back. `Words` reads it once, draws in plain
Python, and puts it back: the same numbers as torch's calls give, and the same state behind. What is known here of
torch (where its state lies, how it rounds) is held against torch itself before the first use, in `words_agree`; where
something differs, torch is called as ever.
"""

from __future__ import annotations

import functools
import math
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray

from fastpipe.transforms._float32 import STEP, arithmetic, multiply_add, span_of

# The 5,056 bytes of get_state: seed (uint64), left (int32), seeded (int32), next (uint64), 624 words as uint64, then
# the normal numbers that are kept for later. left is 625 - next; a fresh seed has (1, 0): no word is left.
_SIZE, _COUNT = 5056, 624
_KEY = slice(24, 24 + 8 * _COUNT)
_HEAD, _LEFT, _NEXT = struct.Struct("=QiiQ"), struct.Struct("=i"), struct.Struct("=Q")
_LEFT_AT, _NEXT_AT = 8, 16
# How many words are made at a time. A multiple of it is a block, so that none reaches into the next one.
_CHUNK = 156
# Of a sample's own seed: enough for nearly every pipeline, and few are made in vain.
_SEEDED_CHUNK = 32

EXP_ERROR = 2.0**-21
"""Of a side's length, as a part of it, more than torch's exp of a ratio brings about; `words_agree` looks."""

_FLOAT = struct.Struct("f")
_pack, _unpack = _FLOAT.pack, _FLOAT.unpack
_TWO_FLOATS = struct.Struct("2f")
_pack_two, _unpack_two = _TWO_FLOATS.pack, _TWO_FLOATS.unpack
_MASK = 0xFFFFFF


class _Bench(threading.local):
    """What a thread needs to work with, made once."""

    def __init__(self) -> None:
        with torch.inference_mode(False):  # else it couldn't be written to outside of that mode
            self.number = torch.empty([1], dtype=torch.float32, device="cpu")
        self.value: Any = memoryview(cast(Any, self.number.numpy()))
        self.twister = torch.Generator()
        self.bits = np.random.MT19937(0)
        self.legacy = np.random.RandomState(self.bits)  # its seeding is torch's


_bench = _Bench()


class Words:
    """A generator's numbers, drawn in plain Python.

    Args:
        source: the generator. It stays where it is until `put_back`, and is read anew by the first draw behind that,
            so that others may draw from it in between.
    """

    __slots__ = (
        "_array",
        "_at",
        "_chunk",
        "_key",
        "_read",
        "_seed",
        "_source",
        "_start",
        "_state",
        "_words",
    )

    def __init__(self, source: torch.Generator | None) -> None:
        self._source = source
        self._seed = 0
        self._words: list[int] = []  # at hand; none where the source has to be read first
        self._at = 0  # the next of them
        self._start = 0  # where they start in their block
        self._read = False
        self._key = b""  # the block that the words in _chunk are of
        self._chunk: list[int] = []

    @classmethod
    def seeded(cls, seed: int) -> Words:
        """The words of ``torch.Generator().manual_seed(seed)``, for a seed from ``[0, 2**63)``."""
        words = cls(None)
        words._seed = seed
        _bench.legacy.seed(seed & 0xFFFFFFFF)
        words._words = _bench.bits.random_raw(_SEEDED_CHUNK).tolist()
        return words

    def generator(self) -> torch.Generator:
        """torch's generator, at the state that the draws so far have led to; the next draw reads it anew."""
        if self._source is None:
            self._source = torch.Generator().manual_seed(self._seed)
            if self._at:
                torch.empty([self._at], dtype=torch.float32, device="cpu").uniform_(generator=self._source)
            self._words, self._at = [], 0
        self.put_back()
        return self._source

    def put_back(self) -> None:
        """Writes the state that the draws so far have led to into the generator."""
        if self._read and self._source is not None:
            # At least 1: there's no state before a block's first number, which an interrupted draw may not have taken.
            position = max(self._start + self._at, 1)
            _LEFT.pack_into(self._array, _LEFT_AT, _COUNT + 1 - position)
            _NEXT.pack_into(self._array, _NEXT_AT, position)
            self._source.set_state(self._state)
            self._words, self._at, self._read = [], 0, False

    def _refill(self) -> None:
        """Puts the next words into `_words`, where those at hand have come to an end."""
        if self._source is None:
            self.generator()
        if self._read:
            position = self._start + len(self._words)
        else:
            position = self._load()
            if position < _COUNT and 0 <= position - self._start < len(self._chunk):
                self._words, self._at, self._read = self._chunk, position - self._start, True
                return
        if position == _COUNT:
            self._turn()
            position = 0
        stop = position - position % _CHUNK + _CHUNK
        key = self._array[_KEY].view(np.uint64)[position:stop].astype(np.uint32)
        self._chunk = self._words = _tempered(key).tolist()
        self._start, self._at, self._read = position, 0, True

    def _load(self) -> int:
        """Reads the source's state, and returns the position in its block."""
        assert self._source is not None
        self._state = self._source.get_state()
        self._array: Any = self._state.numpy()
        content = self._array.tobytes()
        key = content[_KEY]
        if key != self._key:
            self._key, self._chunk = key, []
        _, left, _, position = _HEAD.unpack_from(content)
        return _COUNT if left == 1 else position

    def _turn(self) -> None:
        """Goes on to the next block: torch's own twist, in a generator that nobody else has."""
        twister = _bench.twister
        _LEFT.pack_into(self._array, _LEFT_AT, 1)
        twister.set_state(self._state)
        torch.empty([1], dtype=torch.float32, device="cpu").uniform_(generator=twister)
        self._array[_KEY] = twister.get_state().numpy()[_KEY]
        self._key = self._array[_KEY].tobytes()

    def word(self) -> int:
        """The next 32 bits."""
        try:
            word = self._words[self._at]
        except IndexError:
            self._refill()
            word = self._words[self._at]
        self._at += 1
        return word

    def fraction(self) -> float:
        """``torch.rand(1).item()``."""
        try:
            word = self._words[self._at]
        except IndexError:
            self._refill()
            word = self._words[self._at]
        self._at += 1
        return (word & _MASK) * STEP

    def uniform(self, low: float, high: float) -> float:
        """``torch.empty(1).uniform_(low, high).item()``."""
        span = span_of(low, high)
        if span is None:  # torch knows what to do or to say
            return float(torch.empty([1]).uniform_(low, high, generator=self.generator()).item())
        start, width, end, exact = span
        try:
            word = self._words[self._at]
        except IndexError:
            self._refill()
            word = self._words[self._at]
        self._at += 1
        value: float
        if exact:
            value = _unpack(_pack((word & _MASK) * STEP * width + start))[0]
        else:
            value = multiply_add((word & _MASK) * STEP, width, start)
        return start if value == end else value

    def log_uniform(self, log_low: float, log_high: float) -> float:
        """``torch.empty(1).uniform_(log_low, log_high).exp().item()``."""
        return _exp(self.uniform(log_low, log_high))

    def sides(self, area: float, log_low: float, log_high: float) -> tuple[int, int]:
        """Of a ratio by `log_uniform`: ``round(math.sqrt(area * ratio))`` and ``round(math.sqrt(area / ratio))``.

        Whole numbers that hardly ever depend on how an exp is rounded: only where they might is torch asked, whose call
        gives the interpreter's lock up. Where another thread is busy, it takes 5 ms to get that back.
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

    def resized_crop(
        self, height: int, width: int, scale: Sequence[float], log_ratio: Sequence[float]
    ) -> tuple[int, int, int, int] | None:
        """`RandomResizedCrop`'s ``(top, left, height, width)`` at one go, where its first try fits, as most do.

        None, with nothing drawn, where it doesn't, or isn't known for certain as in `sides`: then it is drawn number by
        number.

        Args:
            height, width: of the image.
            scale: range of the crop's area as a fraction of the image's.
            log_ratio: range of the logarithm of its width divided by its height.
        """
        area, ratio = span_of(scale[0], scale[1]), span_of(log_ratio[0], log_ratio[1])
        words, at = self._words, self._at
        if area is None or ratio is None or not (area.exact and ratio.exact) or at + 4 > len(words):
            return None
        one: float
        two: float
        one, two = _unpack_two(
            _pack_two(
                (words[at] & _MASK) * STEP * area.width + area.start,
                (words[at + 1] & _MASK) * STEP * ratio.width + ratio.start,
            )
        )
        if one <= 0 or one == area.end or two == ratio.end or not -80 < two < 80:
            return None
        target, factor = height * width * one, math.exp(two)
        across, down = math.sqrt(target * factor), math.sqrt(target / factor)
        w, h = round(across), round(down)
        if (
            0 < w <= width
            and 0 < h <= height
            and abs(across - w) < 0.5 - EXP_ERROR * across
            and abs(down - h) < 0.5 - EXP_ERROR * down
        ):
            self._at = at + 4
            return words[at + 2] % (height - h + 1), words[at + 3] % (width - w + 1), h, w
        return None

    @property
    def has_source(self) -> bool:
        """Whether there is a generator, and not a seed alone."""
        return self._source is not None

    def advanced(self, advance: Callable[[int], Any]) -> Any:
        """What a function gives that draws by itself, from the state of the source, whose address it gets."""
        assert self._source is not None
        self.put_back()
        state = self._source.get_state()
        result = advance(state.data_ptr())
        self._source.set_state(state)
        return result

    def integer(self, low: int, high: int) -> int:
        """``torch.randint(low, high, [1]).item()``."""
        count = high - low
        if not 0 < count < arithmetic().wide:
            if not 0 < count < 1 << 63:
                return int(torch.randint(low, high, [1], generator=self.generator()).item())
            upper = self.word()
            return int(low + (upper << 32 | self.word()) % count)
        try:
            word = self._words[self._at]
        except IndexError:
            self._refill()
            word = self._words[self._at]
        self._at += 1
        return int(low + word % count)

    def permutation(self, count: int) -> list[int]:
        """``torch.randperm(count).tolist()``, of a handful of numbers."""
        order = list(range(count))
        for i in range(count - 1):
            j = i + self.word() % (count - i)
            order[i], order[j] = order[j], order[i]
        return order


def _tempered(key: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A Mersenne Twister's numbers from its state."""
    y: NDArray[np.uint32] = key ^ (key >> np.uint32(11))
    y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
    y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
    y ^= y >> np.uint32(18)
    return y


def _exp(exponent: float) -> float:
    """``torch.exp`` of a float32, by torch's own: others round in other ways."""
    bench = _bench
    bench.value[0] = exponent
    torch.exp(bench.number, out=bench.number)
    value: float = bench.value[0]
    return value


@functools.cache
def words_agree() -> bool:
    """Whether `Words` gives this torch's numbers and leaves its states; found out once a process, in a few ms.

    Without words, on a torch of another layout or arithmetic, draws call torch one by one.
    """
    try:
        return _layout_agrees() and _exp_agrees() and _numbers_agree(0) and _numbers_agree(2**63 - 1)
    except (RuntimeError, TypeError, ValueError, AttributeError, struct.error):
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
    """Hundreds of draws of every kind from the words, and from torch one by one."""
    theirs = torch.Generator().manual_seed(seed)
    words = Words.seeded(seed)
    for turn in range(20):
        for low, high in _RANGES:
            expected = torch.empty([2]).uniform_(low / 60, high / 60, generator=theirs).exp().tolist()
            if [words.log_uniform(low / 60, high / 60) for _ in range(2)] != expected:
                return False
            if words.uniform(low, high) != torch.empty([1]).uniform_(low, high, generator=theirs).item():
                return False
            if words.fraction() != torch.rand([1], generator=theirs).item():
                return False
        for count in _COUNTS:
            if words.integer(-1, count - 1) != torch.randint(-1, count - 1, [1], generator=theirs).item():
                return False
        if words.permutation(turn + 1) != torch.randperm(turn + 1, generator=theirs).tolist():
            return False
        # In between one normal number: torch keeps a second one in its state.
        if turn % 7 == 5 and not torch.equal(
            torch.randn([1], generator=words.generator()), torch.randn([1], generator=theirs)
        ):
            return False
    return torch.equal(words.generator().get_state(), theirs.get_state())


# What numbers are drawn from: words too, of which TorchScript, which compiles draws, must not hear.
if TYPE_CHECKING:
    Source: TypeAlias = Any
else:
    Source = torch.Generator | None


def plain(generator: Any) -> Any:
    """torch's generator, where words of it are given; else what is given."""
    return generator.generator() if isinstance(generator, Words) else generator
