"""Measures the time of each reader for each format and request, in one process and in DataLoader workers.

Only readers whose pixels equal Pillow's bit for bit are timed. Pillow decodes the samples that a reader doesn't
support, or fails to decode, in the measurement as in training: that time is part of the reader's figure, and the share
of samples that the reader decoded itself is reported beside it.
"""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fastpipe.counts import pluralize
from fastpipe.environment import library_versions, machine_fingerprint, usable_cpus, versions
from fastpipe.errors import ReaderError
from fastpipe.foreign_code import outcome_of
from fastpipe.progress_bar import ProgressCallback, no_progress
from fastpipe.readers import Reader, decode, get_reader, proved
from fastpipe.readers.core import CoreReader
from fastpipe.tools.bench.samples import Sample
from fastpipe.tools.timing import Timing, Workers, take_turns
from fastpipe.types import Box

REQUESTS: Mapping[str, str] = MappingProxyType({"full": "whole image", "region": "region"})
"""The requests to a reader, with their headings: the whole image, or a box drawn by ``RandomResizedCrop``."""

_CHUNK = 4  # samples that a worker decodes for each message to the main process
_Held: TypeAlias = Mapping[str, Sequence[Sample]]


@dataclass(frozen=True, slots=True)
class ReaderResult:
    """One reader's result with one format and request."""

    reader: str  # the reader's name
    format: str  # the format's key in the config
    request: str  # one of `REQUESTS`
    exact: bool  # whether its pixels were right, so that it was timed; else `note` says what was wrong
    decoded: float  # the share of samples that it decoded itself, 0 to 1; Pillow did the rest
    note: str = ""  # why it wasn't timed or didn't decode all samples; else empty
    single: Timing | None = None  # in one process; None if not measured
    workers: Timing | None = None  # in DataLoader workers; None if not measured

    @property
    def deciding_time(self) -> Timing | None:
        """The time by which readers are compared: in DataLoader workers if measured, else in one process."""
        return self.workers or self.single


@dataclass(frozen=True, slots=True)
class SampleSummary:
    """The samples of one format."""

    count: int
    mean_bytes: float  # mean size of a file


@dataclass(frozen=True, slots=True)
class Measurement:
    """The results of one run, with the machine and the versions."""

    results: tuple[ReaderResult, ...]  # by format, request and reader
    images: Mapping[str, SampleSummary]  # by format
    workers: int  # DataLoader workers; 0 if only one process was measured
    rounds: int  # timed rounds
    machine: Mapping[str, str | int]  # as from `fastpipe.environment.machine_fingerprint`
    versions: Mapping[str, str]  # versions of the decoding libraries, Python and torch
    created: str  # the time of the run, ISO 8601

    def of(self, format: str, request: str) -> list[ReaderResult]:
        """The results for one format and request."""
        return [result for result in self.results if (result.format, result.request) == (format, request)]

    def by_reader(self, format: str) -> dict[str, dict[str, ReaderResult]]:
        """The results for one format, by reader and request."""
        results: dict[str, dict[str, ReaderResult]] = {}
        for result in self.results:
            if result.format == format:
                results.setdefault(result.reader, {})[result.request] = result
        return results


def default_workers() -> int:
    """One DataLoader worker for each CPU that this process may use, at most 16."""
    return min(usable_cpus(), 16)


