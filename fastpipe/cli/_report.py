"""Reports of commands, given as they are asked for: printed, or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console


class Report(Protocol):
    """A tool's result that tells of more than a few lines."""

    def to_dict(self) -> dict[str, Any]: ...

    def print_on(self, console: Console) -> None: ...


def give_report(report: Report, json: str | None, quiet: bool) -> bool:
    """Writes the JSON if it is asked for and prints the report; whether it was printed."""
    from fastpipe.reporting.output import make_console, write_json_if_asked

    if not write_json_if_asked(json, report.to_dict(), quiet):
        return False
    report.print_on(make_console())
    return True
