"""The plain way: images made by the libraries' own functions, although fastpipe has replaced some of these.

It is what fastpipe's results are compared with, and what decides whose mistake an error is.
"""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

from fastpipe.plain_lookup import class_attribute


class _Thread(threading.local):
    """A thread's state.

    Attributes:
        is_plain: within `plainly`.
    """

    is_plain = False


THREAD = _Thread()
"""For code that asks so often that a call of `is_plain` would take noticeable time."""


def is_plain() -> bool:
    """True within `plainly`."""
    return THREAD.is_plain


@contextmanager
def plainly() -> Iterator[None]:
    """Turns fast paths off in this thread, within the block: replaced functions call the originals."""
    before = THREAD.is_plain
    THREAD.is_plain = True
    try:
        yield
    finally:
        THREAD.is_plain = before


def raise_interruption(error: BaseException) -> None:
    """Raises the error again if it is nobody's mistake, so that no plain way may hide it.

    That is what a signal's handler raised, such as a time limit's, and that memory or the stack is used up.

    Args:
        error: the error of a fast path, or one that it caused; a handler is called wherever Python's code is.
    """
    if isinstance(error, (MemoryError, RecursionError)):
        raise error
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    cause: BaseException | None = error
    while handlers and cause is not None:
        trace = cause.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code in handlers:
                raise cause
            trace = trace.tb_next
        cause = cause.__cause__


def _code_of(handler: object) -> object:
    """The code object of a signal's handler: a function, a method, a partial, or an object that is called."""
    if isinstance(handler, functools.partial):
        handler = handler.func
    if not callable(handler):  # SIG_DFL, SIG_IGN; None for a handler that Python didn't set
        return None
    function = _unbound(handler)
    if not isinstance(function, FunctionType):
        function = class_attribute(handler, "__call__")
    return function.__code__ if isinstance(function, FunctionType) else None


def _unbound(function: Any) -> object:
    """The function that a method binds, or any other object itself."""
    return function.__func__ if type(function) in (MethodType, classmethod, staticmethod) else function


def own_function(function: object) -> object:
    """The library's own function if fastpipe has replaced it; else the function, without what binds it."""
    own = _unbound(function)
    while isinstance(own, FunctionType) and own.__globals__.get("__name__", "").startswith("fastpipe."):
        wrapped: object = vars(own).get("__wrapped__")
        if wrapped is None:  # not a replacement
            break
        own = wrapped
    return own
