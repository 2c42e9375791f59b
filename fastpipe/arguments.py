"""Numbers that users give as arguments, checked where they come in: the error names the argument and what it takes."""

from __future__ import annotations

import math
import operator
import sys

from fastpipe.errors import ConfigError, FastpipeError

__all__ = ["LARGEST", "MOST_PROCESSES", "MOST_THREADS", "real_number", "whole_number"]

LARGEST = sys.maxsize
"""The largest length that Python's and numpy's sequences have."""

MOST_PROCESSES = 1024
"""The most processes that are started for one thing."""

MOST_THREADS = 1024
"""The most threads of the core's pools, as pool.c has it."""


def whole_number(
    name: str,
    given: object,
    takes: str,
    *,
    least: int = 0,
    most: int = LARGEST,
    error: type[FastpipeError] = ConfigError,
) -> int:
    """An argument that is a whole number, as an int.

    Args:
        name: of the argument.
        given: its value; an int, or what stands for one, such as numpy's.
        takes: what it is, in words: ``"the number of samples"``.
        least, most: it lies between these.
        error: the class of the error.

    Raises:
        FastpipeError: of that class; it is no whole number, or lies outside.
    """
    try:
        number = operator.index(given)  # type: ignore[arg-type] # or it raises
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        end = f"2**{most.bit_length()} - 1" if most == LARGEST else f"{most:,}"
        raise error(f"{name}={_shown(given)}: give {takes}, a whole number from {least} to {end}.")
    return number


def real_number(
    name: str,
    given: object,
    takes: str,
    *,
    most: float = math.inf,
    error: type[FastpipeError] = ConfigError,
) -> float:
    """An argument that is a number above 0, as a float; arguments and error as of `whole_number`."""
    number = float(given) if isinstance(given, (int, float)) and abs(given) < LARGEST else given
    if not isinstance(number, float) or not 0 < number <= most:
        end = "" if most == math.inf else f" and at most {most:,g}"
        raise error(f"{name}={_shown(given)}: give {takes}, a number above 0{end}.")
    return number


def _shown(given: object) -> str:
    try:
        return f"{given!r:.80}"
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "…"
