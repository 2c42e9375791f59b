"""Paths as users give them: local paths, where ``~`` is the user's home, or URLs of remote stores; regular files."""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
import sys
from pathlib import Path
from typing import BinaryIO, Literal

from fastpipe.errors import DatasetError

__all__ = [
    "absolute_path",
    "check_regular",
    "is_url",
    "local_path",
    "open_file",
    "open_regular",
    "shell_quoted",
    "user_folder",
]

# O_NONBLOCK: `open` would wait for the writer of a FIFO. It has no effect on regular files, and Windows lacks it.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)

_KINDS = (
    (stat.S_ISFIFO, "a FIFO (named pipe)"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISSOCK, "a socket"),
)

_URL = re.compile(r"[a-z][a-z0-9+.-]+(::[a-z][a-z0-9+.-]*)*://")


def is_url(given: object) -> bool:
    """True if a path is a URL of a remote store: ``s3://…``, ``memory://…``."""
    return isinstance(given, str) and _URL.match(given) is not None


def local_path(path: str | os.PathLike[str]) -> str:
    """A local path as a str, with ``~`` expanded.

    Raises:
        DatasetError: it is no path.
    """
    try:
        local = os.path.expanduser(os.fsdecode(path))
    except TypeError:
        raise DatasetError(f"{path!r:.80} is no path: give a str or a pathlib.Path.") from None
    if "\0" in local:
        raise DatasetError(f"{path!r:.80} is no path: it has a null character.")
    return local


def absolute_path(path: str | os.PathLike[str]) -> str:
    """A local path made absolute, so that it means the same file in other processes and working folders."""
    return os.path.abspath(local_path(path))


def open_file(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Opens a regular file; returns a descriptor, which the caller closes, and the file's length in bytes.

    Raises:
        OSError: the file can't be opened, is a folder or has no end (a FIFO, a device), or its path has a NUL byte. The
            error's ``filename`` is the path.
    """
    name = os.fspath(path)
    try:
        descriptor = os.open(name, _FLAGS)
    except ValueError as error:  # an embedded NUL byte, which no file's name can have
        raise OSError(errno.EINVAL, f"not a path ({error})", name) from None
    except OSError as error:
        if error.errno == errno.ENXIO:  # the error for opening a socket
            raise OSError(errno.EINVAL, "not a regular file but a socket or a device", name) from None
        raise
    try:
        status = os.fstat(descriptor)
        _check_mode(status.st_mode, name)
        return descriptor, status.st_size
    except BaseException:  # also Ctrl-C: nobody else knows the descriptor
        os.close(descriptor)
        raise


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a regular file for reading bytes; raises as `open_file`."""
    return os.fdopen(open_file(path)[0], "rb")


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raises as `open_file` unless the path is that of a regular file, which needn't be readable."""
    _check_mode(os.stat(path).st_mode, os.fspath(path))


def _check_mode(mode: int, name: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    kind = next((text for test, text in _KINDS if test(mode)), "something else")
    raise OSError(errno.EINVAL, f"not a regular file but {kind}", name)


_USER_FOLDERS = {  # by system: a variable, the folder of the home folder where it says nothing, and ours in that
    "linux": {"config": ("XDG_CONFIG_HOME", ".config", "fastpipe"), "cache": ("XDG_CACHE_HOME", ".cache", "fastpipe")},
    "darwin": {"config": ("", "Library/Application Support", "fastpipe"), "cache": ("", "Library/Caches", "fastpipe")},
    "win32": {
        "config": ("LOCALAPPDATA", "AppData/Local", "fastpipe"),
        "cache": ("LOCALAPPDATA", "AppData/Local", "fastpipe/Cache"),
    },
}


def user_folder(kind: Literal["config", "cache"]) -> Path | None:
    """fastpipe's folder of this user, where the system keeps such; None for a user without a home, as in containers."""
    variable, below_home, ours = _USER_FOLDERS.get(sys.platform, _USER_FOLDERS["linux"])[kind]
    given = os.environ.get(variable, "").strip() if variable else ""
    home = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~"), below_home)
    return home / ours if home.is_absolute() else None


def shell_quoted(path: str) -> str:
    """A path as it is written in a command line."""
    if os.name == "nt":
        return f'"{path}"' if " " in path else path
    return shlex.quote(path)
