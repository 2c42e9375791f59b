"""Doctor's measurements: small frozen values from which the findings are derived."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fastpipe.loading.tuning import Trial, choose

STAGES = ("read", "draw", "core", "python", "collate", "other")
"""The stages of a sample, in their usual order; `other` is the time outside the executor's stages."""


@dataclass(frozen=True, slots=True)
class StageProfile:
    """A sample's time by stage, in one worker process."""

    us: Mapping[str, float]  # microseconds an image, by stage, without stages that took no time; the sum is the total
    images: int  # number of timed images
    image_bytes: int  # bytes of one image in the finished batch
    # height and width of a finished image, in pixels; None if batches aren't images ``(N, C, H, W)``
    output: tuple[int, int] | None = None
    # the share of the time in which other programs had the CPU, 0 to 1; None if the system doesn't report it
    waited: float | None = None
    other_threads: float = 0.0  # the share of the worker's CPU time that libraries' threads used, 0 to 1

    @property
    def total_us(self) -> float:
        """The sum over all stages, in microseconds an image."""
        return sum(self.us.values())

    def share(self, stage: str) -> float:
        """A stage's share of the time, 0 to 1."""
        return self.us.get(stage, 0.0) / max(self.total_us, 1e-9)


@dataclass(frozen=True, slots=True)
class Disk:
    """The cost of reading the files."""

    files: int  # number of files that were read
    mean_bytes: float  # mean size of a file
    all_files: int  # number of files in the dataset
    # the share of the files that were in the page cache before, 0 to 1; None if the system doesn't report it
    resident: float | None = None
    # cold files read in a second, with `readers` reading at once; None if not measured
    cold_per_s: float | None = None
    readers: int = 1  # number of parallel readers
    reason: str = ""  # why cold reads weren't measured; empty if they were

    @property
    def all_bytes(self) -> float:
        """The bytes of all files, estimated from the sample."""
        return self.mean_bytes * self.all_files


@dataclass(frozen=True, slots=True)
class Scaling:
    """The throughput of different numbers of workers."""

    trials: tuple[Trial, ...]  # sorted by number of workers
    cpus: int  # CPUs that this process may use
    batch_size: int  # the trials' batch size
    # a number of workers that wasn't tried, and the expected seconds to start them and get their first batches
    untried: tuple[int, float] | None = None

    def rate(self, workers: int) -> float | None:
        """Images a second with `workers` workers; None if not measured."""
        return next((trial.images_per_s for trial in self.trials if trial.num_workers == workers), None)

    def recommended(self, gpu_rate: float | None = None) -> Trial:
        """The fewest workers that deliver the GPU's rate, or else as much as any number.

        All of doctor's advice on the number of workers follows from it.
        """
        return choose(self.trials, gpu_rate or math.inf)


@dataclass(frozen=True, slots=True)
class WorkerThreads:
    """Threads in each worker process."""

    torch: int  # threads that torch's operators may use
    cv2: int  # threads that OpenCV's functions may use
    decoding: int  # the dataset's or loader's threads that decode a batch
    used: bool  # whether torch's or OpenCV's threads did any work

    @property
    def most(self) -> int:
        """The most threads that may be busy at once in one worker."""
        return (max(self.torch, self.cv2) if self.used else 1) * max(1, self.decoding)


@dataclass(frozen=True, slots=True)
class Reencoding:
    """The gain of converted files, measured by converting some in memory."""

    kind: str  # ``"oversized"`` (made smaller) or ``"packed"`` (JPEGs packed, with the same pixels)
    share: float  # the share of the sampled files to convert, 0 to 1
    files: int  # number of converted files
    before_us: float  # microseconds for such a file, from bytes to finished image
    after_us: float  # microseconds for its converted copy
    others_us: float  # microseconds for a file that isn't to be converted; 0 if there is none
    bytes_factor: float  # size of a file before divided by its size after
    short_side: int | None  # the short side of the smaller files, in pixels; None for packed files
    typical_side: int  # the median short side of the files before, in pixels

    @property
    def factor(self) -> float:
        """The speed-up of such a file."""
        return self.before_us / max(self.after_us, 1e-9)


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A container of Python objects that a dataset takes into every worker."""

    name: str  # the attribute that holds it, such as ``"dataset.samples"``
    length: int  # its number of items
    bytes: int  # estimated size of the container and its items


@dataclass(frozen=True, slots=True)
class FailedSample:
    """A sample that can't be made."""

    index: int  # the sample's index
    reason: str  # the error in one line
    line: str = ""  # the line of the user's code that raised it; empty if it wasn't the user's code
