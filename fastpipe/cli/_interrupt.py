"""The end of a command by Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit status, which shells give for a program that the signal ended."""


def say_interrupted() -> None:
    """Prints one line, below the ``^C`` of a terminal."""
    print("\n" * sys.stderr.isatty() + "fastpipe: interrupted", file=sys.stderr)


@contextmanager
def resumable(quiet: bool) -> Iterator[None]:
    """Ends a command that Ctrl-C stops in a line that says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if not quiet:
            print("fastpipe: interrupted; the same command goes on from here", file=sys.stderr)
        import typer

        raise typer.Exit(INTERRUPTED) from None
