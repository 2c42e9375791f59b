"""`pluralize`: a count with its noun, for reports and errors."""

from __future__ import annotations


def pluralize(count: int, thing: str) -> str:
    """Formats a count with its noun: ``"1 worker"``, ``"2,000 workers"``, ``"2 classes"``."""
    ending = "" if count == 1 else "es" if thing.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{count:,} {thing}{ending}"
