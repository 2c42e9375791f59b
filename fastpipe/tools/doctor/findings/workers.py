"""Findings about worker processes: their number, their threads, their shared memory."""

from __future__ import annotations

from collections.abc import Mapping

from fastpipe.tools.doctor.findings.finding import FASTER, SAME, Finding, sentences
from fastpipe.tools.doctor.values import Memory, Scaling, Stages, Threads
from fastpipe.tools.doctor.wording import in_words, size

__all__ = [
    "busy_machine",
    "is_busy",
    "not_sendable",
    "oversubscription",
    "shared_bytes",
    "shared_memory",
    "slow_machine",
    "too_few_workers",
    "too_many_workers",
]


def too_few_workers(scaling: Scaling, workers: int | None, gpu_rate: float | None) -> Finding | None:
    """More workers would deliver more, and the GPU, where its rate is known, could use it.

    Args:
        scaling: what was measured.
        workers: in use; None where nobody said.
        gpu_rate: images a second that the training takes; None where nobody said.
    """
    if workers is None:
        return None
    now, best = _rate_in_use(scaling, workers), scaling.best
    if now is None or best.workers <= workers or best.images_per_s < now * FASTER:
        return None
    if gpu_rate is not None and now >= gpu_rate * (1 - SAME):
        return None
    enough = scaling.workers_for(gpu_rate) if gpu_rate is not None else None
    more = enough or best.workers
    rate = scaling.rate(more) or best.images_per_s
    waits = "" if gpu_rate is None else f" of the {gpu_rate:,.0f} that the GPU takes"
    return Finding(
        "too few workers",
        "advice" if gpu_rate is None else "problem",
        f"num_workers={workers} delivers {now:,.0f} images/s{waits}; num_workers={more} delivers {rate:,.0f}.",
        f"Set num_workers={more}.",
    )


def too_many_workers(scaling: Scaling, workers: int | None, gpu_rate: float | None) -> Finding | None:
    """Fewer workers would deliver as much, or all that the GPU takes: each costs memory and the time of its start."""
    if workers is None or workers < 2:
        return None
    now = scaling.rate(workers)
    if now is None:
        return None
    wanted = now * (1 - SAME)
    if gpu_rate is not None:  # a tenth above the GPU's rate is room enough
        wanted = min(wanted, gpu_rate * FASTER)
    fewer = scaling.workers_for(wanted)
    if fewer is None or fewer >= workers * 0.8:
        return None
    rate = scaling.rate(fewer) or now
    takes = "" if gpu_rate is None else f", and the GPU takes {gpu_rate:,.0f}"
    crowded = f" The {scaling.cpus} CPUs have no more to give." if workers > scaling.cpus else ""
    return Finding(
        "too many workers",
        "advice",
        f"num_workers={workers} delivers {now:,.0f} images/s, num_workers={fewer} {rate:,.0f}{takes}.{crowded}",
        f"Set num_workers={fewer}: less memory, and a quicker start of each epoch.",
    )


def slow_machine(scaling: Scaling, gpu_rate: float | None, gains: Mapping[str, float]) -> Finding | None:
    """No number of workers delivers what the GPU takes.

    Args:
        scaling: what was measured.
        gpu_rate: images a second that the training takes; None where nobody said.
        gains: what other findings promise → the factor.
    """
    best = scaling.best
    if gpu_rate is None or best.images_per_s >= gpu_rate * (1 - SAME):
        return None
    idle = 1 - best.images_per_s / gpu_rate
    helps = [f"{name} ({factor:.1f}× as fast)" for name, factor in sorted(gains.items(), key=lambda one: -one[1])]
    helps += ['fewer or cheaper transforms, or the normalisation on the GPU (fastpipe.DataLoader(device="cuda"))']
    helps += ['fidelity="fast", which is approximate', "more CPUs"]
    return Finding(
        "the CPUs can't feed the GPU",
        "problem",
        f"On {scaling.cpus} CPUs {in_words(best.workers, 'worker')} can deliver {best.images_per_s:,.0f} of the "
        f"{gpu_rate:,.0f} images/s that the GPU takes, and more workers no more: it will idle {idle:.0%} of the time.",
        f"What helps: {'; '.join(helps)}.",
    )


def shared_memory(stages: Stages, batch_size: int, workers: int, prefetch: int, memory: Memory) -> Finding | None:
    """Batches in flight need more shared memory than is free: workers then die of a bus error.

    Args:
        stages: measured.
        batch_size, workers, prefetch: of the training.
        memory: measured.
    """
    need = shared_bytes(stages, batch_size, workers, prefetch)
    free = memory.shared_free
    if free is None or need <= free * 0.9:
        return None
    fits = int(free * 0.9 / max(1, stages.image_bytes * (workers * prefetch + 1)))
    smaller = f", or a batch size of {fits} at most" if fits >= 1 else ""
    return Finding(
        "too little shared memory",
        "problem",
        f"{in_words(workers, 'worker')} with prefetch_factor={prefetch} may hold {size(need)} of batches in shared "
        f"memory; {size(free)} are free. Where it runs out, workers end in a bus error or can't allocate it.",
        f"Give the container more (docker run --shm-size={_gigabytes(need)}g, or --ipc=host), or send uint8 "
        f"(fastpipe.DataLoader(device=…)), a quarter of the bytes{smaller}.",
    )


def shared_bytes(stages: Stages, batch_size: int, workers: int, prefetch: int) -> int:
    """Bytes of batches that may be in shared memory at once: what workers make ahead, and the one in use."""
    return stages.image_bytes * batch_size * (workers * prefetch + 1) if workers else 0


def oversubscription(threads: Threads, workers: int, cpus: int) -> Finding | None:
    """Workers that each use several threads get in each other's way."""
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
        f"In each worker {' and '.join(who)}: {in_words(workers, 'worker')} may run {busy} at once on {cpus} CPUs.",
        sentences(cures),
    )


def not_sendable(reason: str) -> Finding | None:
    """The dataset can't be sent to a worker process, so that there can be none.

    Args:
        reason: the error; empty where it can be sent.
    """
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


def is_busy(stages: Stages) -> bool:
    """Whether other programs had the CPU for so much of the time that the number of workers can't be judged."""
    return stages.waited is not None and stages.waited >= 0.25


def busy_machine(stages: Stages) -> Finding | None:
    """Other programs had the CPU meanwhile: all times are longer than they would be."""
    if stages.waited is None or stages.waited < 0.1:
        return None
    unjudged = " The number of workers isn't judged." if is_busy(stages) else ""
    return Finding(
        "the machine is busy",
        "note",
        f"For {stages.waited:.0%} of the time other programs had the CPU: every figure here is worse than it would be."
        f"{unjudged}",
        "Run doctor again when nothing else runs, or take the figures for what is left beside the others.",
    )


def _rate_in_use(scaling: Scaling, workers: int) -> float | None:
    """Without workers the main process works, about as fast as one worker."""
    return scaling.rate(max(1, workers))


def _gigabytes(count: int) -> int:
    return -(-count * 5 // 4 // (1 << 30))
