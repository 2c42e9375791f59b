"""What changed between two records, and whether the spread allows to call it a change."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fastpipe.bench.measure import Timing, noise_us
from fastpipe.bench.record import Record
from fastpipe.bench.report import HEADINGS, places_of, plain_table

__all__ = [
    "Change",
    "Comparison",
    "Verdict",
    "compare",
    "comparison_json",
    "notes",
    "places_of_both",
    "print_comparison",
]

Verdict = Literal["faster", "slower", "no change", "too few rounds"]

_LEAST_ROUNDS = 3
_STYLES: Mapping[str, str] = {"faster": "green", "slower": "red"}

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of both records.

    Attributes:
        format: the config's key of the format.
        what: the request or pipeline.
        who: the reader, or the pipeline's contender.
        place: ``"single"`` or ``"workers"``.
        before: the older time.
        after: the newer time.
        verdict: whether the times' spread, and what the machine drifted, allow to call it a change.
    """

    format: str
    what: str
    who: str
    place: str
    before: Timing
    after: Timing
    verdict: Verdict

    @property
    def ratio(self) -> float:
        """The newer time divided by the older: below 1 is faster."""
        return self.after.median_us / self.before.median_us


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two records side by side.

    Attributes:
        changes: every figure that both have.
        differences: what differs between the runs, in words: machine, versions, images, settings.
        missing: what only one of them measured, in words.
        drift: how much Pillow's own times moved where neither Pillow nor the machine changed, as a share: nothing
            but the machine's state did that, so that changes as small are none. 0 where that can't be told.
    """

    changes: tuple[Change, ...]
    differences: tuple[str, ...]
    missing: tuple[str, ...]
    drift: float

    def count(self, verdict: Verdict) -> int:
        """How many changes have that verdict."""
        return sum(change.verdict == verdict for change in self.changes)

    @property
    def summary(self) -> str:
        """How many figures changed, in a line."""
        kinds: tuple[Verdict, ...] = ("faster", "slower", "no change", "too few rounds")
        return ", ".join(f"{count} {kind}" for kind in kinds if (count := self.count(kind))) or "nothing in common"


def compare(before: Record, after: Record) -> Comparison:
    """Every figure of the newer record beside the older's."""
    old, new = dict(_times(before)), dict(_times(after))
    both = [key for key in new if key in old]
    drift = _drift(before, after, [(key[0], old[key], new[key]) for key in both if key[2] == "pil"])
    return Comparison(
        changes=tuple(Change(*key, old[key], new[key], _verdict(old[key], new[key], drift)) for key in both),
        differences=tuple(_differences(before, after)),
        missing=tuple(_missing(old, new)),
        drift=drift,
    )


def _times(record: Record) -> Iterator[tuple[_Key, Timing]]:
    for result in record.measurement.results:
        for place, time in (("single", result.single), ("workers", result.workers)):
            if time is not None:
                yield (result.format, result.request, result.reader, place), time
    for one in record.pipelines:
        for place, time in (("single", one.single), ("workers", one.workers)):
            if time is not None:
                yield (one.format, one.pipeline, one.who, place), time


def _drift(before: Record, after: Record, pillow: list[tuple[str, Timing, Timing]]) -> float:
    was, now = before.measurement, after.measurement
    if was.machine != now.machine or before.versions.get("pillow") != after.versions.get("pillow"):
        return 0.0
    same = {format for format, digest in now.digests.items() if digest == was.digests.get(format)}
    moved = [new.median_us / old.median_us for format, old, new in pillow if format in same]
    return abs(statistics.median(moved) - 1) if moved else 0.0


def _verdict(before: Timing, after: Timing, drift: float) -> Verdict:
    if min(len(before.rounds_us), len(after.rounds_us)) < _LEAST_ROUNDS:
        return "too few rounds"
    apart = after.median_us - before.median_us
    if abs(apart) <= noise_us(before, after) + drift * min(before.median_us, after.median_us):
        return "no change"
    return "slower" if apart > 0 else "faster"


