"""How long each reader takes for each format and request, in one process and inside DataLoader workers.

A time counts only for pixels that are right: see `fastpipe.bench.check`.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from fastpipe.bench.check import REQUESTS, Cell, asked_of, check
from fastpipe.bench.samples import Sample
from fastpipe.config import library_versions, machine_fingerprint
from fastpipe.readers import available_readers, decode, get_reader

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

__all__ = ["Measurement", "Result", "Timing", "default_workers", "measure", "noise_us", "summarize"]

_SAME = 0.03
_CHUNK = 4  # samples that a worker decodes for one message to the main process


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one image, in microseconds, over the rounds.

    Attributes:
        median_us: the median round.
        spread_us: half the distance between the quartiles.
        rounds_us: each round's mean over the samples.
    """

    median_us: float
    spread_us: float
    rounds_us: tuple[float, ...]

    @property
    def quartiles_us(self) -> tuple[float, float]:
        """The lower and the upper quartile of the rounds."""
        if len(self.rounds_us) < 2:
            return self.median_us, self.median_us
        low, _, high = statistics.quantiles(self.rounds_us, n=4, method="inclusive")
        return low, high


@dataclass(frozen=True, slots=True)
class Result:
    """What one reader did with one format and request.

    Attributes:
        reader: its name.
        format: the config's key of the format.
        request: one of `REQUESTS`.
        exact: its pixels were right, so that it was measured; else `note` says what was wrong.
        served: the share of samples that it decoded itself, 0 to 1; Pillow did the rest.
        note: why it wasn't measured or didn't serve all, empty where there's nothing to say.
        single: in one process; None where it wasn't measured.
        workers: inside DataLoader workers; None where it wasn't measured.
    """

    reader: str
    format: str
    request: str
    exact: bool
    served: float
    note: str = ""
    single: Timing | None = None
    workers: Timing | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """All results of one run, and what they were taken on and with.

    Attributes:
        results: by format, request and reader.
        images: format to the number of samples.
        bytes: format to their mean size, in bytes.
        digests: format to a digest of the samples' bytes and regions: equal ones were measured on the same images.
        workers: DataLoader workers; 0 where only one process was measured.
        rounds: timed rounds.
        machine: as `fastpipe.config.machine_fingerprint` gives it.
        versions: as `fastpipe.config.library_versions` gives it.
        created: when, ISO 8601.
    """

    results: tuple[Result, ...]
    images: Mapping[str, int]
    bytes: Mapping[str, float]
    workers: int
    rounds: int
    machine: Mapping[str, str | int]
    versions: Mapping[str, str]
    created: str
    digests: Mapping[str, str] = field(default_factory=dict)

    def of(self, format: str, request: str) -> list[Result]:
        """The results for one format and request."""
        return [result for result in self.results if (result.format, result.request) == (format, request)]


def default_workers() -> int:
    """As many DataLoader workers as this process may use CPUs, at most 16."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, 16)


def summarize(rounds_us: Sequence[float]) -> Timing:
    """Median and half the interquartile range of the rounds' times, in microseconds."""
    timing = Timing(statistics.median(rounds_us), 0.0, tuple(rounds_us))
    low, high = timing.quartiles_us
    return replace(timing, spread_us=(high - low) / 2)


def noise_us(one: Timing, other: Timing) -> float:
    """How far apart two medians may be and still count as the same: both spreads together, at least 3%.

    Drift of the machine alone makes 3%, however small the spread.
    """
    return max(min(one.median_us, other.median_us) * _SAME, one.spread_us + other.spread_us)


def measure(
    samples: Sequence[Sample],
    readers: Sequence[str] | None = None,
    *,
    workers: int | None = None,
    rounds: int = 7,
    progress: Callable[[int, int, str], None] | None = None,
) -> Measurement:
    """Checks, then times every reader on every format and request of the samples.

    In each round every reader gets one pass over the samples, in turn and each round in another order, in this
    process and then in the workers: a machine that grows slower meanwhile does so for all alike. One more round,
    untimed, comes first.

    Args:
        samples: from `fastpipe.bench.samples`.
        readers: names; None for all that load here.
        workers: DataLoader workers; None for `default_workers`, 0 for none.
        rounds: timed rounds.
        progress: called with the steps done, all steps, and what comes next.

    Raises:
        UnknownReaderError, ReaderUnavailableError: a named reader can't serve here.
    """
    names = list(dict.fromkeys(available_readers() if readers is None else readers))
    for name in names:
        get_reader(name)
    workers = default_workers() if workers is None else workers
    formats = sorted({sample.format for sample in samples})
    say = progress or (lambda done, total, what: None)

    checks = [(format, request, name) for format in formats for request in REQUESTS for name in names]
    cells = []
    for done, (format, request, name) in enumerate(checks):
        say(done, len(checks), f"checking {name} on {format}")
        cell = check(samples, format, request, get_reader(name))
        if cell is not None:
            cells.append(cell)
    exact = [cell for cell in cells if cell.exact]
    timed = dict(zip(exact, _time(samples, exact, workers, rounds, say), strict=True))
    results = []
    for cell in cells:
        single, inside = timed.get(cell, ((), ()))
        results.append(
            Result(
                reader=cell.reader,
                format=cell.format,
                request=cell.request,
                exact=cell.exact,
                served=cell.served,
                note=cell.note,
                single=summarize(single) if single else None,
                workers=summarize(inside) if inside else None,
            )
        )
    sizes = {format: [len(sample.data) for sample in samples if sample.format == format] for format in formats}
    return Measurement(
        results=tuple(results),
        images={format: len(found) for format, found in sizes.items()},
        bytes={format: statistics.fmean(found) for format, found in sizes.items()},
        workers=workers,
        rounds=rounds,
        machine=machine_fingerprint(),
        versions=library_versions(),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        digests={format: _digest(sample for sample in samples if sample.format == format) for format in formats},
    )


