"""What is wrong, in plain words, and what cures it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["FASTER", "SAME", "Finding", "Severity", "sentences"]

Severity = Literal["problem", "advice", "note"]
"""Training is slower than asked for or may fail; could be faster or take less; good to know."""

SAME = 0.05
"""Rates less than this share apart are the same: short trials differ by as much."""

FASTER = 1.1
"""A gain that is worth saying."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that costs speed or memory, or may fail.

    Attributes:
        name: of the kind of finding, such as ``"too few workers"``.
        severity: ``"problem"``, ``"advice"`` or ``"note"``.
        what: what was measured, and what it means.
        remedy: what to do.
    """

    name: str
    severity: Severity
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.name}. {self.what} {self.remedy}"


def sentences(parts: Sequence[str]) -> str:
    """Each part as a sentence."""
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts)
