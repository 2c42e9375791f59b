"""Repeats requests that failed for a passing reason, with growing pauses and a limit."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import time
from collections.abc import Callable
from typing import TypeVar

from fastpipe.errors import FastpipeError, StoreError

Value = TypeVar("Value")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0

_MAY_PASS = (408, 425, 429)  # HTTP statuses among 400 to 499 that are worth a retry
_FOR_GOOD = (errno.EINVAL, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENOSYS)
_WITHOUT_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError")

_pauses = random.Random()  # of its own: the generators that users seed don't move


class WrongLengthError(StoreError):
    """Raised if a store returns more or fewer bytes than requested."""


def with_retries(action: Callable[[], Value], url: str, tries: int) -> Value:
    """Calls an action on a store and returns its value; repeats it if it fails for a reason that may pass.

    Args:
        action: makes the request and returns the value.
        url: the requested URL, for errors.
        tries: the most calls; but at most two after a `WrongLengthError`, as the file is then truncated or changed.

    Raises:
        FileNotFoundError, PermissionError: the store reports one.
        StoreError: the action failed permanently, or at each call.
    """
    start = time.monotonic()
    number = 0
    while True:
        number += 1
        try:
            return action()
        except WrongLengthError:
            if number >= min(tries, 2):
                raise
        except Exception as error:  # a store's client may raise anything; the error is raised again or chained
            final = _final(error, url)
            if final is not None:
                raise final from (None if final is error else error)
            if number >= tries:
                raise StoreError(
                    f"{url}: no answer, though it was asked {number} times in {time.monotonic() - start:.1f} s: "
                    f"{_words_of(error)}. Is the store there, and the network?"
                ) from error
        time.sleep(min(_FIRST_PAUSE_S * 2 ** (number - 1), _LONGEST_PAUSE_S) * _pauses.uniform(0.5, 1.5))


def status_of(error: Exception) -> int:
    """The HTTP status of a store's error; 0 if it has none."""
    for name in ("status", "code", "status_code"):
        value = getattr(error, name, None)
        if isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
            return int(value)
    return 0


def _final(error: Exception, url: str) -> Exception | None:
    """The error to raise if a retry can't help; None if it may."""
    status = status_of(error)
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return FileNotFoundError(errno.ENOENT, "the store has no such file", url)
    if isinstance(error, PermissionError) or status in (401, 403):
        return PermissionError(
            errno.EACCES, f"the store refuses to show it ({_words_of(error)}): check your credentials for it", url
        )
    if isinstance(error, FastpipeError):
        return error
    if type(error).__name__ in _WITHOUT_CREDENTIALS:
        return StoreError(
            f"{url}: {_words_of(error)}. Set them up as for the store's own tools (environment variables, config "
            "files, instance roles), or give them: fastpipe.RemoteSource(url, …); anon=True reads what is public on S3."
        )
    if (400 <= status < 500 and status not in _MAY_PASS) or getattr(error, "errno", None) in _FOR_GOOD:
        return StoreError(f"{url}: the store refuses: {_words_of(error)}.")
    is_theirs = type(error).__module__.partition(".")[0] not in ("builtins", "fastpipe")
    return None if is_theirs or isinstance(error, (OSError, TimeoutError, asyncio.TimeoutError)) else error


def _words_of(error: Exception) -> str:
    """The text of an error, on one line."""
    number: int | None = getattr(error, "errno", None)
    text = " ".join(str(error).split()) or (os.strerror(number) if number else "")
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