def measure(
    samples: Sequence[Sample],
    readers: Sequence[str],
    *,
    workers: int,
    rounds: int,
    progress: ProgressCallback = no_progress,
) -> Measurement:
    """Checks and then times every reader on every format and request.

    In each round of `take_turns`, every reader makes one pass over the samples in this process and then one in the
    workers.

    Args:
        samples: from `fastpipe.tools.bench.samples`.
        readers: names of readers.
        workers: DataLoader workers; 0 for none.
        rounds: timed rounds.
    """
    found = [get_reader(name) for name in dict.fromkeys(readers)]
    by_format = attrgetter("format")
    held = {format: list(some) for format, some in groupby(sorted(samples, key=by_format), by_format)}
    checks = [(format, request, reader) for format in held for request in REQUESTS for reader in found]
    results = []
    for done, (format, request, reader) in enumerate(checks):
        progress(done, len(checks), f"checking {reader.name} on {format}")
        if (result := check_reader(held[format], request, reader)) is not None:
            results.append(result)
    times = _time(held, [result for result in results if result.exact], workers, rounds, progress)
    return Measurement(
        results=tuple(
            replace(result, single=times.get((result, "single")), workers=times.get((result, "workers")))
            for result in results
        ),
        images={format: _summary(some) for format, some in held.items()},
        workers=workers,
        rounds=rounds,
        machine=dict(machine_fingerprint()),
        versions={**library_versions(), **versions("torch")},
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def box_asked_for(sample: Sample, request: str) -> Box | None:
    """The sample's box for a request of `REQUESTS`; None for the whole image."""
    return sample.box if request == "region" else None


def _fault_in(reader: Reader, sample: Sample, box: Box | None) -> str | None:
    return _fault(_pixels(reader, sample, box), box, sample)


def check_reader(samples: Sequence[Sample], request: str, reader: Reader) -> ReaderResult | None:
    """Checks the reader's pixels on samples of one format; None if it decodes none of them."""
    decoded, refused, wrong = 0, [], []
    for sample in samples:
        if reader.name != "pil" and not (reader.accepts(sample.header) and proved(reader, sample.data, sample.header)):
            continue
        box = box_asked_for(sample, request)
        fault = outcome_of(partial(_fault_in, reader, sample, box))
        if isinstance(fault, (ReaderError, *reader.refusals)):
            refused.append(f"{sample.name}: {fault}")
            continue
        if isinstance(fault, Exception):
            fault = f"{type(fault).__name__}: {fault}"
        decoded += 1
        if fault:
            wrong.append(f"{sample.name}: {fault}")
    if not decoded:
        return None
    note = ""
    if wrong:
        note = f"not Pillow's pixels in {len(wrong)} of {pluralize(len(samples), 'image')}, first {wrong[0]}"
    elif refused:
        note = f"refused {len(refused)} of {pluralize(len(samples), 'image')}, first {refused[0]}"
    return ReaderResult(reader.name, samples[0].format, request, not wrong, decoded / len(samples), note)


def _pixels(reader: Reader, sample: Sample, box: Box | None) -> NDArray[np.uint8]:
    """Decodes a sample with the reader itself, without Pillow as a fallback."""
    if box is not None and isinstance(reader, CoreReader):
        return reader.decode_region(sample.data, box)
    return _cut(reader.decode(sample.data), box)


def _cut(pixels: NDArray[np.uint8], box: Box | None) -> NDArray[np.uint8]:
    return pixels if box is None else pixels[box.top : box.bottom, box.left : box.right]


def _fault(pixels: NDArray[np.uint8], box: Box | None, sample: Sample) -> str:
    """Describes how a reader's pixels differ from Pillow's; empty if they don't."""
    with Image.open(io.BytesIO(sample.data)) as image:
        reference = _cut(np.asarray(image.convert("RGB")), box)
    if pixels.shape != reference.shape or pixels.dtype != np.uint8:
        return f"{pixels.shape} {pixels.dtype} in place of {reference.shape} uint8"
    distance = np.abs(pixels.astype(np.int16) - reference).max()
    return f"by up to {distance}/255" if distance else ""


def _summary(samples: Sequence[Sample]) -> SampleSummary:
    return SampleSummary(len(samples), round(statistics.fmean(len(sample.data) for sample in samples), 1))


def _time(
    held: _Held, results: Sequence[ReaderResult], workers: int, rounds: int, progress: ProgressCallback
) -> dict[tuple[ReaderResult, str], Timing]:
    """Times each reader, in this process and in workers that all decode at once."""
    passes = {}
    places = {"single": 0, "workers": workers} if workers else {"single": 0}
    for place, count in places.items():
        inside = Workers(held, count)
        for result in results:
            images = len(held[result.format])
            starts = range(0, images, _CHUNK)
            chunks = [partial(_decode_ns, result, range(at, min(at + _CHUNK, images))) for at in starts]
            # At least two chunks for each worker, so that no worker is idle while others measure.
            passes[result, place] = partial(_pass, inside, chunks * max(1, -(-2 * count // len(chunks))))
    return take_turns(passes, rounds, progress, lambda key: f"{key[0].reader}, {key[0].format} {key[0].request}")


def _pass(inside: Workers, chunks: Sequence[Callable[[_Held], tuple[int, int]]], turn: int) -> float:
    spent, counts = zip(*inside.run(chunks), strict=True)
    return float(sum(spent) / sum(counts) / 1000)


def _decode_ns(result: ReaderResult, places: range, held: _Held) -> tuple[int, int]:
    """Times some of the samples with the reader, Pillow as its fallback; returns nanoseconds and number of samples."""
    spent = 0
    for sample in held[result.format][places.start : places.stop]:
        asked = box_asked_for(sample, result.request)
        start = time.perf_counter_ns()
        decode(sample.data, asked, header=sample.header, reader=result.reader)
        spent += time.perf_counter_ns() - start
    return spent, len(places)
