"""Draws a diagnosis with matplotlib (the extra ``bench``): the time by stage, and the workers' rates.

Figures are made without pyplot, so that the user's pyplot state doesn't change.
"""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from fastpipe.errors import ConfigError
from fastpipe.reporting.output import write_bytes
from fastpipe.tools.doctor.measurements import Disk, Scaling, StageProfile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS: Mapping[str, str] = MappingProxyType(
    {
        "read": "#4e79a7",
        "draw": "#b07aa1",
        "core": "#e15759",
        "python": "#edc948",
        "collate": "#bab0ac",
        "other": "#9c755f",
    }
)
"""A colour for each stage, in the terminal and in the picture."""

_LABELLED = 0.07  # the share of the time from which a bar has its figure inside


def draw(
    title: str,
    stages: StageProfile,
    scaling: Scaling,
    gpu_rate: float | None,
    disk: Disk | None,
) -> Figure:
    """Draws a diagnosis's measurements under a title.

    Raises:
        ConfigError: matplotlib doesn't load.
    """
    check_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.4), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    upper, lower = figure.subplots(2, 1, height_ratios=(1, 1.7))
    _draw_stages(upper, stages)
    _draw_workers(lower, scaling, gpu_rate, disk)
    return figure


def check_matplotlib(file: str | os.PathLike[str] | None = None) -> None:
    """Checks that a picture can be drawn, before minutes are spent on the measurements.

    Raises:
        ConfigError: matplotlib doesn't load, or it writes no format with the file's ending.
    """
    try:
        importlib.import_module("matplotlib.figure")
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise ConfigError(f"plots need matplotlib ({error}): pip install matplotlib") from error
    formats = FigureCanvasAgg.get_supported_filetypes()
    if file is not None and os.path.splitext(file)[1][1:].lower() not in formats:
        names = f"its ending names none of the formats {', '.join(formats)}"
        raise ConfigError(f"can't write the picture {file}: {names}; give a file such as picture.png")


def save(figure: Figure, file: str | os.PathLike[str]) -> None:
    """Writes a figure in the format that the file's ending names.

    Raises:
        ConfigError: the file can't be written, or matplotlib has no such format.
    """
    check_matplotlib(file)
    out = io.BytesIO()
    figure.savefig(out, format=os.path.splitext(file)[1][1:].lower(), dpi=150)
    write_bytes(file, [out.getbuffer()], "--plot")


def _draw_stages(axes: Axes, stages: StageProfile) -> None:
    start = 0.0
    for stage, us in stages.us.items():
        share = stages.share(stage)
        axes.barh(0, us, left=start, color=COLORS[stage], edgecolor="white", label=f"{stage}  {us:,.0f} ({share:.0%})")
        if share >= _LABELLED:
            axes.text(start + us / 2, 0, f"{us:,.0f}", ha="center", va="center", color="white", fontsize=9)
        start += us
    axes.set_title(f"Time of an image in one worker: {stages.total_us:,.0f} µs", loc="left", fontsize=10)
    axes.set_xlim(0, start)
    axes.set_yticks([])
    axes.set_xlabel("µs")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.15), fontsize=8)


def _draw_workers(axes: Axes, scaling: Scaling, gpu_rate: float | None, disk: Disk | None) -> None:
    workers = [trial.num_workers for trial in scaling.trials]
    rates = [trial.images_per_s for trial in scaling.trials]
    axes.plot(workers, rates, "o-", color=COLORS["read"], label="measured")
    axes.plot(
        [workers[0], workers[-1]],
        [rates[0], rates[0] * workers[-1] / max(1, workers[0])],
        ":",
        color="gray",
        label="as many times one worker",
    )
    for count, rate in zip(workers, rates, strict=True):
        axes.annotate(f"{rate:,.0f}", (count, rate), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8)
    if gpu_rate is not None:
        axes.axhline(gpu_rate, color=COLORS["core"], linestyle="--", label=f"the GPU: {gpu_rate:,.0f}")
    if disk is not None and disk.cold_per_s is not None:
        top = max(*rates, gpu_rate or 0.0)
        if disk.cold_per_s < 2 * top:  # a much faster disk is no limit, and would compress the rest of the picture
            axes.axhline(disk.cold_per_s, color=COLORS["other"], linestyle="-.", label="the disk, cold")
    axes.set_title("What the workers deliver", loc="left", fontsize=10)
    axes.set_xlabel("workers")
    axes.set_ylabel("images/s")
    axes.set_xticks(workers)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.08, y=0.15)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=8)
