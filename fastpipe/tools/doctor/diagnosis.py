"""The result of an examination, and how it is printed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from fastpipe.environment import Memory
from fastpipe.reporting.output import rounded
from fastpipe.reporting.tables import plain, to_html
from fastpipe.tools.doctor.findings import SAME, Finding
from fastpipe.tools.doctor.measurements import Disk, Reencoding, Scaling, Stages, Threaded, Threads, Transfer

SCHEMA = "fastpipe-doctor/1"
"""Names the layout of the JSON; the number grows when a key changes its meaning or goes."""


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis:
    """What was measured and found; ``print`` it.

    Attributes:
        subject: what was examined.
        samples: in it.
        tried: samples that were made one by one, to see whether they can be.
        batch_size: of the training.
        workers: of the training; None where nobody said.
        prefetch: batches that each worker makes ahead.
        gpu_rate: images a second that the training takes; None where nobody said.
        stages: where the time of a sample goes.
        disk: what reading the files costs; None where the dataset doesn't show its files.
        scaling: what different numbers of workers deliver.
        threaded: what threads within the training process deliver in their place.
        memory: of the machine.
        shared_need: bytes of shared memory that the batches may need at once.
        threads: of each worker.
        transfer: to the GPU; None where there is none.
        reencodings: what other files would gain.
        findings: the gravest first.
        machine: as `fastpipe.config.machine_fingerprint` gives it.
        versions: of fastpipe and what decodes.
    """

    subject: str
    samples: int
    tried: int
    batch_size: int
    workers: int | None
    prefetch: int
    gpu_rate: float | None
    stages: Stages
    disk: Disk | None
    scaling: Scaling
    threaded: Threaded
    memory: Memory
    shared_need: int
    threads: Threads
    transfer: Transfer | None
    reencodings: tuple[Reencoding, ...]
    findings: tuple[Finding, ...]
    machine: Mapping[str, str | int]
    versions: Mapping[str, str]

    @property
    def healthy(self) -> bool:
        """Whether no finding is a problem."""
        return all(finding.severity != "problem" for finding in self.findings)

    @property
    def recommended_workers(self) -> int:
        """The fewest workers that deliver what the GPU takes; without its rate, or where none does, the most."""
        return self.scaling.recommended(self.gpu_rate)

    @property
    def recommended(self) -> dict[str, int]:
        """Arguments for `fastpipe.DataLoader`: threads where they deliver as much as workers, as they take less."""
        workers, rate = self.recommended_workers, self.threaded.images_per_s
        wanted = self.scaling.rate(workers) or self.scaling.best.images_per_s
        wanted = min(wanted * (1 - SAME), self.gpu_rate or float("inf"))
        if rate is not None and rate >= wanted:
            return {"num_workers": 0, "threads": self.threaded.threads}
        return {"num_workers": workers}

    @property
    def transfer_us(self) -> float | None:
        """Microseconds an image to the GPU, in the dtype that these batches travel in; None where there is no GPU."""
        if self.transfer is None:
            return None
        height, width = self.stages.output or (0, 0)
        return self.transfer.uint8_us if self.stages.image_bytes < 6 * height * width else self.transfer.float_us

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; times in microseconds, sizes in bytes."""
        values = asdict(replace(self, machine=dict(self.machine), versions=dict(self.versions)))
        values["stages"] |= {"total_us": self.stages.total_us, "groups": self.stages.groups()}
        more = ("healthy", "recommended", "recommended_workers", "transfer_us")
        values |= {name: getattr(self, name) for name in more}
        return {"schema": SCHEMA, **rounded(values)}

    def plot(self, file: str | os.PathLike[str]) -> None:
        """Draws where the time goes, and what the workers deliver.

        Args:
            file: where to; its ending says in which format (``.png``, ``.svg``, ``.pdf``).

        Raises:
            ConfigError: matplotlib isn't installed, or the file can't be written.
        """
        from fastpipe.reporting.plots import save
        from fastpipe.tools.doctor.report import draw

        save(draw(self), file)

    def __str__(self) -> str:
        return self._rendered(plain)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._rendered(to_html)

    def _rendered(self, render: Callable[..., str]) -> str:
        from fastpipe.tools.doctor.report import print_diagnosis

        return render(lambda console: print_diagnosis(console, self))
