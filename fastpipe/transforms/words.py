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
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray

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
# Of these, those that a batch's samples look at together.
_FIRST = 8
# Numbers that torch.exp gets in a row.
_ROW = 52

_FLOAT = struct.Struct("f")
_pack, _unpack = _FLOAT.pack, _FLOAT.unpack
_DOUBLE, _BITS = struct.Struct("=d"), struct.Struct("=Q")
_MASK, _STEP = 0xFFFFFF, 2.0**-24


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
        "_powers",
        "_read",
        "_seed",
        "_source",
        "_start",
        "_state",
        "_together",
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
        self._powers: dict[tuple[float, float], list[float]] = {}  # what log_uniform makes of each of these words
        self._together: tuple[_Together, int] | None = None  # others of the same batch, and the number among them

    @classmethod
    def seeded(cls, seed: int) -> Words:
        """The words of ``torch.Generator().manual_seed(seed)``, for a seed from ``[0, 2**63)``."""
        words = cls(None)
        words._seed = seed
        _bench.legacy.seed(seed & 0xFFFFFFFF)
        words._words = _bench.bits.random_raw(_SEEDED_CHUNK).tolist()
        return words

    @classmethod
    def seeded_together(cls, seeds: Sequence[int]) -> list[Words]:
        """`seeded`, for the samples of a batch: what calls torch once for each is called once for all."""
        made = [cls.seeded(seed) for seed in seeds]
        together = _Together([words._words[:_FIRST] for words in made])
        for number, words in enumerate(made):
            words._together = together, number
        return made

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
        self._powers = {}

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
        return (word & _MASK) * _STEP

    def uniform(self, low: float, high: float) -> float:
        """``torch.empty(1).uniform_(low, high).item()``."""
        span = _span(low, high)
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
            value = _unpack(_pack((word & _MASK) * _STEP * width + start))[0]
        else:
            value = _multiply_add((word & _MASK) * _STEP, width, start)
        return start if value == end else value

    def log_uniform(self, log_low: float, log_high: float) -> float:
        """``torch.empty(1).uniform_(log_low, log_high).exp().item()``."""
        if _span(log_low, log_high) is not None:  # else torch draws, from the state as it is: no words are looked at
            if self._source is not None and self._at == len(self._words):
                self._refill()
            powers = self._powers_at_hand(log_low, log_high)
            if self._at < len(powers):
                self._at += 1
                return powers[self._at - 1]
        bench = _bench
        bench.value[0] = self.uniform(log_low, log_high)
        torch.exp(bench.number, out=bench.number)
        value: float = bench.value[0]
        return value

    def _powers_at_hand(self, log_low: float, log_high: float) -> list[float]:
        """What `log_uniform` gives for each of the first words at hand; none where that isn't known beforehand."""
        if self._source is None:
            return [] if self._together is None else self._together[0].log_uniform(self._together[1], log_low, log_high)
        powers = self._powers.get((log_low, log_high))
        if powers is None:
            powers = self._powers[log_low, log_high] = _exponentials(self._words, log_low, log_high)
        return powers

    def resized_crop(
        self, height: int, width: int, scale: Sequence[float], log_ratio: Sequence[float]
    ) -> tuple[int, int, int, int] | None:
        """`RandomResizedCrop`'s ``(top, left, height, width)`` at one go, where the words for it are at hand.

        None, with nothing drawn, where they aren't, or ten tries came to nothing: then it is drawn number by number.

        Args:
            height, width: of the image.
            scale: range of the crop's area as a fraction of the image's.
            log_ratio: range of the logarithm of its width divided by its height.
        """
        span = _span(scale[0], scale[1])
        if span is None or not span.exact or _span(log_ratio[0], log_ratio[1]) is None:
            return None
        if self._at == len(self._words):
            self._refill()
        words = self._words
        start, extent, end, _ = span
        powers = self._powers_at_hand(log_ratio[0], log_ratio[1])
        area = height * width
        first = self._at
        for at in range(first, min(first + 20, len(powers) - 3), 2):
            fraction: float = _unpack(_pack((words[at] & _MASK) * _STEP * extent + start))[0]
            if fraction == end:
                fraction = start
            target, ratio = area * fraction, powers[at + 1]
            w, h = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
            if 0 < w <= width and 0 < h <= height:
                self._at = at + 4
                return words[at + 2] % (height - h + 1), words[at + 3] % (width - w + 1), h, w
        return None

    def integer(self, low: int, high: int) -> int:
        """``torch.randint(low, high, [1]).item()``."""
        count = high - low
        if not 0 < count < _arithmetic().wide:
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


class _Together:
    """The first words of a batch's samples, for what torch makes of all of them at once.

    Each call of torch gives the interpreter's lock up; where another thread is busy, it takes 5 ms to get it back.
    """

    def __init__(self, words: list[list[int]]) -> None:
        self._words = words
        self._powers: dict[tuple[float, float], list[float]] = {}

    def log_uniform(self, number: int, log_low: float, log_high: float) -> list[float]:
        """What `Words.log_uniform` gives for each word of a sample; none where that isn't known of many at a time."""
        powers = self._powers.get((log_low, log_high))
        if powers is None:
            every = [word for words in self._words for word in words]
            powers = self._powers[log_low, log_high] = _exponentials(every, log_low, log_high)
        return powers[number * _FIRST : (number + 1) * _FIRST]


