"""Numbers in words."""

from __future__ import annotations

__all__ = ["in_words", "size"]


def size(count: float) -> str:
    """Bytes with a unit, in two digits or more: ``"1.2 MB"``, ``"340 kB"``."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:,.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"


def in_words(count: int, thing: str) -> str:
    """``"1 worker"``, ``"2 workers"``."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
