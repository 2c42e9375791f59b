"""Text on standard error, and never elsewhere: a process may have none, or may lose it while it runs."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def print_error(text: str) -> None:
    """Prints a line on ``sys.stderr``; nothing if there is none, where ``print`` would use standard output."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


class StandardError:
    """The standard error that this process has now, for text that is written when the process ends.

    Until then a script may have replaced or closed ``sys.stderr``, or given its descriptor to another file.
    """

    def __init__(self) -> None:
        stream = sys.__stderr__
        self._file: tuple[int, int, int] | None = None
        if stream is None:  # closed, or a program without a console
            return
        with suppress(AttributeError, OSError, ValueError):  # no stream of a file
            self._raw: Any = getattr(stream.buffer, "raw", stream.buffer)
            self._encoding = stream.encoding
            self._file = _file_of(self._raw.fileno())

    def write(self, text: str) -> None:
        """Writes a text and a line's end; nothing if the process has no longer this standard error."""
        with suppress(OSError, ValueError):  # closed, or its reader has ended
            if self._file is None or _file_of(self._raw.fileno()) != self._file:
                return
            with suppress(AttributeError, ValueError):  # somebody has taken its file away
                sys.__stderr__.flush()  # type: ignore[union-attr] # the script's last line, which may have no end
            rest = memoryview(f"{text}\n".replace("\n", os.linesep).encode(self._encoding, "backslashreplace"))
            with _broken_pipes_ignored():
                while written := self._raw.write(rest):  # unbuffered: what fails isn't tried again at exit
                    rest = rest[written:]


def _file_of(descriptor: int) -> tuple[int, int, int]:
    """Tells the file of a descriptor from any other one."""
    status = os.fstat(descriptor)
    return stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino


@contextmanager
def _broken_pipes_ignored() -> Iterator[None]:
    """Keeps SIGPIPE from ending the process, as it does where a script has set the system's own action for it."""
    number = getattr(signal, "SIGPIPE", None)
    if number is None or signal.getsignal(number) != signal.SIG_DFL or not _is_main_thread():
        yield
        return
    signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