def _tempered(key: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A Mersenne Twister's numbers from its state."""
    y: NDArray[np.uint32] = key ^ (key >> np.uint32(11))
    y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
    y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
    y ^= y >> np.uint32(18)
    return y


def _exponentials(words: list[int], log_low: float, log_high: float) -> list[float]:
    """What `Words.log_uniform` gives for each word; none where that isn't known of many at a time.

    By torch's own exp, for others round in other ways: it gives the same of many numbers as of one. MKL, which does it,
    takes threads for more than some 80 numbers in a row, also where torch was told to use none, and these wait for
    more in a busy loop: 50 µs became 3 ms, and as much on another core. So the numbers stand in short rows.
    """
    span = _span(log_low, log_high)
    if span is None or not span.exact:
        return []
    values = ((np.array(words) & _MASK) * _STEP * span.width + span.start).astype(np.float32)
    values[values == np.float32(span.end)] = span.start
    rows = np.zeros((-(-len(values) // _ROW), _ROW + 1), np.float32)  # the gap keeps torch from making them one
    apart = rows[:, :_ROW]
    apart.flat[: len(values)] = values
    powers: list[float] = torch.exp(torch.from_numpy(apart)).flatten().tolist()
    return powers[: len(values)]


@functools.lru_cache(maxsize=1024)
def float32(value: float) -> float:
    """A number rounded as torch rounds one that it compares with a float32 tensor."""
    try:
        rounded: float = _unpack(_pack(value))[0]
    except OverflowError:
        rounded = math.copysign(math.inf, value)
    return rounded


class _Span(NamedTuple):
    """A range of floats as torch works with it, in float32.

    Attributes:
        start, width: its start, and how far its end is from there.
        end: what a number is not to be: torch takes the start in its place. Equal to nothing where torch lets it be.
        exact: whether a number, in float64, is exact before it is rounded to float32.
    """

    start: float
    width: float
    end: float
    exact: bool


@functools.lru_cache(maxsize=4096)
def _span(low: float, high: float) -> _Span | None:
    """The span of a range.

    None for what is left to torch: ranges that it refuses, and numbers at the ends of float32's own range, where
    processors may be told to flush them to zero.
    """
    if not (isinstance(low, int | float) and isinstance(high, int | float) and -1e30 <= low <= high <= 1e30):
        return None
    start, end = float32(low), float32(high)
    width = float32(end - start)
    if 0 < abs(start) < 1e-30 or 0 < width < 1e-30:
        return None
    # A sum is a multiple of the smallest bit of either number, and of at most so many of them.
    smallest = min(_last_bit(width) * _STEP, _last_bit(start))
    exact = _arithmetic().fused and abs(start) + width <= smallest * 2.0**53
    return _Span(start, width, end if _arithmetic().half_open else math.nan, exact)


def _last_bit(value: float) -> float:
    """What the last of a float32's 24 bits stands for; infinite for 0, which has none."""
    return math.ldexp(1.0, math.frexp(value)[1] - 24) if value else math.inf


def _multiply_add(fraction: float, width: float, start: float) -> float:
    """``fraction * width + start`` of float32 numbers, rounded to float32 once, or twice where torch is built so."""
    product = fraction * width  # 48 bits: exact
    value: float
    if not _arithmetic().fused:
        value = _unpack(_pack(_unpack(_pack(product))[0] + start))[0]
        return value
    total = product + start
    part = total - product
    missing = (product - (total - part)) + (start - part)  # what the sum has lost, exactly
    if missing and not _BITS.unpack(_DOUBLE.pack(total))[0] & 1:
        # Rounded to odd, the sum has a trace of what it lost; rounded to even, the next rounding might take a
        # number for the middle between two that isn't.
        total = math.nextafter(total, math.copysign(math.inf, missing))
    value = _unpack(_pack(total))[0]
    return value


class _Arithmetic(NamedTuple):
    """In what versions, builds and processors differ.

    Attributes:
        fused: whether ``uniform_`` multiplies and adds with one rounding.
        half_open: whether ``uniform_`` gives the start of its range for a number that is rounded to its end.
        wide: from how many integers on ``randint`` takes two words to choose one.
    """

    fused: bool
    half_open: bool
    wide: int


@functools.cache
def _arithmetic() -> _Arithmetic:
    """This torch's."""
    low, high = float32(0.3), float32(1.7)
    # In float64 these sums are exact.
    expected = [_unpack(_pack(x * float32(high - low) + low))[0] for x in _some(0.0, 1.0)]
    twister = torch.Generator().manual_seed(0)
    torch.randint(0, 2**28, [1], generator=twister)
    words = _HEAD.unpack_from(twister.get_state().numpy().tobytes())[3]
    return _Arithmetic(
        _some(low, high) == expected, max(_some(1.0, 1.0 + 2**-23)) == 1.0, 2**32 if words == 1 else 2**28
    )


def _some(low: float, high: float) -> list[float]:
    values = torch.empty([256], dtype=torch.float32, device="cpu")
    some: list[float] = values.uniform_(low, high, generator=torch.Generator().manual_seed(1)).tolist()
    return some


@functools.cache
def words_agree() -> bool:
    """Whether `Words` gives this torch's numbers and leaves its states; found out once a process, in a few ms.

    Without words, on a torch of another layout or arithmetic, draws call torch one by one.
    """
    try:
        return _layout_agrees() and _numbers_agree(0) and _numbers_agree(2**63 - 1)
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
