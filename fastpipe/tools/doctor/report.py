"""A diagnosis for people: tables with bars, findings, a picture, and all of it as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from fastpipe.reporting.output import encodable, in_words, size, wrapped
from fastpipe.reporting.page import page
from fastpipe.reporting.plots import new_figure, style
from fastpipe.reporting.tables import Table
from fastpipe.tools.doctor.diagnosis import Diagnosis
from fastpipe.tools.doctor.findings import is_busy
from fastpipe.tools.doctor.measurements import Disk

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

_BAR = 32
_LABELLED = 0.07
_SEVERITY_STYLES = {"problem": "bold red", "advice": "bold yellow", "note": "bold cyan"}


def print_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    """Prints the whole report."""
    print_, block = console.print, encodable("█", console.encoding, "#")

    def print_lines(text: str, indent: str = "  ", style: str | None = None) -> None:
        """Prints text broken at the console's width, behind an indentation."""
        for line in text.splitlines():
            print_(Text(wrapped(indent + line, width=console.width), style or ""), soft_wrap=True)

    machine = diagnosis.machine
    about = f": {diagnosis.samples:,} samples, batches of {diagnosis.batch_size}"
    print_(f"[bold]{escape(diagnosis.subject)}[/]{about}", soft_wrap=True)
    print_lines(
        f"{machine['processor'] or machine['architecture']}, {diagnosis.scaling.cpus} usable CPUs, "
        f"{machine['system']}; measured on {diagnosis.tried} of the samples, in worker processes",
        "",
    )
    stages = diagnosis.stages
    if is_busy(stages):
        waited = f"{stages.waited:.0%}"
        print_(f"[bold yellow]Other programs had the CPU for {waited} of the time[/]: all could be faster")
    rate = f"{1e6 / max(stages.total_us, 1e-9):,.0f} images/s"
    print_(f"\n[bold]Where the time goes[/]: {stages.total_us:,.0f} µs an image, {rate} in one worker")
    print_(Padding(_stage_table(diagnosis, block).to_rich(), (0, 0, 0, 2), expand=False))
    print_("\n[bold]Reading[/]")
    for line in _about_disk(diagnosis.disk):
        print_lines(line)
    print_("\n[bold]Workers[/], with the files in the page cache")
    print_(Padding(_worker_table(diagnosis, block).to_rich(), (0, 0, 0, 2), expand=False))
    for line in _about_workers(diagnosis):
        print_lines(line)
    print_("\n[bold]Findings[/]" + ("" if diagnosis.findings else ": none"))
    for finding in diagnosis.findings:
        print_lines(f"{finding.severity}: {finding.name}", style=_SEVERITY_STYLES[finding.severity])
        print_lines(finding.what, "    ")
        print_lines(f"→ {finding.remedy}", "    ", style="italic")


def _stage_table(diagnosis: Diagnosis, block: str) -> Table:
    stages = diagnosis.stages
    table = Table("", ["stage", "µs an image", "share", " " * _BAR], ["µs an image", "share"], framed=False)
    start = 0.0
    for group, taken in stages.groups().items():
        end = start + taken / max(stages.total_us, 1e-9)
        left, right = round(start * _BAR), round(end * _BAR)
        bar = Text(" " * left + (block * (right - left) or "·"), style=COLORS[group])
        table.add(f"{group:<21}", taken, f"{end - start:.0%}", bar)
        parts = stages.of(group)
        if group in ("other kernels", "own code") or len(parts) > 1:
            for part in parts:
                table.add(f"  {part.name}", part.us, "", "", style="dim")
        start = end
    table.add("all", stages.total_us, "100%", Text(f"over {stages.images} images", style="dim"))
    us = diagnosis.transfer_us
    by = "no CUDA device" if us is None else "by the main process"
    table.add("transfer", None if us is None else f"{us:,.1f}", "", Text(by, style="dim"))
    return table


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
    trials, gpu_rate = diagnosis.scaling.trials, diagnosis.gpu_rate
    most = max([gpu_rate or 0.0, diagnosis.threaded.images_per_s or 0.0, *(trial.images_per_s for trial in trials)])
    columns = ["workers", "images/s", "times one"]
    table = Table("", [*columns, ""], columns, framed=False)
    rows: list[tuple[Any, float]] = [(trial.workers, trial.images_per_s) for trial in trials]
    threaded = diagnosis.threaded
    if threaded.images_per_s is not None:
        rows.append((in_words(threaded.threads, "thread"), threaded.images_per_s))
    for who, rate in rows:
        gain = rate / trials[0].images_per_s * trials[0].workers
        table.add(who, rate, f"{gain:.1f}×", Text(block * round(_BAR * rate / most), style=COLORS["read"]))
    if gpu_rate:
        table.add("GPU", gpu_rate, "", Text(block * round(_BAR * gpu_rate / most), style="dim"))
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
    yield _about_threads(diagnosis)
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


