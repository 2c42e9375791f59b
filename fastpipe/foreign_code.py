"""Runs code that isn't fastpipe's, such as a user's function or a library's decoder, which may raise anything.

Its error becomes a value (`outcome_of`), or another error that says where it came from (`errors_as`). Where a library's
own way could make the same, see `fastpipe.mistakes`; in hooks, `fastpipe.hooks.guard`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

Result = TypeVar("Result")


def outcome_of(call: Callable[[], Result], *passing: type[Exception]) -> Result | Exception:
    """The result of somebody else's code, or the error that it raises.

    Args:
        call: the code.
        passing: classes of errors that are raised.
    """
    try:
        return call()
    except passing:
        raise
    except Exception as error:  # of any class; the caller decides
        return error


class errors_as:
    """A block of somebody else's code: an error in it is raised as another one, of which it is the cause.

    Args:
        make: makes the other error.
        passing: classes of errors that pass as they are.
    """

    __slots__ = ("_make", "_passing")

    def __init__(self, make: Callable[[Exception], Exception], *passing: type[Exception]) -> None:
        self._make, self._passing = make, passing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, self._passing):
            raise self._make(error) from error
