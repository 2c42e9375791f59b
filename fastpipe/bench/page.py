"""A record as one HTML file that needs nothing else: pictures inside, no script, light or dark as the reader likes."""

from __future__ import annotations

import html
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from string import Template

from fastpipe.bench.check import REQUESTS
from fastpipe.bench.compare import Comparison, notes, places_of_both
from fastpipe.bench.measure import Timing
from fastpipe.bench.pipeline import PIPELINES, speedup
from fastpipe.bench.plots import draw, to_svg
from fastpipe.bench.record import Record
from fastpipe.bench.report import HEADINGS, places_of

__all__ = ["make_page"]

_Cell = str | float | None


def make_page(record: Record, comparison: Comparison | None = None, before: Record | None = None) -> str:
    """The page's text.

    Args:
        record: what was measured.
        comparison: what changed against an earlier record.
        before: that record.

    Raises:
        FastpipeError: matplotlib, which draws the pictures, doesn't load.
    """
    measurement = record.measurement
    pictures = {name: to_svg(figure, f"Bar chart: {name}") for name, figure in draw(record).items()}
    body = [*_choices(record), *_repeat(record)]
    if comparison is not None and before is not None:
        body += _changes(comparison, before, record)
    for format in measurement.images:
        body += _readers(record, format, pictures)
    for format in dict.fromkeys(one.format for one in record.pipelines):
        body += _pipelines(record, format, pictures)
    body += _machine(record)
    template = Template(resources.files("fastpipe.bench").joinpath("page.html").read_text(encoding="utf-8"))
    when = measurement.created.replace("T", ", ").replace("+00:00", " UTC")
    where = f"alone and in {measurement.workers} DataLoader workers" if measurement.workers else "in one process"
    return template.substitute(
        title=html.escape(f"Image readers on {record.machine}"),
        subtitle=html.escape(
            f"Measured {when} by fastpipe {record.versions.get('fastpipe', '')}: {measurement.rounds} rounds, {where}."
        ),
        body="\n".join(body),
    )


def _choices(record: Record) -> Iterator[str]:
    yield "<h2>The fastest reader</h2>"
    yield _table(
        ("format", "reader", "why"), [(format, one.reader, one.reason) for format, one in record.choices.items()]
    )
    if record.choices:
        chosen = [f"--set={format}={one.reader}" for format, one in record.choices.items()]
        yield "<p>To make fastpipe use them on this machine:</p>"
        yield f"<pre>{html.escape(shlex.join(['fastpipe', 'configure', *chosen]))}</pre>"


def _repeat(record: Record) -> Iterator[str]:
    yield "<p>To measure again:</p>"
    yield f"<pre>{html.escape(record.command_line)}</pre>"


def _readers(record: Record, format: str, pictures: Mapping[str, str]) -> Iterator[str]:
    measurement = record.measurement
    yield f"<h2>{html.escape(format)} readers</h2>"
    yield (
        f"<p>{measurement.images[format]} images of {measurement.bytes[format] / 1000:.0f} kB. A time counts only "
        "where the pixels of the whole image and of the region equal Pillow’s, and those at half size are close to "
        "its own. A region is what RandomResizedCrop draws. Images that a reader doesn’t serve are decoded by Pillow, "
        "in its time.</p>"
    )
    yield f"<figure>{pictures[f'readers-{format}']}</figure>"
    rows: list[Sequence[_Cell]] = []
    for place, label in places_of(measurement).items():
        for request in REQUESTS:
            for result in measurement.of(format, request):
                time: Timing | None = getattr(result, place)
                figures = _spread(time) if time else (None,) * 5
                rows.append((label, HEADINGS[request], result.reader, *figures, f"{result.served:.0%}", result.note))
    yield _details(
        "Every figure, in µs an image",
        _table(("where", "request", "reader", *_SPREAD, "served", ""), rows),
    )


