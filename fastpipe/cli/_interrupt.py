"""The end of a command by Ctrl-C."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""The exit status, which shells give for a program that the signal ended."""


def say_interrupted() -> None:
    """Prints one line, below the ``^C`` of a terminal."""
    print("\n" * sys.stderr.isatty() + "fastpipe: interrupted", file=sys.stderr)
