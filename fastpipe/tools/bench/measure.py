"""How long each reader takes for each format and request, in one process and inside DataLoader workers.

A time counts only for pixels that are right: see `fastpipe.tools.bench.check`.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import TypeAlias

from fastpipe.config import library_versions, machine_fingerprint
from fastpipe.environment import usable_cpus
from fastpipe.readers import available_readers, decode, get_reader
from fastpipe.reporting.output import Move
from fastpipe.tools.bench.check import REQUESTS, Cell, asked_of, check
from fastpipe.tools.bench.samples import Sample
from fastpipe.tools.timing import Timing, Workers, take_turns

_CHUNK = 4  # samples that a worker decodes for one message to the main process
_Held: TypeAlias = "tuple[Sequence[Sample], Sequence[Cell]]"


@dataclass(frozen=True, slots=True)
class Result:
    """What one reader did with one format and request."""

    reader: str  # its name
    format: str  # the config's key of the format
    request: str  # one of `REQUESTS`
    exact: bool  # its pixels were right, so that it was measured; else `note` says what was wrong
    served: float  # the share of samples that it decoded itself, 0 to 1; Pillow did the rest
    note: str = ""  # why it wasn't measured or didn't serve all, empty where there's nothing to say
    single: Timing | None = None  # in one process; None where it wasn't measured
    workers: Timing | None = None  # inside DataLoader workers; None where it wasn't measured


@dataclass(frozen=True, slots=True)
class Measurement:
    """All results of one run, and what they were taken on and with."""

    results: tuple[Result, ...]  # by format, request and reader
    images: Mapping[str, int]  # format to the number of samples
    bytes: Mapping[str, float]  # format to their mean size, in bytes
    workers: int  # DataLoader workers; 0 where only one process was measured
    rounds: int  # timed rounds
    machine: Mapping[str, str | int]  # as `fastpipe.config.machine_fingerprint` gives it
    versions: Mapping[str, str]  # as `fastpipe.config.library_versions` gives it
    created: str  # when, ISO 8601
    # format to a digest of the samples' bytes and regions: equal ones were measured on the same images
    digests: Mapping[str, str] = field(default_factory=dict)

    def of(self, format: str, request: str) -> list[Result]:
        """The results for one format and request."""
        return [result for result in self.results if (result.format, result.request) == (format, request)]


def default_workers() -> int:
    """As many DataLoader workers as this process may use CPUs, at most 16."""
    return min(usable_cpus(), 16)


def measure(
    samples: Sequence[Sample],
    readers: Sequence[str] | None = None,
    *,
    workers: int | None = None,
    rounds: int = 7,
    progress: Move | None = None,
) -> Measurement:
    """Checks, then times every reader on every format and request of the samples.

    In each round every reader gets one pass over the samples, in turn and each round in another order, in this
    process and then in the workers: a machine that grows slower meanwhile does so for all alike. One more round,
    untimed, comes first.

    Args:
        samples: from `fastpipe.tools.bench.samples`.
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
    times = _time(samples, [cell for cell in cells if cell.exact], workers, rounds, say)
    results = [
        Result(
            *(cell.reader, cell.format, cell.request, cell.exact, cell.served, cell.note),
            *(times.get((cell, place)) for place in ("single", "workers")),
        )
        for cell in cells
    ]
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


def _time(
    samples: Sequence[Sample], cells: Sequence[Cell], workers: int, rounds: int, say: Move
) -> dict[tuple[Cell, str], Timing]:
    """The time of each cell, in this process and in workers that all decode with its reader at once."""
    held = samples, cells
    passes: dict[tuple[Cell, str], Callable[[int], float]] = {}
    inside = Workers(held, workers) if workers and cells else None
    for number, cell in enumerate(cells):
        passes[cell, "single"] = partial(_alone, number, held)
        if inside:
            images = len(cell.samples)
            chunks = [
                partial(_decode_ns, number, range(first, min(first + _CHUNK, images)))
                for first in range(0, images, _CHUNK)
            ]
            # Each worker gets at least two chunks, or some would measure beside idle neighbours.
            passes[cell, "workers"] = partial(_crowded, inside, chunks * -(-2 * workers // len(chunks)))
    total, done = (rounds + 1) * len(passes), iter(range((rounds + 1) * len(passes)))

    def moved(number: int, key: tuple[Cell, str]) -> None:
        kind = f"round {number} of {rounds}" if number else "warming up"
        say(next(done), total, f"{kind}: {key[0].reader}, {key[0].format} {key[0].request}")

    times = take_turns(passes, rounds, moved)
    say(total, total, "done")
    return times


def _alone(number: int, held: _Held, turn: int) -> float:
    spent, images = _decode_ns(number, range(len(held[1][number].samples)), held)
    return spent / images / 1000


def _crowded(inside: Workers, chunks: Sequence[Callable[[_Held], tuple[int, int]]], turn: int) -> float:
    parts = list(inside.run(chunks))
    return float(sum(spent for spent, _ in parts) / sum(count for _, count in parts) / 1000)


def _decode_ns(number: int, places: range, held: _Held) -> tuple[int, int]:
    """Nanoseconds that some of a cell's samples take, and how many: what a user who named this reader waits."""
    samples, cell = held[0], held[1][number]
    spent = 0
    for place in places:
        sample = samples[cell.samples[place]]
        asked = asked_of(sample, cell.request)
        start = time.perf_counter_ns()
        decode(sample.data, asked, header=sample.header, reader=cell.reader)
        spent += time.perf_counter_ns() - start
    return spent, len(places)
