"""The result of `doctor`: as a value, as text with bars, as a picture and as HTML."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from fastpipe.environment import Memory
from fastpipe.loading.tuning import Trial, choose
from fastpipe.reporting.output import encodable, format_bytes, pluralize, round_times
from fastpipe.reporting.tables import ReportTable, print_text, render_html, render_text
from fastpipe.tools.doctor import findings
from fastpipe.tools.doctor.findings import Finding, shared_bytes
from fastpipe.tools.doctor.measurements import Disk, Reencoding, Scaling, StageProfile, WorkerThreads
from fastpipe.tools.doctor.picture import COLORS, draw, save

_BAR = 32  # the longest bar, in characters
_SEVERITY_STYLES = {"problem": "bold red", "advice": "bold yellow", "note": "bold cyan"}

SCHEMA = "fastpipe-doctor/6"
"""Identifies the layout of the JSON; the number grows when a key is removed or changes its meaning."""


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis:
    """The measurements of an input pipeline, and the findings; ``print`` it.

    Attributes:
        subject: the name of the examined dataset.
        samples: its number of samples.
        tried: the number of samples that were made one by one, to see whether they can be made.
        batch_size: the training's batch size.
        workers: the training's number of workers; None if not given.
        prefetch: the number of batches that each worker prefetches.
        gpu_rate: images a second that the training takes; None if not given.
        stages: a sample's time by stage.
        disk: the cost of reading the files; None if the dataset doesn't show its files.
        scaling: the rates of different numbers of workers.
        threaded: the rate of threads in place of workers; None if not tried.
        in_python: the part that keeps threads from making batches; empty if there is none.
        memory: the machine's memory.
        threads: the threads in each worker.
        reencodings: the gains of converted files.
        findings: the findings, the most severe first.
        machine: as from `fastpipe.environment.machine_fingerprint`.
        versions: versions of fastpipe and the decoding libraries.
    """

    subject: str
    samples: int
    tried: int
    batch_size: int
    workers: int | None
    prefetch: int
    gpu_rate: float | None
    stages: StageProfile
    disk: Disk | None
    scaling: Scaling
    threaded: Trial | None
    in_python: str
    memory: Memory
    threads: WorkerThreads
    reencodings: tuple[Reencoding, ...]
    findings: tuple[Finding, ...]
    machine: Mapping[str, str | int]
    versions: Mapping[str, str]

    @property
    def healthy(self) -> bool:
        """True if no finding is a problem."""
        return all(finding.severity != "problem" for finding in self.findings)

    @property
    def recommended_workers(self) -> int:
        """The fewest workers that deliver the GPU's rate; if it isn't given or can't be reached, the best number."""
        return self.scaling.recommended(self.gpu_rate).num_workers

    @property
    def planned_workers(self) -> int:
        """The training's number of workers; the recommended number if not given."""
        return self.recommended_workers if self.workers is None else self.workers

    @property
    def shared_need(self) -> int:
        """The most bytes of shared memory that batches need at once."""
        return shared_bytes(self.stages, self.batch_size, self.planned_workers, self.prefetch)

    @property
    def chosen(self) -> Trial:
        """The trial to recommend: the recommended number of workers, or threads that deliver as much with less."""
        return choose([*self.scaling.trials, *filter(None, [self.threaded])], self.gpu_rate or math.inf)

    @property
    def recommended(self) -> dict[str, int]:
        """Arguments for `fastpipe.DataLoader`; one worker with threads if it delivers as much as several workers."""
        workers, threads = self.chosen.num_workers, self.chosen.threads
        return {"num_workers": workers, "threads": threads} if threads else {"num_workers": workers}

    @property
    def threads_instead(self) -> str:
        """A phrase for advice that names threads which deliver as much as the recommended workers; or empty."""
        if self.chosen is not self.threaded or self.recommended_workers < 2:
            return ""
        setting = ", ".join(f"{name}={value}" for name, value in self.recommended.items())
        return f", or {setting} of fastpipe.DataLoader, which deliver as much"

    def to_dict(self) -> dict[str, object]:
        """The result as JSON values; times in microseconds, sizes in bytes."""
        values = asdict(self)
        values["stages"]["total_us"] = self.stages.total_us
        more = ("healthy", "recommended", "recommended_workers", "shared_need")
        values |= {name: getattr(self, name) for name in more}
        return {"schema": SCHEMA, **round_times(values)}

    def plot(self, file: str | os.PathLike[str]) -> None:
        """Draws the time by stage, and the workers' rates.

        Args:
            file: the file to write; its ending chooses the format (``.png``, ``.svg``, ``.pdf``).

        Raises:
            ConfigError: matplotlib isn't installed, or the file can't be written.
        """
        title = f"{self.subject}: {pluralize(self.samples, 'sample')}"
        save(draw(title, self.stages, self.scaling, self.gpu_rate, self.disk), file)

    def print_on(self, console: Console) -> None:
        """Prints the whole result."""
        print_, block = console.print, encodable("█", console.encoding, "#")
        stages, machine = self.stages, self.machine
        about = f": {pluralize(self.samples, 'sample')}, batches of {self.batch_size}"
        print_(f"[bold]{escape(self.subject)}[/]{about}", soft_wrap=True)
        print_text(
            console,
            f"{machine['processor'] or machine['architecture']}, {pluralize(self.scaling.cpus, 'usable CPU')}, "
            f"{machine['system']}; measured on {self.tried} of the samples, in worker processes",
        )
        if findings.is_busy(stages):
            waited = f"{stages.waited:.0%}"
            print_(f"[bold yellow]Other programs had the CPU for {waited} of the time[/]: all could be faster")
        rate = f"{1e6 / max(stages.total_us, 1e-9):,.0f} images/s"
        print_(f"\n[bold]Where the time goes[/]: {stages.total_us:,.0f} µs an image, {rate} in one worker")
        print_(Padding(_stage_table(self, block), (0, 0, 0, 2), expand=False))
        print_("\n[bold]Reading[/]")
        print_text(console, "\n".join(_about_disk(self.disk)), "  ")
        print_("\n[bold]Workers[/], with the files in the page cache")
        print_(Padding(_worker_table(self, block), (0, 0, 0, 2), expand=False))
        print_text(console, "\n".join(_about_workers(self)), "  ")
        print_("\n[bold]Findings[/]" + ("" if self.findings else ": none"))
        for finding in self.findings:
            print_text(console, f"{finding.severity}: {finding.name}", "  ", _SEVERITY_STYLES[finding.severity])
            print_text(console, finding.what, "    ")
            if finding.remedy:
                print_text(console, f"→ {finding.remedy}", "    ", "italic")

    def __str__(self) -> str:
        return render_text(self.print_on)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return render_html(self.print_on)