def _pipelines(record: Record, format: str, pictures: Mapping[str, str]) -> Iterator[str]:
    yield f"<h2>{html.escape(format)}, from a file to a tensor</h2>"
    yield (
        "<p>Read, decode, augment and convert, as ImageFolder does for each image, with the same transforms on the "
        "same files. Training crops at random to 224 × 224 pixels and flips; evaluation resizes to 256 and crops the "
        "centre. fastpipe uses the readers chosen above. Both run in the same torch DataLoader.</p>"
    )
    yield f"<figure>{pictures[f'pipelines-{format}']}</figure>"
    rows: list[Sequence[_Cell]] = []
    gains: list[Sequence[_Cell]] = []
    for place, label in places_of(record.measurement).items():
        for name in PIPELINES:
            found = record.pipelines_of(format, name)
            times: dict[str, Timing] = {who: getattr(one, place) for who, one in found.items()}
            rows += [(label, name, who, *_spread(time)) for who, time in times.items()]
            if len(times) > 1:
                gain = speedup(times["fastpipe"], times["torchvision"])
                low, high = gain.quartiles_us
                gains.append((label, name, f"{gain.median_us:.2f}", f"{low:.2f} to {high:.2f}"))
    if gains:
        yield _table(("where", "pipeline", "times as fast", "quartiles of the rounds"), gains)
    yield _details("Every figure, in µs an image", _table(("where", "pipeline", "with", *_SPREAD), rows))


def _changes(comparison: Comparison, before: Record, after: Record) -> Iterator[str]:
    yield "<h2>What changed</h2>"
    yield f"<p>{html.escape(comparison.summary)}. {html.escape(' '.join(notes(comparison)))}</p>"
    sides = ((side, f"{record.measurement.created}, {record.machine}") for side, record in _sides(before, after))
    yield _table(("", "measured"), list(sides))
    if comparison.differences:
        yield "<h3>What differs between the runs</h3>"
        yield _list(comparison.differences)
    places = places_of_both(before, after)
    headings = ("format", "request", "", "where", "before", "after", "after/before", "")
    rows: dict[bool, list[Sequence[_Cell]]] = {True: [], False: []}
    for change in comparison.changes:
        rows[change.verdict in ("faster", "slower")].append(
            (
                *(change.format, HEADINGS.get(change.what, change.what), change.who, places[change.place]),
                *(f"{time.median_us:,.0f} ± {time.spread_us:,.0f}" for time in (change.before, change.after)),
                f"{change.ratio:.2f}",
                change.verdict,
            )
        )
    if rows[True]:
        yield "<h3>Changes, in µs an image</h3>"
        yield _table(headings, rows[True])
    if rows[False]:
        yield _details("The rest, in µs an image", _table(headings, rows[False]))
    yield _list(comparison.missing)


def _sides(before: Record, after: Record) -> tuple[tuple[str, Record], ...]:
    return ("before", before), ("after", after)


def _machine(record: Record) -> Iterator[str]:
    yield "<h2>Machine and versions</h2>"
    machine = {**record.measurement.machine, "platform": record.platform}
    yield '<div class="side">'
    yield _table(("machine", ""), [(key, str(value)) for key, value in machine.items()])
    yield _table(("library", "version"), sorted(record.versions.items()))
    yield "</div>"
    yield _list(record.notes)


_SPREAD = ("least", "lower quartile", "median", "upper quartile", "most")
_FIGURES = {*_SPREAD, "served", "times as fast", "quartiles of the rounds", "before", "after", "after/before"}


def _spread(time: Timing) -> tuple[float, ...]:
    low, high = time.quartiles_us
    return min(time.rounds_us), low, time.median_us, high, max(time.rounds_us)


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{html.escape(summary)}</summary>{content}</details>"


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _table(headings: Sequence[str], rows: Iterable[Sequence[_Cell]]) -> str:
    """A table of escaped cells; columns of figures are set flush right, verdicts in their colour."""
    figures = [heading in _FIGURES for heading in headings]
    parts = ['<div class="wide"><table>']
    if any(headings):
        cells = (
            f"<th{_class('number' if figure else '')}>{html.escape(heading)}</th>"
            for heading, figure in zip(headings, figures, strict=True)
        )
        parts.append(f"<thead><tr>{''.join(cells)}</tr></thead>")
    lines = (f"<tr>{''.join(map(_cell, row, figures))}</tr>" for row in rows)
    return "\n".join([*parts, "<tbody>", *lines, "</tbody></table></div>"])


def _cell(cell: _Cell, figure: bool) -> str:
    text = "–" if cell is None else cell if isinstance(cell, str) else f"{cell:,.0f}"
    kind = "number" if figure else text if text in ("faster", "slower") else "text" if len(text) > 60 else ""
    return f"<td{_class(kind)}>{html.escape(text)}</td>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