def _differences(before: Record, after: Record) -> Iterator[str]:
    settings: list[tuple[str, Any, Any]] = [
        (key, before.measurement.machine.get(key, "unknown"), after.measurement.machine.get(key, "unknown"))
        for key in dict.fromkeys((*before.measurement.machine, *after.measurement.machine))
    ]
    settings.append(("platform", before.platform, after.platform))
    settings += [
        (name, before.versions.get(name, "not installed"), after.versions.get(name, "not installed"))
        for name in sorted({*before.versions, *after.versions})
    ]
    settings.append(("DataLoader workers", before.measurement.workers, after.measurement.workers))
    settings.append(("rounds", before.measurement.rounds, after.measurement.rounds))
    settings += [
        (f"{format} images", _images(before, format), _images(after, format))
        for format in after.measurement.images
        if format in before.measurement.images
    ]
    changed = [(name, was, now) for name, was, now in settings if was != now]
    yield from (f"{name}: {was} → {now}" for name, was, now in changed)
    if any(name == "DataLoader workers" or name.endswith(" images") for name, *_ in changed):
        yield f"measured before with: {before.command_line}"


def _images(record: Record, format: str) -> str:
    measured = record.measurement
    digest = f" ({measured.digests[format]})" if measured.digests.get(format) else ""
    return f"{measured.images[format]} of {measured.bytes[format] / 1000:.0f} kB{digest}"


def _missing(old: Mapping[_Key, Timing], new: Mapping[_Key, Timing]) -> Iterator[str]:
    for these, others, which in ((old, new, "before"), (new, old, "after")):
        shared = {(format, what, who) for format, what, who, _ in others}
        alone: dict[tuple[str, str], list[str]] = {}
        for format, what, who in dict.fromkeys((format, what, who) for format, what, who, _ in these):
            if (format, what, who) not in shared:
                alone.setdefault((format, who), []).append(HEADINGS.get(what, what))
        for (format, who), whats in alone.items():
            yield f"measured only {which}: {who}, {format}: {'; '.join(whats)}"


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain values; times in microseconds an image, without the rounds."""

    def plain(change: Change) -> dict[str, Any]:
        values = asdict(change) | {"ratio": round(change.ratio, 4)}
        for side in ("before", "after"):
            timing = values[side]
            values[side] = {key: round(timing[key], 3) for key in ("median_us", "spread_us")}
        return values

    return {
        "differences": list(comparison.differences),
        "missing": list(comparison.missing),
        "drift": round(comparison.drift, 4),
        "changes": [plain(change) for change in comparison.changes],
    }


def print_comparison(console: Console, comparison: Comparison, before: Record, after: Record) -> None:
    """Prints what differs between the runs, a table for each format, and how to read it."""
    console.print(f"before: {before.measurement.created}, {before.machine}", markup=False)
    console.print(f"after:  {after.measurement.created}, {after.machine}", markup=False)
    for line in comparison.differences or ("machine, versions, images and settings are the same",):
        console.print(f"  {line}", markup=False)
    for format in dict.fromkeys(change.format for change in comparison.changes):
        console.print()
        console.print(_comparison_table(comparison, format, places_of_both(before, after)))
    console.print(f"\n{comparison.summary}", markup=False)
    for line in (*comparison.missing, *notes(comparison)):
        console.print(line, markup=False)


def notes(comparison: Comparison) -> list[str]:
    """How the verdicts were come by, in words."""
    lines = ["A change is more than both spreads together, and more than 3%."]
    if comparison.drift:
        lines.append(
            f"Pillow, the same in both runs, moved by {comparison.drift:.1%}: so much is the machine's, and no change."
        )
    if comparison.count("too few rounds"):
        lines.append(f"With fewer than {_LEAST_ROUNDS} rounds there is no spread to judge by: give --rounds 7.")
    return lines


def places_of_both(before: Record, after: Record) -> dict[str, str]:
    """Where times were taken, in front of people: as `fastpipe.bench.report.places_of`, for two records."""
    was, now = before.measurement.workers, after.measurement.workers
    places = places_of(after.measurement)
    return places if was == now else {**places, "workers": f"in workers ({was} → {now})"}


def _comparison_table(comparison: Comparison, format: str, places: Mapping[str, str]) -> Table:
    table = plain_table(f"{format}: µs an image (median ± spread)")
    for heading in ("", "", ""):
        table.add_column(heading, no_wrap=True)
    for heading in ("before", "after", "after/before"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    shown: tuple[str, str] | None = None
    for change in comparison.changes:
        if change.format != format:
            continue
        new_what, new_who = shown is None or shown[0] != change.what, shown != (change.what, change.who)
        if new_what:
            table.add_section()
        table.add_row(
            escape(HEADINGS.get(change.what, change.what)) if new_what else "",
            escape(change.who) if new_who else "",
            places[change.place],
            *(f"{time.median_us:,.0f} ± {time.spread_us:,.0f}" for time in (change.before, change.after)),
            f"{change.ratio:.2f}",
            change.verdict,
            style=_STYLES.get(change.verdict),
        )
        shown = (change.what, change.who)
    return table
