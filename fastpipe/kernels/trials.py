"""Trials of how the installed libraries compute: why some of them found that the core computes otherwise.

A trial runs once in a process. Then the libraries compute what it was about, with the same results as ever.
"""

from __future__ import annotations

from collections.abc import Callable

_reasons: dict[str, None] = {}
_listeners: dict[Callable[[str], object], None] = {}


def refuse(reason: str) -> None:
    """Keeps why something isn't computed by the core, for reports."""
    _reasons.setdefault(reason)
    for listener in _listeners:
        listener(reason)


def tell(listener: Callable[[str], object]) -> None:
    """Calls a function with each reason: those of trials that have run, and later ones."""
    _listeners.setdefault(listener)
    for reason in _reasons:
        listener(reason)
