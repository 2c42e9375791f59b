"""Chooses one reader for each format by a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastpipe.config import MachineConfig
from fastpipe.environment import LIBRARIES
from fastpipe.reporting.output import pluralize
from fastpipe.tools.bench.measure import Measurement, ReaderResult
from fastpipe.tools.timing import Timing, noise_us


@dataclass(frozen=True, slots=True)
class Choice:
    """The reader chosen for one format."""

    reader: str  # the reader's name
    reason: str  # why it was chosen, in words


def choose(measurement: Measurement) -> dict[str, Choice]:
    """The reader to use for each format of a measurement.

    The smallest median time for a region wins; it is measured in DataLoader workers if there were any, as that is the
    work and the load of a training. Readers that gave wrong pixels for the whole image or a region are excluded. Among
    readers that are equally fast within the noise, the core is preferred (it decodes only the region, and gains more on
    larger images), then the reader that decodes more of the files itself, then Pillow (which needs no other library).
    """
    wrong = {(result.format, result.reader) for result in measurement.results if not result.exact}
    choices = {}
    for format in measurement.images:
        timed = [
            (result, time)
            for result in measurement.of(format, "region")
            if (time := result.deciding_time) is not None and (format, result.reader) not in wrong
        ]
        if timed:
            choices[format] = _choice(timed, measurement.workers)
    return choices


def _choice(timed: list[tuple[ReaderResult, Timing]], workers: int) -> Choice:
    best = min((time for _, time in timed), key=lambda time: time.median_us)
    close = [(result, time) for result, time in timed if time.median_us - best.median_us <= noise_us(time, best)]

    def rank(one: tuple[ReaderResult, Timing]) -> tuple[bool, float, bool, float]:
        result, time = one
        return result.reader != "core", -result.decoded, result.reader != "pil", time.median_us

    chosen, time = min(close, key=rank)
    tied = [result.reader for result, _ in close if result is not chosen]
    others = {result.reader: other for result, other in timed if result is not chosen}
    if tied:
        beside = f"as fast within the spread as {', '.join(tied)}"
    elif others:
        second = min(others, key=lambda name: others[name].median_us)
        beside = f"next is {second} with {others[second].median_us:,.0f} µs"
    else:
        beside = "nothing else was measured"
    where = f"in {pluralize(workers, 'DataLoader worker')}" if workers else "in one process"
    return Choice(chosen.reader, f"{time.median_us:,.0f} µs a region {where}; {beside}")


def to_config(
    measurement: Measurement, choices: Mapping[str, Choice], earlier: MachineConfig | None = None
) -> MachineConfig:
    """Makes the machine's config from a measurement and its choices.

    Formats that weren't measured are kept from an earlier config, if that is still valid on this machine.
    """
    readers, measured = {}, {}
    if earlier is not None and not earlier.mismatches():
        readers, measured = dict(earlier.readers), dict(earlier.measured)
    for format, choice in choices.items():
        readers[format] = choice.reader
        measured[format] = {
            result.reader: round(time.median_us, 1)
            for result in measurement.of(format, "region")
            if (time := result.deciding_time) is not None
        }
    return MachineConfig(
        readers=readers,
        measured=measured,
        versions={name: version for name, version in measurement.versions.items() if name in LIBRARIES},
        machine=measurement.machine,
        created=measurement.created,
    )
