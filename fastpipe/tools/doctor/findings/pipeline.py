"""Findings about the dataset, its transform and its readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastpipe.bench.measure import Timing
from fastpipe.tools.doctor.findings.finding import Finding, sentences
from fastpipe.tools.doctor.values import Memory, ObjectList, Stages
from fastpipe.tools.doctor.wording import in_words, size

__all__ = [
    "broken_plan",
    "missing_reader",
    "object_copies",
    "own_loader",
    "slow_reader",
    "slow_transform",
    "stale_config",
]


def broken_plan(transform: str, reason: str, advice: Sequence[str], behind: Sequence[str], stages: Stages) -> Finding:
    """A transform ends the plan: what follows it runs one by one on images of its own.

    Args:
        transform: it, in a line.
        reason: why it can't be planned.
        advice: what mends it, the best first.
        behind: fastpipe's own transforms that follow it and would be planned.
        stages: measured.
    """
    own = sum(part.us for part in stages.of("own code"))
    share = own / max(stages.total_us, 1e-9)
    lost = f" {', '.join(behind)} behind it could be planned." if behind else " Nothing behind it is lost."
    return Finding(
        "a transform that breaks the plan",
        "advice" if behind or share > 0.1 else "note",
        f"{transform} ends what is planned ahead: {reason}.{lost} Code that isn't fastpipe's takes {own:,.0f} µs an "
        f"image, {share:.0%} of the time.",
        sentences(advice),
    )


def own_loader(kind: str, stages: Stages) -> Finding:
    """Whole images are decoded, as no plan says which part is needed.

    Args:
        kind: ``"loader"`` for a fastpipe dataset with a loader of the user's own, else the dataset's class.
        stages: measured.
    """
    share = (stages.groups().get("decode", 0.0) + stages.groups().get("own code", 0.0)) / max(stages.total_us, 1e-9)
    what = "The dataset has a loader of its own" if kind == "loader" else f"{kind} isn't a dataset of fastpipe's"
    cure = (
        "Leave loader= out"
        if kind == "loader"
        else "Use fastpipe.ImageFolder or fastpipe.ImageList, with fastpipe.transforms"
    )
    return Finding(
        "images are decoded whole",
        "advice",
        f"{what}: each image is decoded whole before the transforms see it. That takes {share:.0%} of the time.",
        f"{cure}: then only what the crop needs is decoded, with the same pixels.",
    )


def slow_transform(stages: Stages) -> Finding | None:
    """One transform takes more of the time than anything else."""
    slow = [part for group in ("other kernels", "own code") for part in stages.of(group) if part.name != "your dataset"]
    longest = max(slow, key=lambda part: part.us, default=None)
    if longest is None or longest.us < 0.3 * stages.total_us:
        return None
    return Finding(
        "one transform takes much of the time",
        "advice",
        f"{longest.name} takes {longest.us:,.0f} µs an image, {longest.us / stages.total_us:.0%} of the time.",
        "Look whether it is needed for every image, can run on a smaller one (behind the crop and resize), or on the "
        "GPU for a whole batch.",
    )


def slow_reader(format: str, used: str, times: Mapping[str, Timing]) -> Finding | None:
    """Another reader that loads here is faster.

    Args:
        format: the config's key of the files' format.
        used: the reader that decodes them.
        times: of a region, by reader that loads here; each gives the right pixels.
    """
    best = min(times, key=lambda name: times[name].median_us, default=used)
    now, then = times.get(used), times.get(best)
    if not now or not then:
        return None
    if now.median_us - then.median_us <= max(0.1 * now.median_us, now.spread_us + then.spread_us):
        return None
    return Finding(
        "a slower reader is in use",
        "advice",
        f"{used} takes {now.median_us:,.0f} µs for a region of a {format} file, {best} {then.median_us:,.0f} µs.",
        f"Run fastpipe configure, or fastpipe configure --set {format}={best}.",
    )


def missing_reader(format: str, used: str, name: str, why: str) -> Finding:
    """The reader that is usually the fastest doesn't load here.

    Args:
        format: the config's key of the files' format.
        used: the reader that decodes them, which knows no regions.
        name: the missing one.
        why: it doesn't load, and what to do.
    """
    return Finding(
        "a faster reader is missing",
        "advice",
        f"{name} decodes only the rows and columns that a crop needs, and doesn't load here; {used} decodes whole "
        f"{format} files.",
        f"{why}.",
    )


def stale_config(file: str, mismatches: Sequence[str]) -> Finding | None:
    """The machine's config was measured elsewhere or with other versions, so it isn't used.

    Args:
        file: the config file.
        mismatches: what differs, a phrase each.
    """
    if not mismatches:
        return None
    return Finding(
        "the machine config is stale",
        "advice",
        f"{file} isn't used, because it was not measured here: {'; '.join(mismatches)}.",
        "Run fastpipe configure to measure this machine, or fastpipe configure --reset.",
    )


def object_copies(lists: Sequence[ObjectList], workers: int, memory: Memory) -> Finding | None:
    """Large containers of Python objects, of which every worker gets a copy in time."""
    total = sum(one.bytes for one in lists)
    if not lists or total * max(1, workers) < 256 << 20:
        return None
    names = ", ".join(f"{one.name} ({one.length:,} items, {size(one.bytes)})" for one in lists[:3])
    everything = total * max(1, workers)
    short = memory.available is not None and everything > 0.25 * memory.available
    return Finding(
        "Python objects are copied into every worker",
        "problem" if short else "advice",
        f"{names}: looking at an object changes its reference count, so each worker ends up with a copy of its own, "
        f"{size(everything)} for {in_words(workers, 'worker')}.",
        "Keep them in numpy arrays (fixed-width numbers or bytes), or use fastpipe.ImageFolder or ImageList, whose "
        "lists are memory-mapped arrays.",
    )
