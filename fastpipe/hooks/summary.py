"""The report of hooked calls, as a table, JSON or an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastpipe.counts import pluralize
from fastpipe.errors import ConfigError
from fastpipe.hooks.ledger import LEDGER, Ledger, Site
from fastpipe.hooks.packing_gain import packing_lines

if TYPE_CHECKING:
    from rich.console import Console

_SMALL_GAIN = 1.5
_BUSY = 1.5
"""How many times their processor time checked images take by the wall clock where the machine was busy."""
_ENDINGS = (".html", ".json")


@dataclass(frozen=True)
class RunTimes:
    """Processor time of a run's images, of those sites for which both ways were timed.

    Attributes:
        now_s: seconds that the images took.
        before_s: the estimate for the libraries themselves; None if nothing was timed both ways.
        left_out: names of sites that made images whose time isn't in these, as the plain way wasn't timed.
        wall_ratio: wall-clock time of the checks' plain way as a multiple of its processor time; None without checks.
    """

    now_s: float
    before_s: float | None
    left_out: tuple[str, ...]
    wall_ratio: float | None

    @classmethod
    def of(cls, sites: Sequence[Site]) -> RunTimes:
        """The times of sites, without loaders, whose images other sites make."""
        timed = [site for site in sites if site.timed and site.kind != "loader"]
        both = [site for site in timed if gain(site) is not None]
        left_out = tuple(site.name for site in timed if site not in both)
        before_s = sum(site.seconds * (gain(site) or 1) for site in both) if both else None
        plain, stalled = (sum(getattr(site, name) for site in sites) for name in ("plain_seconds", "stalled"))
        wall_ratio = (plain + stalled) / plain if plain else None
        return cls(sum(site.seconds for site in both), before_s, left_out, wall_ratio)

    @property
    def was_busy(self) -> bool:
        """True if checked images spent much time waiting."""
        return self.wall_ratio is not None and self.wall_ratio >= _BUSY

    def lines(self) -> list[str]:
        """The report's last lines."""
        lines = []
        if self.was_busy:
            lines.append(
                "The machine was busy, or its disk slow: by the wall clock, checked images took "
                f"{self.wall_ratio:.1f} times their processor time."
            )
        if self.before_s is not None:
            line = (
                f"This run's images took {_seconds(self.now_s)} s of processor time; without fastpipe about "
                f"{_seconds(self.before_s)} s."
            )
            left_out = f" Not in these times, as no plain time was measured: {', '.join(self.left_out)}."
            lines.append(line + left_out * bool(self.left_out))
        return lines


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
        """The report for JSON: times in milliseconds per image; ``times`` is how many times as fast as before.

        ``run`` has the `RunTimes`.
        """
        rows = [
            {**asdict(site), "before_ms": before_ms(site), "now_ms": now_ms(site), "times": gain(site)}
            for site in self.sites
        ]
        times = RunTimes.of(self.sites)
        run = {**asdict(times), "was_busy": times.was_busy}
        return {"sites": rows, "notes": [*self.notes], "run": run}

    def write(self, path: str) -> None:
        """Writes the report to a ``.json`` or ``.html`` file.

        Raises:
            ConfigError: the file has another ending, or can't be written; an existing file is unchanged.
        """
        check_report(path)
        from fastpipe.reporting.output import write_file, write_json

        if Path(path).suffix == ".json":
            write_json(path, self.to_dict(), "--report")
        else:
            page = f"<!doctype html><meta charset=utf-8><title>fastpipe</title>{self._repr_html_()}"
            write_file(path, page, "--report")

    def _show(self, console: Console) -> None:
        from fastpipe.reporting.tables import ReportTable, print_text

        works = [site for site in self.sites if site.images and site.kind != "loader"]
        works.sort(key=lambda site: ((gain(site) or _SMALL_GAIN) >= _SMALL_GAIN, -site.images))
        timed = [site for site in works if site.timed or site.checked]
        if not works:
            print_text(console, "fastpipe: nothing was accelerated." + _why_nothing(self.sites))
        if timed:
            headings = ["accelerated by fastpipe", "images", "before", "now", "times", "checked"]
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
                "now: milliseconds of processor time an image; before: by the libraries themselves, estimated from the "
                "images that were checked; times: as fast as before.",
            )
        for site in works:
            if site not in timed:
                print_text(console, f"{site.name}: {_images(site.images)} accelerated, not timed by itself.")
        for site in self.sites:
            if site.running:
                share = site.waited / site.running
                waited = f"the script waited for their batches {share:.0%} of {site.running:.1f} s."
                print_text(console, f"{site.name}: {_images(site.images)}; {waited}")
        for line in _left(self.sites):
            print_text(console, line)
        for line in (*self.notes, *RunTimes.of(self.sites).lines(), *packing_lines(self.sites)):
            print_text(console, line)


def report() -> Report:
    """The report of all calls that fastpipe has handled in this process and its workers, and of others with reasons."""
    return Report.of(LEDGER)


def now_ms(site: Site) -> float | None:
    """Mean milliseconds of the timed images; of the checked ones if none was timed; None without any."""
    if site.timed and site.seconds:
        return site.seconds / site.timed * 1e3
    return site.fast_seconds / site.compared * 1e3 if site.compared else None


def gain(site: Site) -> float | None:
    """How many times as fast as the library fastpipe made the checked images; None if none was timed in both ways."""
    return site.plain_seconds / site.fast_seconds if site.plain_seconds and site.fast_seconds else None


def before_ms(site: Site) -> float | None:
    """Milliseconds per image of the plain way, estimated from the images that were made in both ways."""
    now, times = now_ms(site), gain(site)
    return None if now is None or times is None else now * times


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _milliseconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _checks(site: Site) -> str:
    if not site.checked:
        return "none"
    return f"{site.checked:,}: {'the same' if not site.differed else f'{site.differed:,} differed'}"


def _images(count: int) -> str:
    return pluralize(count, "image")


def _left(sites: Sequence[Site]) -> list[str]:
    lines = []
    for site in sites:
        for reason, images in sorted(site.left.items(), key=lambda item: -item[1]):
            lines.append(f"left as it was: {site.name}, {_images(images)}: {reason.rstrip('.')}.")
    return lines


def _why_nothing(sites: Sequence[Site]) -> str:
    if any(site.left for site in sites):
        return ""
    return (
        " No image was opened by PIL.Image.open, by cv2.imread and its siblings or by a decoder of torchvision.io, and "
        "no function, transform or dataset was used that fastpipe accelerates."
    )


def check_report(path: str | None) -> None:
    """Raises ConfigError if the report can't be written to this file."""
    if path is None:
        return
    if Path(path).suffix not in _ENDINGS:
        raise ConfigError(f"--report {path}: the report is a .json or an .html file; give it one of these endings.")
    from fastpipe.reporting.output import check_writable

    check_writable(path, "--report")