def _digest(samples: Iterable[Sample]) -> str:
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(f"{len(sample.data)} {tuple(sample.box)};".encode())
        digest.update(sample.data)
    return digest.hexdigest()[:16]


def _decode_ns(cell: Cell, places: Sequence[int], samples: Sequence[Sample]) -> int:
    """Nanoseconds that some of the cell's samples take: what a user who named this reader waits."""
    spent = 0
    for place in places:
        sample = samples[cell.samples[place]]
        asked = asked_of(sample, cell.request)
        start = time.perf_counter_ns()
        decode(sample.data, asked, header=sample.header, reader=cell.reader)
        spent += time.perf_counter_ns() - start
    return spent


class _Timer:
    """A map-style dataset whose items are decode times: ``(cell, first, stop)`` → ``(nanoseconds, images)``."""

    def __init__(self, samples: Sequence[Sample], cells: Sequence[Cell]) -> None:
        self.samples, self.cells = samples, cells

    def __getitem__(self, item: tuple[int, int, int]) -> tuple[int, int]:
        number, first, stop = item
        return _decode_ns(self.cells[number], range(first, stop), self.samples), stop - first


class _Pass:
    """A sampler that gives what it was last told: one loader, and its workers, serve every pass."""

    def __init__(self) -> None:
        self.items: list[tuple[int, int, int]] = []

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class _Workers:
    """Times a cell inside DataLoader workers, all of which decode with its reader at the same time."""

    def __init__(self, samples: Sequence[Sample], cells: Sequence[Cell], workers: int) -> None:
        import torch
        from torch.utils.data import DataLoader

        self._cells, self._workers, self._sampler = cells, workers, _Pass()
        loading: Any = DataLoader
        self._loader: DataLoader[Any] = loading(
            _Timer(samples, cells),
            batch_size=None,
            sampler=self._sampler,
            num_workers=workers,
            persistent_workers=True,
            generator=torch.Generator(),  # else the workers' seed is taken from the global one
        )

    def pass_us(self, number: int) -> float:
        """Mean time of one image of one cell inside a worker, in microseconds."""
        images = len(self._cells[number].samples)
        chunks = [(number, first, min(first + _CHUNK, images)) for first in range(0, images, _CHUNK)]
        # Each worker gets at least two chunks, or some would measure beside idle neighbours.
        self._sampler.items = chunks * -(-2 * self._workers // len(chunks))
        parts: list[tuple[int, int]] = list(self._loader)
        return sum(spent for spent, _ in parts) / sum(count for _, count in parts) / 1000


def _time(
    samples: Sequence[Sample],
    cells: Sequence[Cell],
    workers: int,
    rounds: int,
    say: Callable[[int, int, str], None],
) -> list[tuple[list[float], list[float]]]:
    times: list[tuple[list[float], list[float]]] = [([], []) for _ in cells]
    inside = _Workers(samples, cells, workers) if workers and cells else None
    total, done = (rounds + 1) * len(cells), 0
    for number in range(rounds + 1):
        turn = number % max(len(cells), 1)
        for cell_number in [*range(turn, len(cells)), *range(turn)]:
            cell = cells[cell_number]
            kind = f"round {number} of {rounds}" if number else "warming up"
            say(done, total, f"{kind}: {cell.reader}, {cell.format} {cell.request}")
            places = range(len(cell.samples))
            single = _decode_ns(cell, places, samples) / len(places) / 1000
            crowded = inside.pass_us(cell_number) if inside else None
            if number:
                times[cell_number][0].append(single)
                if crowded is not None:
                    times[cell_number][1].append(crowded)
            done += 1
    say(total, total, "done")
    return times
