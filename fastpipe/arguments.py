"""Checks of users' arguments: the error names the argument and the values that it takes."""

from __future__ import annotations

import math
import operator
import os
import sys

from fastpipe.errors import ConfigError, FastpipeError

__all__ = [
    "LARGEST",
    "MOST_AHEAD",
    "MOST_PROCESSES",
    "MOST_THREADS",
    "check_path",
    "real_number",
    "seed_number",
    "whole_number",
]

LARGEST = sys.maxsize
"""The largest length of Python's and numpy's sequences."""

MOST_AHEAD = 1 << 16
"""The most batches that a process makes ahead: what asks for each of them before the first takes a moment then."""

MOST_PROCESSES = 1024
"""The most processes that one call may start."""

MOST_THREADS = 1024
"""The most threads of a pool of the core's; the same number as in pool.c."""


def whole_number(
    name: str,
    given: object,
    takes: str,
    *,
    least: int = 0,
    most: int = LARGEST,
    error: type[FastpipeError] = ConfigError,
) -> int:
    """Checks an integer argument.

    Args:
        name: the argument's name.
        given: its value; an int, or an object with ``__index__``, such as numpy's integers.
        takes: a description of the argument for the error: ``"the number of samples"``.
        least, most: the range of values, both included.
        error: the class of the error.

    Returns:
        The value as an int.

    Raises:
        FastpipeError: an ``error``: the value is no integer, or outside of the range.
    """
    try:
        number = operator.index(given)  # type: ignore[arg-type] # TypeError for what has no __index__
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
    """Checks an argument that is a number above 0, and returns it as a float; see `whole_number` for the arguments."""
    number = float(given) if isinstance(given, (int, float)) and abs(given) < LARGEST else given
    if not isinstance(number, float) or not 0 < number <= most:
        end = "" if most == math.inf else f" and at most {most:,g}"
        raise error(f"{name}={_shown(given)}: give {takes}, a number above 0{end}.")
    return number


def seed_number(given: object, *, alternative: str = "", error: type[FastpipeError] = ConfigError) -> int:
    """Checks an argument ``seed``, any integer, and returns it as an int; `alternative` ends the error's advice."""
    try:
        number = None if isinstance(given, bool) else operator.index(given)  # type: ignore[arg-type] # as above
    except TypeError:
        number = None
    if number is None:
        raise error(f"seed={_shown(given)}: give an integer{alternative}.")
    return number


def check_path(name: str, given: object, takes: str, *, error: type[FastpipeError] = ConfigError) -> None:
    """Raises an ``error`` if an argument is no path; `takes` describes what it is the path of: ``"the report"``."""
    if not isinstance(given, (str, os.PathLike)):
        raise error(f"{name}={_shown(given)} is no path: give a str or a pathlib.Path of {takes}.")


def _shown(given: object) -> str:
    try:
        return f"{given!r:.80}"
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "…"
