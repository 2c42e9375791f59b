"""Findings: pure functions of measured values that say what is wrong and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fastpipe.environment import Memory
from fastpipe.interop.graph_breaks import GraphBreak
from fastpipe.loading.tuning import SAME
from fastpipe.reporting.output import format_bytes, pluralize
from fastpipe.tools.doctor.measurements import (
    Disk,
    FailedSample,
    ObjectList,
    Reencoding,
    Scaling,
    StageProfile,
    WorkerThreads,
)

Severity = Literal["problem", "advice", "note"]
"""problem: training is slower than needed or may fail; advice: it could be faster or use less; note: good to know."""

FASTER = 1.1
"""The smallest speed-up that is reported."""

WORTH_PACKING = 1.2
"""The smallest speed-up for which packing is advised, which needs a run over all files and more disk space."""

SLOW = 0.3
"""The share of the time from which transforms that run image by image are reported."""
_SLOW = "look whether all of them are needed for every image, or can run on a smaller one, after the crop and resize"
_ALBUMENTATIONS = (
    "take crop, flip, ToTensor and Normalize of fastpipe.transforms, with its Albumentations(…) around the rest: "
    "whole batches are made in the core (with other pixels, as these filter where they shrink)"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause of lost speed or memory, or of a possible failure.

    Attributes:
        name: the kind of finding, such as ``"too few workers"``.
        severity: ``"problem"``, ``"advice"`` or ``"note"``.
        what: the measurement, and what it means.
        remedy: what to do; may be empty.
    """

    name: str
    severity: Severity
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.name}. {self.what} {self.remedy}".rstrip()


def sentences(parts: Sequence[str]) -> str:
    """Joins parts as sentences: capitalised, with a full stop."""
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts)


