"""Describes errors of the user's own code in one line, with the line that raised them."""

from __future__ import annotations

import os
import sysconfig
import traceback

__all__ = ["describe_error", "users_line"]

_LIBRARIES = tuple(
    os.path.join(os.path.realpath(folder), "")
    for folder in (
        os.path.dirname(os.path.dirname(__file__)),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    )
)


def users_line(error: BaseException) -> str:
    """The last line of the user's own code that an error came through, such as ``"train.py, line 12"``.

    Empty if there is none; fastpipe, Python and installed packages don't count as the user's.
    """
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    return f"{own[-1].filename}, line {own[-1].lineno}" if own else ""


def describe_error(error: BaseException) -> str:
    """Describes an error in one line: its type, its message, and the user's line if it came through one."""
    text = " ".join(str(error).split()) or "no message"
    line = "" if isinstance(error, SyntaxError) else users_line(error)  # a SyntaxError's message has its line
    return f"{type(error).__name__}: {text}" + (f" ({line})" if line else "")


def _is_users(file: str) -> bool:
    if file.startswith("<frozen"):
        return False
    return not os.path.realpath(file).startswith(_LIBRARIES) and "-packages" + os.sep not in file
