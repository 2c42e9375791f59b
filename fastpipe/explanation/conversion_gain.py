"""The speed-up of another library's data set by `fastpipe.convert`, measured on some of its samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastpipe.interop.datasets import convert_dataset, is_known
from fastpipe.rng import preserved_globals

_SAMPLES = 32
_LEAST = 1.05


@dataclass(frozen=True, slots=True)
class ConversionGain:
    """The gain of a data set that can be converted.

    Attributes:
        ratio: how many times as fast the samples are; None where none could be made.
        samples: how many were measured.
    """

    ratio: float | None
    samples: int

    @property
    def pays(self) -> bool:
        """Whether there is a gain, as far as is known."""
        return self.ratio is None or self.ratio >= _LEAST

    def __str__(self) -> str:
        if self.ratio is None:
            return "the same samples"
        return f"the same samples {self.ratio:.1f} times as fast, measured on {self.samples} of them here"


def conversion_gain(dataset: Any, seconds: float = 0.5) -> ConversionGain | None:
    """The gain of converting a data set; None where `fastpipe.convert` doesn't take it.

    Both sides make the same samples in turns; the global generators don't move.

    Args:
        dataset: any; one of fastpipe's has nothing to gain.
        seconds: to measure for, roughly; each side makes a few samples at least.
    """
    converted = convert_dataset(dataset, lambda dataset, reason: dataset) if is_known(dataset) else dataset
    if converted is dataset:
        return None
    try:
        count = len(dataset)
        places = [number * count // _SAMPLES for number in range(_SAMPLES)] if count > _SAMPLES else [*range(count)]
        with preserved_globals():
            return _measured(dataset, converted, places, seconds)
    except Exception:  # of a user's transform, or a file's: who asks for the sample is told
        return ConversionGain(None, 0)


def _measured(dataset: Any, converted: Any, places: list[int], seconds: float) -> ConversionGain:
    def one_by_one(source: Any) -> Callable[[list[int]], object]:
        return lambda part: [source[place] for place in part]

    makers = one_by_one(dataset), getattr(converted, "__getitems__", None) or one_by_one(converted)
    for make in makers * 2:  # what is loaded and compiled at first
        make(places[:1])
    spent = [0, 0]
    done = 0
    begin = time.perf_counter()
    while done < len(places) and (not done or time.perf_counter() - begin < seconds):
        part = places[done : done + 8]
        for which in (0, 1) if done % 16 else (1, 0):
            before = time.thread_time_ns()
            makers[which](part)
            spent[which] += time.thread_time_ns() - before
        done += len(part)
    return ConversionGain(spent[0] / max(spent[1], 1), done)
