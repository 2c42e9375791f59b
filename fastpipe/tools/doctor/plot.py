"""A diagnosis as a picture: where the time goes, and what the workers deliver."""

from __future__ import annotations

import os
from typing import Any

from fastpipe.errors import ConfigError
from fastpipe.tools.doctor.diagnosis import Diagnosis
from fastpipe.tools.doctor.report import COLORS

__all__ = ["check_plot", "plot"]

_LABELLED = 0.07
_NO_MATPLOTLIB = "the picture needs matplotlib: pip install 'fastpipe[bench]'"


def check_plot(file: str | os.PathLike[str]) -> None:
    """Makes sure that there is what draws such a picture, before time is spent on what is to be seen in it.

    Raises:
        ConfigError: matplotlib isn't installed, or the file's ending names no format that it writes.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise ConfigError(_NO_MATPLOTLIB) from error
    formats = FigureCanvasAgg.get_supported_filetypes()
    if os.path.splitext(file)[1][1:].lower() not in formats:
        raise ConfigError(f"can't write the picture {file}: its ending names none of the formats {', '.join(formats)}")


def plot(diagnosis: Diagnosis, file: str | os.PathLike[str]) -> None:
    """Draws the picture; see `Diagnosis.plot`."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(_NO_MATPLOTLIB) from error
    figure = Figure(figsize=(9, 5.4), layout="constrained")  # no pyplot: that would change the user's figures
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, height_ratios=(1, 1.7))
    figure.suptitle(f"{diagnosis.subject}: {diagnosis.samples:,} samples", fontsize=11)
    _draw_stages(upper, diagnosis)
    _draw_workers(lower, diagnosis)
    try:
        figure.savefig(file, dpi=150)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigError(f"can't write the picture {file}: {reason}; give a file such as doctor.png") from error


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
    axes.set_title(f"Time of an image in one worker: {stages.total_us:,.0f} µs", fontsize=10, loc="left")
    axes.set_xlim(0, start)
    axes.set_yticks([])
    axes.set_xlabel("µs")
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.15), fontsize=8, frameon=False)


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
    axes.set_title("What the workers deliver", fontsize=10, loc="left")
    axes.set_xlabel("workers")
    axes.set_ylabel("images/s")
    axes.set_xticks(workers)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.08, y=0.15)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=8, frameon=False)
