"""Doctor's measurements: small frozen values that the findings are worked out from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

SAME = 0.05
"""Rates less than this share apart are the same: short trials differ by as much."""

STAGES = ("read", "draw", "core", "python", "collate", "other")
"""The stages of a sample, in the order in which they mostly come; `other` is what the executor has no stage for."""


@dataclass(frozen=True, slots=True)
class StageProfile:
    """The stages of a sample's time, in one worker process."""

    us: Mapping[str, float]  # microseconds an image by `STAGES`, those that took any time; they add up to all of it
    images: int  # how many were timed
    image_bytes: int  # of one image of the finished batch
    # height and width of a finished image, in pixels; None where batches hold no images ``(N, C, H, W)``
    output: tuple[int, int] | None = None
    # the share of the time in which other programs had the CPU, 0 to 1; None where the system doesn't say
    waited: float | None = None
    other_threads: float = 0.0  # the share of the worker's CPU time that threads of libraries used, 0 to 1

    @property
    def total_us(self) -> float:
        """Microseconds an image."""
        return sum(self.us.values())

    def share(self, stage: str) -> float:
        """A stage's share of the time, 0 to 1."""
        return self.us.get(stage, 0.0) / max(self.total_us, 1e-9)


@dataclass(frozen=True, slots=True)
class Disk:
    """The cost of reading the files."""

    files: int  # how many were read
    mean_bytes: float  # of a file
    all_files: int  # how many the dataset has
    # the share of the files that was in the page cache before doctor came, 0 to 1; None where the system doesn't say
    resident: float | None = None
    # files a second that aren't in the page cache, with `readers` reading at once; None where not measured
    cold_per_s: float | None = None
    readers: int = 1  # how many read at once
    reason: str = ""  # why cold reads weren't measured; empty where they were

    @property
    def all_bytes(self) -> float:
        """The bytes of all files together, as far as the sample tells."""
        return self.mean_bytes * self.all_files


@dataclass(frozen=True, slots=True)
class WorkerTrial:
    """One measured number of workers, or of threads."""

    workers: int  # processes; 0 for the training process itself
    images_per_s: float  # that they delivered together
    threads: int = 0  # of the core's, that make each one's batches


@dataclass(frozen=True, slots=True)
class Scaling:
    """The throughput of different numbers of workers."""

    trials: tuple[WorkerTrial, ...]  # by number of workers
    cpus: int  # that this process may use
    batch_size: int  # of the trials

    @property
    def best(self) -> WorkerTrial:
        """The fewest workers that deliver the most, give or take what is the same."""
        most = max(trial.images_per_s for trial in self.trials)
        return next(trial for trial in self.trials if trial.images_per_s >= (1 - SAME) * most)

    def rate(self, workers: int) -> float | None:
        """Images a second of `workers` workers: measured, or between two that were; None beyond what was measured."""
        counts = [trial.workers for trial in self.trials]
        if not counts[0] <= workers <= counts[-1]:
            return None
        return float(np.interp(workers, counts, [trial.images_per_s for trial in self.trials]))

    def workers_for(self, images_per_s: float) -> int | None:
        """The fewest workers that deliver so much; None where no number that was measured does."""
        counts = range(self.trials[0].workers, self.trials[-1].workers + 1)
        return next((workers for workers in counts if (self.rate(workers) or 0) >= images_per_s), None)

    def recommended(self, gpu_rate: float | None) -> int:
        """The fewest workers that deliver what the GPU takes; without its rate, or where none does, the most.

        Whatever doctor says about a number of workers follows from this one.
        """
        return (None if gpu_rate is None else self.workers_for(gpu_rate)) or self.best.workers


@dataclass(frozen=True, slots=True)
class WorkerThreads:
    """Threads in each worker process."""

    torch: int  # that torch's operators may use
    cv2: int  # that OpenCV's functions may use
    decoding: int  # the dataset's or loader's own, that decode a batch
    used: bool  # whether those of torch or OpenCV did work

    @property
    def most(self) -> int:
        """The threads that may be busy at once in one worker."""
        return (max(self.torch, self.cv2) if self.used else 1) * max(1, self.decoding)


@dataclass(frozen=True, slots=True)
class Reencoding:
    """The gain of files of another make, measured by converting some in memory."""

    kind: str  # ``"oversized"`` (made smaller) or ``"packed"`` (JPEGs that were packed, with the same pixels)
    share: float  # of the sampled files that it concerns, 0 to 1
    files: int  # how many were converted
    before_us: float  # microseconds such a file takes, from bytes to finished image
    after_us: float  # the same for its converted copy
    others_us: float  # the same for a file that it doesn't concern; 0 where there is none
    bytes_factor: float  # size of a file before by size after
    short_side: int | None  # in pixels, of the files that were made smaller; None for the other kind
    typical_side: int  # the median short side of the files before, in pixels

    @property
    def factor(self) -> float:
        """The speed-up of such a file."""
        return self.before_us / max(self.after_us, 1e-9)


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A container of Python objects that a dataset carries into every worker."""

    name: str  # where it is, such as ``"dataset.samples"``
    length: int  # its items
    bytes: int  # of the container and its items, estimated


@dataclass(frozen=True, slots=True)
class FailedSample:
    """A sample that can't be made."""

    index: int  # of the sample
    reason: str  # the error, in a line
    line: str = ""  # of the user's code that raised it; empty where none did
