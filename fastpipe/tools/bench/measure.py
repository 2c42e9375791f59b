"""How long each reader takes for each format and request, in one process and inside DataLoader workers.

A time counts only for pixels that are right: see `fastpipe.tools.bench.check`.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import TypeAlias

from fastpipe.config import library_versions, machine_fingerprint
from fastpipe.environment import usable_cpus
from fastpipe.readers import available_readers, decode, get_reader
from fastpipe.reporting.output import Move
from fastpipe.tools.bench.check import REQUESTS, Result, asked_of, check
from fastpipe.tools.bench.samples import Sample
from fastpipe.tools.timing import Timing, Workers, take_turns

_CHUNK = 4  # samples that a worker decodes for one message to the main process
_Held: TypeAlias = Mapping[str, Sequence[Sample]]


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
    held: dict[str, list[Sample]] = {}
    for sample in sorted(samples, key=lambda sample: sample.format):
        held.setdefault(sample.format, []).append(sample)
    checks = [(format, request, name) for format in held for request in REQUESTS for name in names]
    results = []
    for done, (format, request, name) in enumerate(checks):
        if progress:
            progress(done, len(checks), f"checking {name} on {format}")
        results.append(check(held[format], request, get_reader(name)))
    found = [result for result in results if result is not None]
    times = _time(held, [result for result in found if result.exact], workers, rounds, progress)
    return Measurement(
        results=tuple(
            replace(one, single=times.get((one, "single")), workers=times.get((one, "workers"))) for one in found
        ),
        images={format: len(some) for format, some in held.items()},
        bytes={format: statistics.fmean(len(sample.data) for sample in some) for format, some in held.items()},
        workers=workers,
        rounds=rounds,
        machine=machine_fingerprint(),
        versions=library_versions(),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        digests={format: _digest(some) for format, some in held.items()},
    )


def _digest(samples: Iterable[Sample]) -> str:
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(f"{len(sample.data)} {tuple(sample.box)};".encode())
        digest.update(sample.data)
    return digest.hexdigest()[:16]


def _time(
    held: _Held, results: Sequence[Result], workers: int, rounds: int, say: Move | None
) -> dict[tuple[Result, str], Timing]:
    """How long each reader takes, in this process and in workers that all decode with it at once."""
    passes = {}
    for place, count in (("single", 0), ("workers", workers))[: 2 if workers else 1]:
        inside = Workers(held, count)
        for result in results:
            images = len(held[result.format])
            starts = range(0, images, _CHUNK)
            chunks = [partial(_decode_ns, result, range(at, min(at + _CHUNK, images))) for at in starts]
            # Each worker gets at least two chunks, or some would measure beside idle neighbours.
            passes[result, place] = partial(_pass, inside, chunks * max(1, -(-2 * count // len(chunks))))
    return take_turns(passes, rounds, say, lambda key: f"{key[0].reader}, {key[0].format} {key[0].request}")


def _pass(inside: Workers, chunks: Sequence[Callable[[_Held], tuple[int, int]]], turn: int) -> float:
    spent, counts = zip(*inside.run(chunks), strict=True)
    return float(sum(spent) / sum(counts) / 1000)


def _decode_ns(result: Result, places: range, held: _Held) -> tuple[int, int]:
    """Nanoseconds that some of the samples take, and how many: what a user who named this reader waits."""
    spent = 0
    for sample in held[result.format][places.start : places.stop]:
        asked = asked_of(sample, result.request)
        start = time.perf_counter_ns()
        decode(sample.data, asked, header=sample.header, reader=result.reader)
        spent += time.perf_counter_ns() - start
    return spent, len(places)
