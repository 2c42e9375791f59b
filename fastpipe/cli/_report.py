"""Reports of commands, given as they are asked for: printed, as JSON, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console


class Report(Protocol):
    """A tool's result that tells of more than a few lines."""

    def to_dict(self) -> dict[str, Any]: ...

    def print_on(self, console: Console) -> None: ...

    def to_html(self) -> str: ...


def give_report(report: Report, json: str | None, html: str | None, quiet: bool) -> bool:
    """Writes the page and the JSON that are asked for and prints the report; whether it was printed."""
    from fastpipe.reporting.output import make_console, wrap_text, write_file, write_json_if_asked

    if html is not None:
        write_file(html, report.to_html(), "--html")
    if not write_json_if_asked(json, report.to_dict(), quiet):
        return False
    report.print_on(make_console())
    if html is not None:
        print(wrap_text(f"\nWritten: {html}"))
    return True
