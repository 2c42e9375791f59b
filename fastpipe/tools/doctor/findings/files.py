"""Findings about the files and the disk."""

from __future__ import annotations

from collections.abc import Sequence

from fastpipe.tools.doctor.findings.finding import FASTER, Finding
from fastpipe.tools.doctor.values import BadFile, Disk, Memory, Reencoding, Stages
from fastpipe.tools.doctor.wording import size

__all__ = ["bad_files", "page_cache", "reencoding", "reencoding_gain"]


def page_cache(disk: Disk, memory: Memory, needed_per_s: float) -> Finding | None:
    """The files don't fit into memory, or aren't there yet, and the disk is slower than what is needed.

    Args:
        disk, memory: measured.
        needed_per_s: images a second that the training can take, or the workers can make.
    """
    if disk.cold_per_s is None or disk.cold_per_s >= needed_per_s:
        return None
    gives = f"{disk.cold_per_s:,.0f} files/s ({size(disk.cold_per_s * disk.mean_bytes)}/s)"
    if memory.available is not None and disk.all_bytes > 0.9 * memory.available:
        return Finding(
            "page-cache misses",
            "problem",
            f"The files have about {size(disk.all_bytes)}, and memory for {size(memory.available)} of them: every "
            f"epoch reads from the disk, which gives {gives} where {needed_per_s:,.0f} are needed.",
            "Put the files on a faster disk, make them smaller, or give the machine more memory.",
        )
    if disk.resident is None or disk.resident > 0.9:
        return None
    return Finding(
        "page-cache misses",
        "note",
        f"{disk.resident:.0%} of the sampled files were in memory. The disk gives {gives} where {needed_per_s:,.0f} "
        "are needed; the first epoch will wait for it, later ones won't.",
        "Read the files once before the training (cat train/*/* > /dev/null).",
    )


def reencoding(found: Reencoding, stages: Stages) -> Finding | None:
    """Progressive or oversized files whose re-encoded copies would be ready sooner.

    Args:
        found: measured.
        stages: measured; for the share of the time that isn't the files'.
    """
    whole = reencoding_gain(found, stages)
    if whole < FASTER:
        return None
    measured = f"Measured on {found.files} of them, re-encoded in memory: {found.factor:.1f}× as fast"
    if found.kind == "progressive":
        return Finding(
            "progressive JPEGs",
            "advice",
            f"{found.share:.0%} of the files are progressive JPEGs, which take several passes and all of the image. "
            f"{measured} as baseline JPEGs, {whole:.1f}× for the whole data set.",
            "Make them baseline, which loses nothing: jpegtran -copy all -optimize in.jpg > out.jpg.",
        )
    return Finding(
        "oversized files",
        "advice",
        f"{found.share:.0%} of the files are much larger than what is made of them (short side {found.typical_side} "
        f"pixels). {measured} with a short side of {found.short_side}, {whole:.1f}× for the whole data set, with "
        f"1/{found.bytes_factor:.0f} of the bytes.",
        f"Shrink a copy of them once to a short side of {found.short_side} pixels or more (JPEG, quality 90 or more). "
        "Crops of a small part lose detail: compare the accuracy.",
    )


def reencoding_gain(found: Reencoding, stages: Stages) -> float:
    """How many times as fast the whole data set would be: the rest of the work and the other files stay as slow."""
    fixed = sum(us for group, us in stages.groups().items() if group in ("read", "collate"))
    fixed /= max(stages.total_us, 1e-9)
    others = (1 - found.share) * found.others_us
    faster = (found.share * found.before_us + others) / max(found.share * found.after_us + others, 1e-9)
    return 1 / (fixed + (1 - fixed) / faster)


def bad_files(bad: Sequence[BadFile], tried: int) -> Finding | None:
    """Samples that can't be made: the training would end at the first."""
    if not bad:
        return None
    return Finding(
        "samples that can't be made",
        "problem",
        f"{len(bad)} of {tried} sampled: for example number {bad[0].index}, {bad[0].reason}",
        "Run fastpipe check to find all bad files, or choose what becomes of them with the dataset's on_error.",
    )
