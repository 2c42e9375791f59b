"""A diagnosis for people: tables with bars, and findings."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fastpipe.tools.doctor.diagnosis import Diagnosis
from fastpipe.tools.doctor.findings import Finding
from fastpipe.tools.doctor.findings.workers import is_busy
from fastpipe.tools.doctor.values import Disk, Part
from fastpipe.tools.doctor.wording import in_words, size

__all__ = ["COLORS", "html", "print_diagnosis", "text"]

COLORS: Mapping[str, str] = MappingProxyType(
    {
        "read": "#4e79a7",
        "header": "#76b7b2",
        "draw + plan": "#b07aa1",
        "decode": "#e15759",
        "resize": "#f28e2b",
        "other kernels": "#edc948",
        "own code": "#9c755f",
        "to tensor + normalise": "#59a14f",
        "collate": "#bab0ac",
        "transfer": "#ff9da7",
    }
)
"""One colour a stage, in the terminal as in the picture."""

_WIDTH = 110
_BAR = 36
_SEVERITY_STYLES = {"problem": "bold red", "advice": "bold yellow", "note": "bold cyan"}


def text(diagnosis: Diagnosis) -> str:
    """The report as plain text."""
    out = io.StringIO()
    print_diagnosis(Console(file=out, width=_WIDTH, no_color=True, highlight=False), diagnosis)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def html(diagnosis: Diagnosis) -> str:
    """The report as HTML, for notebooks."""
    console = Console(file=io.StringIO(), width=_WIDTH, record=True, highlight=False, force_terminal=True)
    print_diagnosis(console, diagnosis)
    pre = '<pre style="font-family:Menlo,DejaVu Sans Mono,Consolas,monospace;line-height:1.2">{code}</pre>'
    return console.export_html(inline_styles=True, code_format=pre)


def print_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    """Prints the whole report."""
    print_ = console.print
    machine = diagnosis.machine
    print_(f"[bold]{escape(diagnosis.subject)}[/]: {diagnosis.samples:,} samples, batches of {diagnosis.batch_size}")
    print_(
        escape(
            f"{machine['processor'] or machine['architecture']}, {diagnosis.scaling.cpus} usable CPUs, "
            f"{machine['system']}; measured on {diagnosis.tried} of the samples, in worker processes"
        ),
        soft_wrap=True,
    )
    stages = diagnosis.stages
    if is_busy(stages):
        waited = f"{stages.waited:.0%}"
        print_(f"[bold yellow]Other programs had the CPU for {waited} of the time[/]: all of this could be faster")
    print_(
        f"\n[bold]Where the time goes[/]: {stages.total_us:,.0f} µs an image in one worker, which makes "
        f"{1e6 / max(stages.total_us, 1e-9):,.0f} images/s"
    )
    print_(Padding(_stage_table(diagnosis, _block(console)), (0, 0, 0, 2), expand=False))
    print_("\n[bold]Reading[/]")
    for line in _about_disk(diagnosis.disk):
        print_(f"  {line}", soft_wrap=True)
    print_("\n[bold]Workers[/], with the files in the page cache")
    print_(Padding(_worker_table(diagnosis, _block(console)), (0, 0, 0, 2), expand=False))
    for line in _about_workers(diagnosis):
        print_(f"  {line}", soft_wrap=True)
    print_("\n[bold]Findings[/]" + ("" if diagnosis.findings else ": none, this is as it should be."))
    for finding in diagnosis.findings:
        print_(Padding(_finding(finding), (0, 0, 0, 2), expand=False))


def _stage_table(diagnosis: Diagnosis, block: str) -> Table:
    stages = diagnosis.stages
    table = Table(box=None, pad_edge=False)
    table.add_column("stage", no_wrap=True, min_width=21)
    table.add_column("µs an image", justify="right", no_wrap=True, min_width=11)
    table.add_column("share", justify="right", no_wrap=True, min_width=5)
    table.add_column("", no_wrap=True, min_width=_BAR)
    table.add_column("of that", overflow="ellipsis", no_wrap=True, max_width=60)
    start = 0.0
    for group, taken in stages.groups().items():
        end = start + taken / max(stages.total_us, 1e-9)
        left, right = round(start * _BAR), round(end * _BAR)
        bar = Text(" " * left + (block * (right - left) or "·"), style=COLORS[group])
        parts = stages.of(group)
        told = _parts(parts) if group in ("other kernels", "own code") or len(parts) > 1 else ""
        table.add_row(group, f"{taken:,.0f}", f"{end - start:.0%}", bar, Text(told, style="dim"))
        start = end
    table.add_row("all", f"{stages.total_us:,.0f}", "100%", "", Text(f"over {stages.images} images", style="dim"))
    us = diagnosis.transfer_us
    if us is None:
        table.add_row("transfer", "–", "", "", Text("no CUDA device", style="dim"))
    else:
        table.add_row("transfer", f"{us:,.1f}", "", "", Text("by the main process", style="dim"))
    return table


def _parts(parts: list[Part]) -> str:
    shown = ", ".join(f"{part.name} {part.us:,.0f}" for part in parts[:3])
    return f"{shown}, …" if len(parts) > 3 else shown


def _about_disk(disk: Disk | None) -> Iterator[str]:
    if disk is None:
        yield "not measured: the dataset doesn't show its files"
        return
    yield (
        f"{disk.all_files:,} files of {size(disk.mean_bytes)}, about {size(disk.all_bytes)} in all; "
        f"from the page cache {disk.cached_us:,.0f} µs a file"
    )
    if disk.resident is not None:
        yield f"{disk.resident:.0%} of the {disk.files} sampled files were in the page cache"
    if disk.cold_us is None or disk.cold_per_s is None:
        yield f"from the disk: not measured; {disk.reason}"
    else:
        yield (
            f"from the disk {disk.cold_us:,.0f} µs a file, one after the other; {disk.readers} at once: "
            f"{disk.cold_per_s:,.0f} files/s, {size(disk.cold_per_s * disk.mean_bytes)}/s"
        )


def _worker_table(diagnosis: Diagnosis, block: str) -> Table:
    scaling = diagnosis.scaling
    first = scaling.trials[0]
    most = max([diagnosis.gpu_rate or 0.0, *(trial.images_per_s for trial in scaling.trials)])
    table = Table(box=None, pad_edge=False)
    for name in ("workers", "images/s", "times one"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=_BAR)
    for trial in scaling.trials:
        bar = Text(block * round(_BAR * trial.images_per_s / most), style=COLORS["read"])
        gain = f"{trial.images_per_s / first.images_per_s * first.workers:.1f}×"
        table.add_row(str(trial.workers), f"{trial.images_per_s:,.0f}", gain, bar)
    if diagnosis.gpu_rate:
        table.add_row(
            "GPU", f"{diagnosis.gpu_rate:,.0f}", "", Text(block * round(_BAR * diagnosis.gpu_rate / most), style="dim")
        )
    return table


def _about_workers(diagnosis: Diagnosis) -> Iterator[str]:
    best = diagnosis.scaling.best
    good = diagnosis.recommended_workers
    if diagnosis.gpu_rate and best.images_per_s >= diagnosis.gpu_rate:
        yield f"num_workers={good} is enough for the GPU"
    elif diagnosis.gpu_rate:
        busy = best.images_per_s / diagnosis.gpu_rate
        yield f"num_workers={good} is the best here; the GPU would be busy {busy:.0%} of the time"
    else:
        yield f"num_workers={good} is the best here; --gpu-rate tells what that means for the training"
    workers = good if diagnosis.workers is None else diagnosis.workers
    free = diagnosis.memory.shared_free
    left = "how much is free isn't known here" if free is None else f"{size(free)} free"
    yield f"shared memory: up to {size(diagnosis.shared_need)} for {in_words(workers, 'worker')}; {left}"
    transfer = diagnosis.transfer
    if transfer is not None:
        yield (
            f"transfer to {transfer.device}: {transfer.float_us:.1f} µs an image as float32; as uint8, normalised "
            f"there, {transfer.uint8_us:.1f} µs"
        )


def _finding(finding: Finding) -> Text:
    told = Text()
    told.append(f"{finding.severity}: {finding.name}\n", style=_SEVERITY_STYLES[finding.severity])
    told.append(f"{finding.what}\n")
    told.append(f"→ {finding.remedy}", style="italic")
    return told


def _block(console: Console) -> str:
    """What bars are made of: a terminal that can't show blocks gets number signs."""
    try:
        "█".encode(console.encoding)
    except (LookupError, UnicodeEncodeError):
        return "#"
    return "█"
