"""Ends a command at Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fastpipe.standard_error import print_error

INTERRUPTED = 130
"""The exit status that shells report for a program ended by SIGINT."""


def say_interrupted() -> None:
    """Prints one line, below the ``^C`` of a terminal."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    print_error("\n" * is_terminal + "fastpipe: interrupted")


@contextmanager
def resumable(quiet: bool) -> Iterator[None]:
    """Prints a line that says how to continue if Ctrl-C stops the block, and exits."""
    try:
        yield
    except KeyboardInterrupt:
        if not quiet:
            print_error("fastpipe: interrupted; the same command continues from here")
        import click

        raise click.exceptions.Exit(INTERRUPTED) from None
