"""The command line: parses arguments, calls the tools, prints results."""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from fastpipe.atomic_write import NO_ROOM
from fastpipe.cli._interrupt import INTERRUPTED, say_interrupted
from fastpipe.errors import (
    ConfigError,
    FastpipeError,
    FastpipeWarning,
    ReaderUnavailableError,
    UnknownReaderError,
    UnsupportedRequestError,
)
from fastpipe.hooks.run import ScriptAsked, ask_at_once, run_script
from fastpipe.standard_error import print_error

_USAGE = (ConfigError, UnknownReaderError, ReaderUnavailableError, UnsupportedRequestError)
"""Errors for a value of an option that can't be used; what PATH is or holds isn't usage."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs ``fastpipe`` and exits.

    The exit status is 0 if nothing bad was found, 1 if something bad was found or for an error, which is explained in a
    line, 2 for wrong usage (an unknown option, or a value of one that can't be used), 130 for Ctrl-C. ``fastpipe run``
    ends with its script's exit status.

    Args:
        arguments: the arguments without the program's name; None for the process's own.
    """
    asked = None
    try:
        ask_at_once(sys.argv[1:] if arguments is None else arguments)
        from fastpipe.cli.app import app

        with _unencodable_replaced(), warnings.catch_warnings():
            _show_warnings_in_a_line()
            try:
                app(args=arguments, prog_name="fastpipe")
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()
    except ScriptAsked as script:
        asked = script
    except KeyboardInterrupt:  # outside of a command: during imports, or at the end
        say_interrupted()
        sys.exit(INTERRUPTED)
    except FastpipeError as error:
        print_error(f"fastpipe: error: {error}")
        sys.exit(2 if isinstance(error, _USAGE) and not _is_full(error.__cause__) else 1)
    except BrokenPipeError:  # the reader of the pipe has closed it
        _drop_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is not None:  # a file named on the command line
            print_error(f"fastpipe: error: {error.strerror}: {error.filename!r:.200}")
            sys.exit(1)
        if not _is_full(error):
            raise
        print_error(f"fastpipe: error: the output can't be written: {error.strerror}")
        _drop_output()
        sys.exit(1)
    if asked is not None:
        run_script(asked.script, **asked.options)


def _is_full(error: BaseException | None) -> bool:
    """True if a file couldn't be written to its end: a full disk is no wrong usage."""
    return isinstance(error, OSError) and error.errno in (*NO_ROOM, errno.EFBIG)


@contextmanager
def _unencodable_replaced() -> Iterator[None]:
    """Prints a question mark for each character that an old code page lacks, such as µ or an arrow."""
    streams = [stream for stream in (sys.stdout, sys.stderr) if isinstance(stream, io.TextIOWrapper)]
    before = [stream.errors for stream in streams]
    for stream in streams:
        stream.reconfigure(errors="replace")
    try:
        yield
    finally:
        for stream, errors in zip(streams, before, strict=True):  # as a script that is run next expects them
            stream.reconfigure(errors=errors)


def _drop_output() -> None:
    """Redirects standard output to the null device, so that buffered text doesn't fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warnings_in_a_line() -> None:
    """Shows fastpipe's warnings in a line, like errors, until the enclosing ``warnings.catch_warnings`` ends."""
    plain = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, FastpipeWarning):
            print_error(f"fastpipe: warning: {message}")
        else:
            plain(message, category, filename, lineno, file, line)

    warnings.showwarning = show