def _about_threads(diagnosis: Diagnosis) -> str:
    threaded = diagnosis.threaded
    if threaded.images_per_s is None:
        return f"workers serve better than threads would: {threaded.reason}"
    asked = f"fastpipe.DataLoader(num_workers=0, threads={threaded.threads})"
    if is_busy(diagnosis.stages):
        return f"while the machine is busy, workers aren't compared with threads, {asked}"
    if diagnosis.recommended["num_workers"]:
        return f"workers serve better than threads here, {asked}"
    return f"threads serve as well, {asked}: one process that starts at once, and no shared memory"


def make_page(diagnosis: Diagnosis) -> str:
    """The picture and what a terminal shows, as one HTML file that needs nothing else.

    Raises:
        ConfigError: matplotlib, which draws the picture, doesn't load.
    """
    figures = {"where the time goes, and what the workers deliver": draw(diagnosis)}
    versions = ", ".join(f"{name} {version}" for name, version in diagnosis.versions.items())
    return page(
        f"fastpipe doctor: {diagnosis.subject}", versions, figures, partial(print_diagnosis, diagnosis=diagnosis)
    )


def draw(diagnosis: Diagnosis) -> Figure:
    """The picture: see `Diagnosis.plot`."""
    with style():
        title = f"{diagnosis.subject}: {diagnosis.samples:,} samples"
        figure = new_figure(9, 5.4, title)
        upper, lower = figure.subplots(2, 1, height_ratios=(1, 1.7))
        _draw_stages(upper, diagnosis)
        _draw_workers(lower, diagnosis)
    return figure


def _draw_stages(axes: Any, diagnosis: Diagnosis) -> None:
    stages = diagnosis.stages
    start = 0.0
    for group, us in stages.groups().items():
        share = us / max(stages.total_us, 1e-9)
        axes.barh(0, us, left=start, color=COLORS[group], edgecolor="white", label=f"{group}  {us:,.0f} ({share:.0%})")
        if share >= _LABELLED:
            axes.text(start + us / 2, 0, f"{us:,.0f}", ha="center", va="center", color="white", fontsize=9)
        start += us
    transfer = diagnosis.transfer_us
    if transfer is not None:  # hatched, as it isn't the worker that does it
        label = f"transfer to the GPU  {transfer:,.1f}, by the main process"
        axes.barh(0, transfer, left=start, color=COLORS["transfer"], edgecolor="white", hatch="//", label=label)
        start += transfer
    axes.set_title(f"Time of an image in one worker: {stages.total_us:,.0f} µs")
    axes.set_xlim(0, start)
    axes.set_yticks([])
    axes.set_xlabel("µs")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.15), fontsize=8)


def _draw_workers(axes: Any, diagnosis: Diagnosis) -> None:
    scaling = diagnosis.scaling
    workers = [trial.workers for trial in scaling.trials]
    rates = [trial.images_per_s for trial in scaling.trials]
    axes.plot(workers, rates, "o-", color=COLORS["read"], label="measured")
    axes.plot(
        [workers[0], workers[-1]],
        [rates[0], rates[0] * workers[-1] / workers[0]],
        ":",
        color="gray",
        label="as many times one worker",
    )
    for count, rate in zip(workers, rates, strict=True):
        axes.annotate(f"{rate:,.0f}", (count, rate), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8)
    if diagnosis.gpu_rate is not None:
        axes.axhline(
            diagnosis.gpu_rate, color=COLORS["decode"], linestyle="--", label=f"the GPU: {diagnosis.gpu_rate:,.0f}"
        )
    if diagnosis.disk is not None and diagnosis.disk.cold_per_s is not None:
        top = max(*rates, diagnosis.gpu_rate or 0.0)
        if diagnosis.disk.cold_per_s < 2 * top:  # far above, it limits nothing and would flatten the rest
            axes.axhline(diagnosis.disk.cold_per_s, color=COLORS["own code"], linestyle="-.", label="the disk, cold")
    axes.set_title("What the workers deliver")
    axes.set_xlabel("workers")
    axes.set_ylabel("images/s")
    axes.set_xticks(workers)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.08, y=0.15)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=8)
