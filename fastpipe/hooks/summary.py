"""The report of hooked calls, as a table, JSON or an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastpipe.errors import ConfigError
from fastpipe.hooks.ledger import LEDGER, Ledger, Site

if TYPE_CHECKING:
    from rich.console import Console

_SMALL_GAIN = 1.5
_ENDINGS = (".html", ".json")


@dataclass(frozen=True)
class Report:
    """A report of the hooked calls of this process and of those that it started.

    Attributes:
        sites: transforms, datasets, functions and loaders that were hooked, or left unhooked.
        notes: further lines.
    """

    sites: tuple[Site, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, ledger: Ledger) -> Report:
        """The report of a ledger's current counts."""
        sites, notes = ledger.total()
        return cls(tuple(sites), tuple(notes))

    def __str__(self) -> str:
        from fastpipe.reporting.tables import render_text

        return render_text(self._show)

    def _repr_html_(self) -> str:
        from fastpipe.reporting.tables import render_html

        return render_html(self._show)

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON: times in milliseconds per image; ``times`` is how many times as fast as before."""
        rows = [
            {**asdict(site), "before_ms": before_ms(site), "now_ms": now_ms(site), "times": gain(site)}
            for site in self.sites
        ]
        return {"sites": rows, "notes": [*self.notes]}

    def write(self, path: str) -> None:
        """Writes the report to a ``.json`` or ``.html`` file.

        Raises:
            ConfigError: the file has another ending, or can't be written; an existing file is unchanged.
        """
        check_report(path)
        from fastpipe.reporting.output import round_times, write_file, write_json

        if Path(path).suffix == ".json":
            write_json(path, round_times(self.to_dict()), "--report")
        else:
            page = f"<!doctype html><meta charset=utf-8><title>fastpipe</title>{self._repr_html_()}"
            write_file(path, page, "--report")

    def _show(self, console: Console) -> None:
        from fastpipe.reporting.tables import ReportTable, print_text

        works = [site for site in self.sites if site.images and site.kind != "loader"]
        works.sort(key=lambda site: ((gain(site) or _SMALL_GAIN) >= _SMALL_GAIN, -site.images))
        timed = [site for site in works if site.timed or site.checked]
        if not works:
            print_text(console, "fastpipe: nothing was taken over." + _why_nothing(self.sites))
        if timed:
            headings = ["taken over by fastpipe", "images", "before", "now", "times", "checked"]
            table = ReportTable(headings, headings[1:], framed=False)
            for site in timed:
                table.add_row(
                    site.name,
                    site.images,
                    _milliseconds(before_ms(site)),
                    _milliseconds(now_ms(site)),
                    None if gain(site) is None else f"{gain(site):.1f}",
                    _checks(site),
                )
            console.print(table)
            print_text(
                console,
                "now: milliseconds an image; before: by the libraries themselves, estimated from the images that were "
                "checked; times: as fast as before.",
            )
        for site in works:
            if site not in timed:
                print_text(console, f"{site.name}: {_images(site.images)} taken over, not timed by itself.")
        for site in self.sites:
            if site.running:
                share = site.waited / site.running
                waited = f"the script waited for their batches {share:.0%} of {site.running:.1f} s."
                print_text(console, f"{site.name}: {_images(site.images)}; {waited}")
        for line in _left(self.sites):
            print_text(console, line)
        for note in self.notes:
            print_text(console, note)


def report() -> Report:
    """The report of all calls that fastpipe has handled in this process and its workers, and of others with reasons."""
    return Report.of(LEDGER)


def now_ms(site: Site) -> float | None:
    """Milliseconds per image, from checked images if no other was timed with its pixels; None without any."""
    if site.timed and site.seconds:
        return site.seconds / site.timed * 1e3
    return site.fast_seconds / site.compared * 1e3 if site.compared else None


def gain(site: Site) -> float | None:
    """The speed of fastpipe's way as a multiple of the library's, on checked images; None if none was timed in both."""
    return site.plain_seconds / site.fast_seconds if site.plain_seconds and site.fast_seconds else None


def before_ms(site: Site) -> float | None:
    """Milliseconds per image of the plain way, estimated from the images that were made in both ways."""
    now, times = now_ms(site), gain(site)
    return None if now is None or times is None else now * times


def _milliseconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _checks(site: Site) -> str:
    if not site.checked:
        return "none"
    return f"{site.checked:,}: {'the same' if not site.differed else f'{site.differed:,} differed'}"


def _images(count: int) -> str:
    return "1 image" if count == 1 else f"{count:,} images"


def _left(sites: Sequence[Site]) -> list[str]:
    lines = []
    for site in sites:
        for reason, images in sorted(site.left.items(), key=lambda item: -item[1]):
            lines.append(f"left as it was: {site.name}, {_images(images)}: {reason}.")
    return lines


def _why_nothing(sites: Sequence[Site]) -> str:
    if any(site.left for site in sites):
        return ""
    return " The script opened no image with Pillow or OpenCV, and called no transform that is known."


def check_report(path: str | None) -> None:
    """Raises ConfigError if the report can't be written to this file."""
    if path is None:
        return
    if Path(path).suffix not in _ENDINGS:
        raise ConfigError(f"--report {path}: the report is a .json or an .html file; give it one of these endings.")
    from fastpipe.reporting.output import check_writable

    check_writable(path, "--report")
