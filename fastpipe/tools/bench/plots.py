"""A record as pictures: the readers of each format, and the pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastpipe.reporting.plots import INK, new_figure, style
from fastpipe.tools.bench.check import REQUESTS, Result
from fastpipe.tools.bench.compare import HEADINGS
from fastpipe.tools.bench.pipeline import CONTENDERS, PIPELINES
from fastpipe.tools.bench.record import Record
from fastpipe.tools.timing import Timing, speedup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Told apart by people who see colours differently (Okabe and Ito), and legible on white and on black.
_COLORS: Mapping[str, str] = {
    "full": "#0072b2",
    "region": "#e69f00",
    "half": "#009e73",
    "fastpipe": "#e69f00",
    "torchvision": "#0072b2",
}
_Times = Callable[[str, str, str], Timing | None]


def draw(record: Record) -> dict[str, Figure]:
    """One figure for each format's readers, named ``readers-jpeg``, and one for its pipelines, ``pipelines-jpeg``.

    Raises:
        ConfigError: matplotlib doesn't load.
    """
    with style():
        figures = {f"readers-{format}": _readers(record, format) for format in record.measurement.images}
        for format in record.pipeline_formats:
            figures[f"pipelines-{format}"] = _pipelines(record, format)
    return figures


def _readers(record: Record, format: str) -> Figure:
    """Readers from the fastest down, by what they were chosen by; a panel for each place."""
    measurement = record.measurement
    found: dict[str, dict[str, Result]] = {}
    for result in measurement.results:
        if result.format == format and result.single is not None:
            found.setdefault(result.reader, {})[result.request] = result

    def slowness(reader: str) -> float:
        result = found[reader].get("region") or next(iter(found[reader].values()))
        time = result.workers or result.single
        return time.median_us if time else 0.0

    readers = sorted(found, key=slowness, reverse=True)
    choice = record.choices.get(format)
    labels = [f"{reader} (chosen)" if choice and choice.reader == reader else reader for reader in readers]
    requests = {name: HEADINGS[name] for name in REQUESTS if any(name in results for results in found.values())}
    title = f"{format} readers: {measurement.images[format]} images of {measurement.bytes[format] / 1000:.0f} kB"
    figure, _ = _bars(
        *(title, record, ("in one process", "in {}"), dict(zip(readers, labels, strict=True)), requests),
        *(lambda reader, request, place: getattr(found[reader].get(request), place, None), "µs", 1),
    )
    return figure


def _pipelines(record: Record, format: str) -> Figure:
    names = [name for name in reversed(PIPELINES) if record.pipelines_of(format, name)]
    shown = [who for who in CONTENDERS if any(one.who == who for one in record.pipelines)]
    places = ("in one process and thread", "DataLoader with {}")
    figure, panels = _bars(
        *(f"{format}, from a file to a tensor", record, places, {name: name for name in names}, {w: w for w in shown}),
        *(lambda name, who, place: getattr(record.pipelines_of(format, name)[who], place), "ms", 1000),
    )
    for panel, place in zip(panels, ("single", "workers"), strict=False):
        for row, name in enumerate(names):
            found = record.pipelines_of(format, name)
            if len(found) > 1:
                ours, theirs = (getattr(found[who], place) for who in CONTENDERS)
                where = max(ours.rounds_us) / 1000, row + 0.2
                gain = f"{speedup(ours, theirs).median_us:.1f}×"
                panel.annotate(gain, where, xytext=(5, 0), textcoords="offset points", va="center")
    return figure


def _bars(
    title: str,
    record: Record,
    places: tuple[str, str],
    rows: Mapping[str, str],
    kinds: Mapping[str, str],
    time_of: _Times,
    unit: str,
    unit_us: float,
) -> tuple[Figure, list[Any]]:
    """A panel for each place, with the same axes; in it for each row a bar of each kind: the median, and a line from
    the least to the most; the first of a row's bars on top.
    """
    workers = record.measurement.workers
    headings = [places[0], *([places[1].format(f"{workers} worker{'s' * (workers > 1)}")] if workers else [])]
    figure = new_figure(9, 1.1 + 0.24 * max(len(rows) * len(kinds), 3), title)
    panels = list(figure.subplots(1, len(headings), sharex=True, sharey=True, squeeze=False)[0])
    height = 0.8 / max(1, len(kinds))
    for panel, name, place in zip(panels, headings, ("single", "workers"), strict=False):
        panel.set_title(name)
        panel.set_xlabel(f"{unit} an image: median; line: least to most")
        panel.grid(axis="x", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.tick_params(length=0)
        for number, (kind, label) in enumerate(kinds.items()):
            found = [(row, time) for row, key in enumerate(rows) if (time := time_of(key, kind, place)) is not None]
            at = [row + 0.4 - height * (number + 0.5) for row, _ in found]
            least, middle, most = _reach([time for _, time in found], unit_us)
            lines = {"ecolor": INK, "elinewidth": 1, "capsize": 0}
            color, errors = _COLORS[kind], [least, most]
            panel.barh(at, middle, height * 0.92, xerr=errors, color=color, label=label, error_kw=lines)
        panel.set_yticks(range(len(rows)), list(rows.values()))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="upper right", ncols=3)
    return figure, panels


def _reach(times: Sequence[Timing], unit_us: float) -> tuple[list[float], list[float], list[float]]:
    """How far the least is below the median, the median, and how far the most is above."""
    middle = [time.median_us / unit_us for time in times]
    least = [(time.median_us - min(time.rounds_us)) / unit_us for time in times]
    return least, middle, [(max(time.rounds_us) - time.median_us) / unit_us for time in times]