def _stage_table(diagnosis: Diagnosis, block: str) -> ReportTable:
    stages = diagnosis.stages
    table = ReportTable(["stage", "µs an image", "share", " " * _BAR], ["µs an image", "share"], framed=False)
    start = 0.0
    for stage, taken in stages.us.items():
        end = start + taken / max(stages.total_us, 1e-9)
        left, right = round(start * _BAR), round(end * _BAR)
        bar = Text(" " * left + (block * (right - left) or "·"), style=COLORS[stage])
        table.add_row(f"{stage:<21}", taken, f"{end - start:.0%}", bar)
        start = end
    table.add_row("all", stages.total_us, "100%", Text(f"over {pluralize(stages.images, 'image')}", style="dim"))
    return table


def _about_disk(disk: Disk | None) -> Iterator[str]:
    if disk is None:
        yield "not measured: the dataset doesn't show its files"
        return
    files = pluralize(disk.all_files, "file")
    yield f"{files} of {format_bytes(disk.mean_bytes)}, about {format_bytes(disk.all_bytes)} in all"
    if disk.resident is not None:
        yield f"{disk.resident:.0%} of the {disk.files} sampled files were in the page cache"
    if disk.cold_per_s is None:
        yield f"from the disk: not measured; {disk.reason}"
    else:
        yield (
            f"from the disk, {disk.readers} at once: {disk.cold_per_s:,.0f} files/s, "
            f"{format_bytes(disk.cold_per_s * disk.mean_bytes)}/s"
        )


def _worker_table(diagnosis: Diagnosis, block: str) -> ReportTable:
    trials, gpu_rate = diagnosis.scaling.trials, diagnosis.gpu_rate
    columns = ["workers", "images/s", "times one"]
    table = ReportTable([*columns, ""], columns, framed=False)
    rows: list[tuple[int | str, float]] = [(trial.num_workers, trial.images_per_s) for trial in trials]
    if (threaded := diagnosis.threaded) is not None:
        rows.append((pluralize(threaded.threads, "thread"), threaded.images_per_s))
    most = max(gpu_rate or 0.0, *(rate for _, rate in rows))
    for who, rate in rows:
        gain = rate / trials[0].images_per_s * max(1, trials[0].num_workers)
        table.add_row(who, rate, f"{gain:.1f}×", Text(block * round(_BAR * rate / most), style=COLORS["read"]))
    if gpu_rate:
        table.add_row("GPU", gpu_rate, "", Text(block * round(_BAR * gpu_rate / most), style="dim"))
    return table


def _about_workers(diagnosis: Diagnosis) -> Iterator[str]:
    best = diagnosis.scaling.recommended()
    good = diagnosis.recommended_workers
    if findings.is_busy(diagnosis.stages):
        yield "while the machine is busy, neither numbers of workers nor threads are judged"
    elif diagnosis.gpu_rate and best.images_per_s >= diagnosis.gpu_rate:
        yield f"num_workers={good} is enough for the GPU"
    elif diagnosis.gpu_rate:
        busy = best.images_per_s / diagnosis.gpu_rate
        yield f"num_workers={good} is the best here; the GPU would be busy {busy:.0%} of the time"
    else:
        yield f"num_workers={good} is the best here; --gpu-rate tells what that means for the training"
    if not findings.is_busy(diagnosis.stages):
        yield _about_threads(diagnosis)
    free = diagnosis.memory.shared_free
    left = "how much is free isn't known here" if free is None else f"{format_bytes(free)} free"
    workers = pluralize(diagnosis.planned_workers, "worker")
    yield f"shared memory: up to {format_bytes(diagnosis.shared_need)} for {workers}; {left}"


def _about_threads(diagnosis: Diagnosis) -> str:
    threaded = diagnosis.threaded
    if threaded is None:
        held = f"{diagnosis.in_python} is Python code, which holds the interpreter's lock"
        return f"workers are better than threads would be: {held}"
    asked = f"fastpipe.DataLoader(num_workers={threaded.num_workers}, threads={threaded.threads})"
    if diagnosis.chosen is not threaded:
        return f"workers are better than threads here, {asked}"
    if not threaded.num_workers:
        return f"threads are as fast, {asked}: one process that starts at once, and no shared memory"
    return f"threads of one worker are as fast, {asked}: less memory, and the training process only takes batches"
