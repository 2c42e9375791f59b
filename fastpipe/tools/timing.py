"""Takes times in rounds in which every contender has its turn, in this process or in DataLoader workers.

So a machine that becomes slower does so for all contenders. The first round isn't timed.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastpipe.errors import FastpipeError
from fastpipe.forks import garbage_left_to_parent
from fastpipe.progress_bar import ProgressCallback, no_progress

_SAME = 0.03

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Timing:
    """Time for one image, in microseconds, over the rounds."""

    median_us: float  # the median round
    spread_us: float  # half the distance between the quartiles
    rounds_us: tuple[float, ...]  # each round's mean over the samples

    def text(self, unit_us: float = 1, digits: int = 0) -> str:
        """Median and spread, such as ``"1,204 ± 12"``."""
        return f"{self.median_us / unit_us:,.{digits}f} ± {self.spread_us / unit_us:,.{digits}f}"


def summarize(rounds_us: Sequence[float]) -> Timing:
    """Median and half the interquartile range of the rounds' times, in microseconds."""
    several = rounds_us if len(rounds_us) > 1 else 2 * tuple(rounds_us)
    low, middle, high = statistics.quantiles(several, n=4, method="inclusive")
    return Timing(middle, (high - low) / 2, tuple(rounds_us))


def noise_us(one: Timing, other: Timing) -> float:
    """The largest difference of two medians that count as equal: the sum of both spreads, at least 3%.

    The machine's drift alone makes 3%, even if the spreads are smaller.
    """
    return max(min(one.median_us, other.median_us) * _SAME, one.spread_us + other.spread_us)


def times_as_fast(one: Timing, than: Timing) -> float:
    """The speed of one contender as a multiple of another one's: the median of the rounds' ratios."""
    return statistics.median(b / a for a, b in zip(one.rounds_us, than.rounds_us, strict=True))


def take_turns(
    passes: Mapping[_Key, Callable[[int], float]],
    rounds: int,
    progress: ProgressCallback = no_progress,
    words: Callable[[_Key], str] = str,
) -> dict[_Key, Timing]:
    """Measures passes in turn, each once in a round; returns each one's times.

    A pass is called with the round's number, 0 for the untimed round, and returns microseconds an image. `words` names
    a pass for the progress.
    """
    times: dict[_Key, list[float]] = {key: [] for key in passes}
    total, done = (rounds + 1) * len(passes), 0
    for number in range(rounds + 1):
        order = deque(passes)
        order.rotate(-number)
        for key in order:
            progress(done, total, f"{f'round {number} of {rounds}' if number else 'warming up'}: {words(key)}")
            taken = passes[key](number)
            if number:
                times[key].append(taken)
            done += 1
    progress(total, total, "done")
    return {key: summarize(taken) for key, taken in times.items()}


class Workers:
    """DataLoader workers that hold a subject, such as a dataset, and run functions on it; they stay between calls.

    With `count` 0, everything runs in this process. `options` are those of torch's DataLoader.
    """

    def __init__(self, subject: object, count: int, **options: object) -> None:
        import torch
        from torch.utils.data import DataLoader

        loading: Any = DataLoader  # Any, as the proxy has __getitem__ but doesn't derive from Dataset
        self._told: list[Any] = []  # the functions to run, as the loader's sampler
        self._loader = loading(
            _SubjectProxy(subject),
            batch_size=None,
            sampler=self._told,
            collate_fn=_as_it_is,
            num_workers=count,
            persistent_workers=count > 0,
            generator=torch.Generator(),  # else the workers' seed is drawn from the global generator
            **options,
        )

    def run(self, work: Sequence[Callable[[Any], object]]) -> Iterator[Any]:
        """Runs each function on the subject, and yields the results in order. Functions and results must be picklable.

        Raises:
            FastpipeError: the first FastpipeError that a function raises.
        """
        self._told[:] = work
        with garbage_left_to_parent():
            results = iter(self._loader)
        for one in results:
            if isinstance(one, FastpipeError):
                raise one
            yield one


class _SubjectProxy:
    """Stands for the subject in the worker: ``proxy[function]`` is the function's result for the subject.

    Attributes are the subject's, for a ``worker_init_fn`` that reads or changes them.
    """

    def __init__(self, subject: object) -> None:
        object.__setattr__(self, "_hosted", subject)

    def __getitem__(self, work: Callable[[Any], object]) -> Any:
        try:
            return work(self._hosted)
        except FastpipeError as error:
            return error  # returned, as torch would put a traceback into a raised error's message

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hosted, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._hosted, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        return _SubjectProxy, (self._hosted,)


def _as_it_is(value: object) -> object:
    return value
