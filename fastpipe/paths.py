"""Paths as users give them: local paths, where ``~`` is the user's home, or URLs of remote stores."""

from __future__ import annotations

import os
import re

from fastpipe.errors import DatasetError

__all__ = ["absolute_path", "is_url", "local_path"]

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
