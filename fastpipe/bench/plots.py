"""A record as pictures: the readers of each format, and the pipelines. Needs matplotlib, the extra ``bench``."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastpipe.bench.check import REQUESTS
from fastpipe.bench.measure import Result, Timing
from fastpipe.bench.pipeline import CONTENDERS, PIPELINES, speedup
from fastpipe.bench.record import Record
from fastpipe.bench.report import HEADINGS, places_of
from fastpipe.errors import FastpipeError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check_matplotlib", "draw", "to_png", "to_svg"]

# Told apart by people who see colours differently (Okabe and Ito), and legible on white and on black.
_COLORS: Mapping[str, str] = {
    "full": "#0072b2",
    "region": "#e69f00",
    "half": "#009e73",
    "fastpipe": "#e69f00",
    "torchvision": "#0072b2",
}
_INK, _FAINT = "#1f2328", "#c9ced6"
_INCHES = 9.0
_STYLE: Mapping[str, Any] = {
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "grid.color": _FAINT,
    "svg.fonttype": "none",
    "text.color": _INK,
    "xtick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.color": _FAINT,
    "ytick.labelcolor": _INK,
}


def check_matplotlib() -> None:
    """Makes sure that pictures can be drawn, before minutes are spent on what they are to show.

    Raises:
        FastpipeError: matplotlib doesn't load.
    """
    try:
        importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise FastpipeError(f"plots need matplotlib ({error}): pip install 'fastpipe[bench]'") from error


def draw(record: Record) -> dict[str, Figure]:
    """One figure for each format's readers, named ``readers-jpeg``, and one for its pipelines, ``pipelines-jpeg``.

    Raises:
        FastpipeError: matplotlib doesn't load.
    """
    check_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context(dict(_STYLE)):
        figures = {f"readers-{format}": _readers(record, format) for format in record.measurement.images}
        for format in dict.fromkeys(one.format for one in record.pipelines):
            figures[f"pipelines-{format}"] = _pipelines(record, format)
    return figures


def to_png(figure: Figure) -> bytes:
    """The figure as a PNG on white."""
    return _saved(figure, "png", dpi=150, facecolor="white")


def to_svg(figure: Figure, title: str) -> str:
    """The figure as SVG for within a page: its text takes the page's colour, ``--faint`` its lines'.

    Args:
        figure: from `draw`.
        title: what those hear who don't see it; plain words.
    """
    import html

    svg = _saved(figure, "svg", transparent=True, metadata={"Date": None}).decode()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor").replace(_FAINT, "var(--faint)")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    used = set(re.findall(r"(?:#|url\(#)([\w-]+)", svg))
    # Every figure numbers its parts alike, and a page may hold an id once: only those that something points at stay.
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    svg = re.sub(r'(<svg [^>]*?) width="[^"]*"| height="[^"]*pt"', lambda found: found[1] or "", svg, count=2)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ', 1)


def _saved(figure: Figure, format: str, **options: Any) -> bytes:
    import matplotlib as mpl

    out = io.BytesIO()
    with mpl.rc_context(dict(_STYLE)):
        figure.savefig(out, format=format, bbox_inches="tight", **options)
    return out.getvalue()


def _readers(record: Record, format: str) -> Figure:
    """Readers from the fastest down, by what they were chosen by; a panel for each place."""
    measurement, places = record.measurement, places_of(record.measurement)
    by_reader: dict[str, dict[str, Result]] = {}
    for result in measurement.results:
        if result.format == format and result.single is not None:
            by_reader.setdefault(result.reader, {})[result.request] = result
    last = list(places)[-1]

    def slowness(reader: str) -> float:
        results = by_reader[reader]
        time: Timing = getattr(results.get("region") or next(iter(results.values())), last)
        return time.median_us

    readers = sorted(by_reader, key=slowness, reverse=True)
    choice = record.choices.get(format)
    labels = [f"{reader} (chosen)" if choice and choice.reader == reader else reader for reader in readers]
    requests = [request for request in REQUESTS if any(request in results for results in by_reader.values())]
    title = f"{format} readers: {measurement.images[format]} images of {measurement.bytes[format] / 1000:.0f} kB"
    figure, panels = _panels(title, list(places.values()), len(readers) * len(requests), "µs an image")
    for panel, place in zip(panels, places, strict=True):
        for number, request in enumerate(requests):
            times: list[Timing | None] = [
                getattr(by_reader[reader][request], place) if request in by_reader[reader] else None
                for reader in readers
            ]
            _bars(panel, times, number, len(requests), _COLORS[request], HEADINGS[request])
        panel.set_yticks(range(len(labels)), labels)
    panels[0].figure.legend(*panels[0].get_legend_handles_labels(), loc="upper right", ncols=3, frameon=False)
    return figure


def _pipelines(record: Record, format: str) -> Figure:
    places = places_of(record.measurement)
    names = [name for name in reversed(PIPELINES) if record.pipelines_of(format, name)]
    shown = [who for who in CONTENDERS if any(one.who == who for one in record.pipelines)]
    headings = [
        "in one process and thread" if place == "single" else f"DataLoader with {places[place][3:]}" for place in places
    ]
    figure, panels = _panels(f"{format}, from a file to a tensor", headings, len(names) * len(shown), "ms an image")
    for panel, place in zip(panels, places, strict=True):
        for number, who in enumerate(shown):
            times = [getattr(record.pipelines_of(format, name)[who], place) for name in names]
            _bars(panel, times, number, len(shown), _COLORS[who], who, 1000)
        for row, name in enumerate(names):
            found = record.pipelines_of(format, name)
            if len(found) > 1:
                ours, theirs = (getattr(found[who], place) for who in CONTENDERS)
                gain = speedup(ours, theirs).median_us
                most = max(ours.rounds_us) / 1000
                panel.annotate(
                    f"{gain:.1f}×", (most, row + 0.2), xytext=(5, 0), textcoords="offset points", va="center"
                )
        panel.set_yticks(range(len(names)), names)
    panels[0].figure.legend(*panels[0].get_legend_handles_labels(), loc="upper right", ncols=3, frameon=False)
    return figure


def _panels(title: str, headings: Sequence[str], bars: int, unit: str) -> tuple[Figure, list[Any]]:
    """A figure with a panel for each heading, all with the same axes; made without pyplot, so for no window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_INCHES, 1.1 + 0.24 * max(bars, 3)), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    panels = list(figure.subplots(1, len(headings), sharex=True, sharey=True, squeeze=False)[0])
    for panel, heading in zip(panels, headings, strict=True):
        panel.set_title(heading)
        panel.set_xlabel(f"{unit}: median; line: least to most")
        panel.grid(axis="x", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.tick_params(length=0)
    return figure, panels


def _bars(
    panel: Any, times: Sequence[Timing | None], number: int, of: int, color: str, label: str, unit_us: float = 1
) -> None:
    """One bar a row, the median, and a line from the least to the most; the first of a row's bars on top."""
    height = 0.8 / of
    rows = [(row, time) for row, time in enumerate(times) if time is not None]
    medians = [time.median_us / unit_us for _, time in rows]
    reach = [
        [(time.median_us - min(time.rounds_us)) / unit_us for _, time in rows],
        [(max(time.rounds_us) - time.median_us) / unit_us for _, time in rows],
    ]
    panel.barh(
        [row + 0.4 - height * (number + 0.5) for row, _ in rows],
        medians,
        height * 0.92,
        xerr=reach,
        color=color,
        label=label,
        error_kw={"ecolor": _INK, "elinewidth": 1, "capsize": 0},
    )
