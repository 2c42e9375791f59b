"""What changed between two records, and whether the spread allows to call it a change."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fastpipe.reporting.output import rounded
from fastpipe.tools.bench.record import Record
from fastpipe.tools.timing import Timing, noise_us

Verdict = Literal["faster", "slower", "no change", "too few rounds"]

_LEAST_ROUNDS = 3
HEADINGS = {"full": "whole image", "region": "region", "half": "1/2 size"}
"""What a request is called in front of people."""

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of both records."""

    format: str  # the config's key of the format
    what: str  # the request or pipeline
    who: str  # the reader, or the pipeline's contender
    place: str  # ``"single"`` or ``"workers"``
    before: Timing  # the older time
    after: Timing  # the newer time
    verdict: Verdict  # whether the times' spread, and what the machine drifted, allow to call it a change

    @property
    def ratio(self) -> float:
        """The newer time divided by the older: below 1 is faster."""
        return self.after.median_us / self.before.median_us


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two records side by side."""

    before: Record
    after: Record
    changes: tuple[Change, ...]  # every figure that both have
    differences: tuple[str, ...]  # what differs between the runs, in words: machine, versions, images, settings
    missing: tuple[str, ...]  # what only one of them measured, in words
    # how much Pillow's own times moved where neither Pillow nor the machine changed, as a share: nothing but the
    # machine's state did that, so that changes as small are none. 0 where that can't be told.
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
        before=before,
        after=after,
        changes=tuple(Change(*key, old[key], new[key], _verdict(old[key], new[key], drift)) for key in both),
        differences=tuple(_differences(before, after)),
        missing=tuple(_missing(old, new)),
        drift=drift,
    )


def _times(record: Record) -> Iterator[tuple[_Key, Timing]]:
    figures = [(one.format, one.request, one.reader, one) for one in record.measurement.results]
    timed = [(one.format, one.pipeline, one.who, one) for one in record.pipelines]
    for format, what, who, one in (*figures, *timed):
        for place in ("single", "workers"):
            if (time := getattr(one, place)) is not None:
                yield (format, what, who, place), time


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
    def settings(record: Record) -> dict[str, Any]:
        measured = record.measurement
        images = {f"{format} images": _images(record, format) for format in measured.images}
        counts = {"DataLoader workers": measured.workers, "rounds": measured.rounds}
        versions = sorted(record.versions.items())
        return {**measured.machine, "platform": record.platform, **dict(versions), **counts, **images}

    was, now = settings(before), settings(after)
    one_sided = {name for name in was.keys() ^ now.keys() if name.endswith(" images")}
    changed = [name for name in dict.fromkeys((*was, *now)) if was.get(name) != now.get(name) and name not in one_sided]
    for name in changed:
        yield f"{name}: {was.get(name, 'not installed')} → {now.get(name, 'not installed')}"
    if any(name == "DataLoader workers" or name.endswith(" images") for name in changed):
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
        values: dict[str, Any] = rounded(asdict(change)) | {"ratio": round(change.ratio, 4)}
        for side in ("before", "after"):
            del values[side]["rounds_us"]
        return values

    return {
        "differences": list(comparison.differences),
        "missing": list(comparison.missing),
        "drift": round(comparison.drift, 4),
        "changes": [plain(change) for change in comparison.changes],
    }


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