def page_cache(disk: Disk, memory: Memory, needed_per_s: float) -> Finding | None:
    """Finding: the files don't fit into memory, or aren't in it yet, and the disk is slower than needed."""
    if disk.cold_per_s is None or disk.cold_per_s >= needed_per_s:
        return None
    gives = f"{disk.cold_per_s:,.0f} files/s ({format_bytes(disk.cold_per_s * disk.mean_bytes)}/s)"
    if memory.available is not None and disk.all_bytes > 0.9 * memory.available:
        return Finding(
            "page-cache misses",
            "problem",
            f"The files have about {format_bytes(disk.all_bytes)}, and memory for {format_bytes(memory.available)} of "
            f"them: every epoch reads from the disk, which gives {gives} where {needed_per_s:,.0f} are needed.",
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


def reencoding(found: Reencoding, stages: StageProfile) -> Finding | None:
    """Finding: oversized files would be faster as smaller copies, or JPEGs as packed copies."""
    whole = reencoding_gain(found, stages)
    if whole < (WORTH_PACKING if found.kind == "packed" else FASTER):
        return None
    if found.kind == "packed":
        return Finding(
            "JPEGs that could be packed",
            "advice",
            f"{found.share:.0%} of the files are JPEGs, whose codes are slow to read. Measured on {found.files} of "
            f"them, packed in memory: {found.factor:.1f}× as fast, {whole:.1f}× for the whole dataset, with "
            f"{1 / found.bytes_factor:.2f}× the bytes and the same pixels.",
            "Pack them once, and train from the copy: fastpipe pack SOURCE TARGET. fastpipe unpack makes JPEGs again.",
        )
    return Finding(
        "oversized files",
        "advice",
        f"{found.share:.0%} of the files are much larger than what is made of them (short side {found.typical_side} "
        f"pixels). Measured on {found.files} of them, with a short side of {found.short_side}: {found.factor:.1f}× as "
        f"fast, {whole:.1f}× for the whole dataset, with 1/{found.bytes_factor:.0f} of the bytes.",
        f"Make a smaller copy once: fastpipe pack SOURCE TARGET --short-side {found.short_side}, which also packs its "
        "JPEGs. Crops of a small part lose detail: compare the accuracy.",
    )


def reencoding_gain(found: Reencoding, stages: StageProfile) -> float:
    """The speed-up of the whole dataset, as other work and other files don't become faster."""
    fixed = stages.share("read") + stages.share("collate")
    others = (1 - found.share) * found.others_us
    faster = (found.share * found.before_us + others) / max(found.share * found.after_us + others, 1e-9)
    return 1 / (fixed + (1 - fixed) / faster)


def bad_files(bad: Sequence[FailedSample], tried: int) -> Finding | None:
    """Finding: samples can't be made, and the training would end at the first of them."""
    if not bad:
        return None
    return Finding(
        "samples that can't be made",
        "problem",
        f"{len(bad)} of {tried} sampled: for example number {bad[0].index}, {bad[0].reason}",
        f"Fix the code at {bad[0].line}."
        if bad[0].line
        else "Run fastpipe check to find all bad files, or choose what becomes of them with the dataset's on_error.",
    )


def broken_plan(broken: GraphBreak, stages: StageProfile, library: str = "") -> Finding:
    """Finding: an unknown transform is called with each image, outside the plan."""
    own, share = stages.us.get("python", 0.0), stages.share("python")
    cure = _ALBUMENTATIONS if library == "albumentations" else _SLOW
    return Finding(
        "a transform that isn't planned",
        "advice" if share > SLOW else "note",
        f"{broken.transform} is called with each image: {broken.reason}. Unplanned transforms take {own:,.0f} µs an "
        f"image, {share:.0%} of the time.",
        sentences([cure]) if share > SLOW else "",
    )


def slow_albumentations(transform: str, stages: StageProfile) -> Finding | None:
    """Finding: a pipeline's transform of albumentations takes much of the time; `transform` is empty without one."""
    share = stages.share("python")
    if not transform or share <= SLOW:
        return None
    return Finding(
        "a slow transform of albumentations",
        "advice",
        f"Work outside the core, most of it {transform}, takes {stages.us['python']:,.0f} µs an image, "
        f"{share:.0%} of the time.",
        "Lower the p of its operations, use cheaper operations, or call it on a smaller image, after the "
        "crop and resize.",
    )


def decoded_whole(broken: GraphBreak) -> Finding:
    """Finding: the dataset's own code decodes whole images, or makes samples one by one."""
    return Finding(
        "images are decoded whole",
        "advice",
        f"{broken.transform} makes each image whole before the transforms see it.",
        sentences([broken.reason]),
    )


def missing_core(why: str) -> Finding | None:
    """Finding: the core, usually the fastest reader, isn't available; `why` is empty if it is."""
    if not why:
        return None
    return Finding(
        "a faster reader is missing",
        "advice",
        "fastpipe's core, the fastest reader of JPEGs and PNGs, doesn't load here; others read them instead.",
        f"{why}.",
    )


def stale_config(file: str, mismatches: Sequence[str]) -> Finding | None:
    """Finding: the machine's config isn't used, as it was measured elsewhere or with other versions."""
    if not mismatches:
        return None
    return Finding(
        "the machine config is stale",
        "advice",
        f"{file} isn't used, because it was not measured here: {'; '.join(mismatches)}.",
        "Run fastpipe configure to measure this machine, or fastpipe configure --reset.",
    )


def object_copies(lists: Sequence[ObjectList], workers: int, memory: Memory) -> Finding | None:
    """Finding: the dataset has large containers of Python objects, which are gradually copied into every worker."""
    total = sum(one.bytes for one in lists)
    if not lists or total * max(1, workers) < 256 << 20:
        return None
    names = ", ".join(f"{one.name} ({one.length:,} items, {format_bytes(one.bytes)})" for one in lists[:3])
    everything = total * max(1, workers)
    short = memory.available is not None and everything > 0.25 * memory.available
    return Finding(
        "Python objects are copied into every worker",
        "problem" if short else "advice",
        f"{names}: looking at an object changes its reference count, so each worker ends up with a copy of its own, "
        f"{format_bytes(everything)} for {pluralize(workers, 'worker')}.",
        "Keep them in numpy arrays (fixed-width numbers or bytes), or use fastpipe.ImageFolder or ImageList, whose "
        "lists are memory-mapped arrays.",
    )


def other_workers(scaling: Scaling, workers: int | None, gpu_rate: float | None, instead: str = "") -> Finding | None:
    """Finding: more workers would deliver more that the GPU could use, or fewer workers would deliver as much.

    `instead` is a phrase for another setting that delivers as much, such as threads.
    """
    if workers is None:
        return None
    # Without workers, the main process does the work, about as fast as one worker.
    now, chosen = scaling.rate(max(1, workers)), scaling.recommended(gpu_rate)
    good, rate = chosen.num_workers, chosen.images_per_s
    if now is None:
        return None
    is_enough = gpu_rate is not None and now >= gpu_rate * (1 - SAME)
    if good > workers and rate >= now * FASTER and not is_enough:
        waits = "" if gpu_rate is None else f" of the {gpu_rate:,.0f} that the GPU takes"
        return Finding(
            "too few workers",
            "advice" if gpu_rate is None else "problem",
            f"num_workers={workers} delivers {now:,.0f} images/s{waits}; num_workers={good} delivers {rate:,.0f}.",
            f"Set num_workers={good}{instead}.",
        )
    if workers < 2 or good >= workers * 0.8:
        return None
    takes = "" if gpu_rate is None else f", and the GPU takes {gpu_rate:,.0f}"
    crowded = f" The {scaling.cpus} CPUs have no more to give." if workers > scaling.cpus else ""
    return Finding(
        "too many workers",
        "advice",
        f"num_workers={workers} delivers {now:,.0f} images/s, num_workers={good} {rate:,.0f}{takes}.{crowded}",
        f"Set num_workers={good}{instead}: less memory, and a quicker start of each epoch.",
    )


def untried_workers(scaling: Scaling, seconds: float) -> Finding | None:
    """Finding: the training's number of workers wasn't measured, as that would take longer than `seconds`."""
    if scaling.untried is None:
        return None
    workers, needed = scaling.untried
    best = scaling.recommended()
    return Finding(
        "workers that weren't measured",
        "advice",
        f"Starting {pluralize(workers, 'worker')} on {pluralize(scaling.cpus, 'CPU')} takes about {needed:,.0f} s, and "
        f"doctor has {seconds:g} s. num_workers={best.num_workers} delivers {best.images_per_s:,.0f} images/s.",
        f"Set num_workers={best.num_workers}, or measure longer: --seconds {math.ceil(2 * needed)}.",
    )


def slow_machine(scaling: Scaling, gpu_rate: float | None, gains: Mapping[str, float], has_gpu: bool) -> Finding | None:
    """Finding: no number of workers delivers the GPU's rate; the GPU may be in another machine."""
    best = scaling.recommended()
    if gpu_rate is None or best.images_per_s >= gpu_rate * (1 - SAME):
        return None
    idle = 1 - best.images_per_s / gpu_rate
    helps = [f"{name} ({factor:.1f}× as fast)" for name, factor in sorted(gains.items(), key=lambda one: -one[1])]
    helps += ["fewer or cheaper transforms"]
    helps += ['the normalisation on the GPU (fastpipe.DataLoader(device="cuda"))'] * has_gpu
    helps += ["more CPUs"]
    return Finding(
        "the CPUs can't feed the GPU",
        "problem",
        f"On {pluralize(scaling.cpus, 'CPU')} {pluralize(best.num_workers, 'worker')} can deliver "
        f"{best.images_per_s:,.0f} of the "
        f"{gpu_rate:,.0f} images/s that the GPU takes, whatever their number: it will idle {idle:.0%} of the time.",
        f"What helps: {'; '.join(helps)}.",
    )


def shared_memory(
    stages: StageProfile, batch_size: int, workers: int, prefetch: int, memory: Memory, has_gpu: bool
) -> Finding | None:
    """Finding: batches in flight need more shared memory than is free, so that workers may die of a bus error."""
    need = shared_bytes(stages, batch_size, workers, prefetch)
    free = memory.shared_free
    if free is None or need <= free * 0.9:
        return None
    fits = int(free * 0.9 / max(1, stages.image_bytes * (workers * prefetch + 1)))
    uint8 = ', or send uint8 (fastpipe.DataLoader(device="cuda")), a quarter of the bytes' if has_gpu else ""
    wanted = need * 5 // 4
    if memory.available is not None and wanted > memory.available:  # shared memory is memory, too
        cure = f"The machine has no such memory ({format_bytes(memory.available)} are available): "
        cure += f"set a batch size of {fits} at most" if fits >= 1 else "set fewer workers and smaller batches"
    else:
        cure = f"Give the container more (docker run --shm-size={-(-wanted // (1 << 30))}g, or --ipc=host)"
        uint8 += f", or a batch size of {fits} at most" if fits >= 1 else ""
    return Finding(
        "too little shared memory",
        "problem",
        f"{pluralize(workers, 'worker')} with prefetch_factor={prefetch} may hold {format_bytes(need)} of batches in "
        f"shared memory; {format_bytes(free)} are free. Where it runs out, workers end in a bus error, or in one of "
        "memory that can't be allocated.",
        f"{cure}{uint8}.",
    )


def shared_bytes(stages: StageProfile, batch_size: int, workers: int, prefetch: int) -> int:
    """The most bytes of batches in shared memory at once: the prefetched ones, and the one in use."""
    return stages.image_bytes * batch_size * (workers * prefetch + 1) if workers else 0


def oversubscription(threads: WorkerThreads, workers: int, cpus: int) -> Finding | None:
    """Finding: workers use several threads each, and compete for the CPUs."""
    busy = threads.most * workers
    if threads.most < 2 or busy <= cpus:
        return None
    who = []
    if threads.used and threads.cv2 > 1:
        who.append(f"OpenCV uses {threads.cv2} threads")
    if threads.used and threads.torch > 1:
        who.append(f"torch uses {threads.torch} threads")
    if threads.decoding > 1:
        who.append(f"{threads.decoding} threads decode")
    cures = []
    if threads.used and threads.cv2 > 1:
        cures.append("call cv2.setNumThreads(0) in worker_init_fn, or use fastpipe.DataLoader, which does")
    if threads.used and threads.torch > 1:
        cures.append("don't call torch.set_num_threads in a worker: torch's loader sets one thread")
    if threads.decoding > 1:
        cures.append(f"set threads={max(0, cpus // workers) if cpus // workers > 1 else 0}")
    return Finding(
        "too many threads",
        "problem" if busy > 2 * cpus else "advice",
        f"In each worker {' and '.join(who)}: {pluralize(workers, 'worker')} may run {busy} at once on "
        f"{pluralize(cpus, 'CPU')}.",
        sentences(cures),
    )


def not_sendable(reason: str) -> Finding | None:
    """Finding: the dataset can't be sent to a worker process, so workers can't be used."""
    if not reason:
        return None
    return Finding(
        "workers can't get the dataset",
        "problem",
        f"Sending the dataset to a worker process fails ({reason}), so only num_workers=0 works; all was measured in "
        "the main process.",
        "Give functions that are defined at the top of a module in place of lambdas and inner functions, and open "
        "files and databases when the first sample is asked for, not in __init__.",
    )


def is_busy(stages: StageProfile) -> bool:
    """True if other programs had the CPU for so much of the time that the number of workers can't be judged."""
    return stages.waited is not None and stages.waited >= 0.25


def busy_machine(stages: StageProfile) -> Finding | None:
    """Finding: other programs used the CPU, so all times are longer than they would be."""
    if stages.waited is None or stages.waited < 0.1:
        return None
    unjudged = " The number of workers isn't judged." if is_busy(stages) else ""
    return Finding(
        "the machine is busy",
        "note",
        f"For {stages.waited:.0%} of the time other programs had the CPU: every figure here is worse than it would be."
        f"{unjudged}",
        "Run doctor again when nothing else runs, or read the figures as those beside the other programs.",
    )
