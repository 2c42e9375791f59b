"""Ends a command at Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit status that shells report for a program ended by SIGINT."""


def say_interrupted() -> None:
    """Prints one line, below the ``^C`` of a terminal."""
    print("\n" * sys.stderr.isatty() + "fastpipe: interrupted", file=sys.stderr)


@contextmanager
def resumable(quiet: bool) -> Iterator[None]:
    """Prints a line that says how to continue if Ctrl-C stops the block, and exits."""
    try:
        yield
    except KeyboardInterrupt:
        if not quiet:
            print("fastpipe: interrupted; the same command continues from here", file=sys.stderr)
        import typer

        raise typer.Exit(INTERRUPTED) from None
