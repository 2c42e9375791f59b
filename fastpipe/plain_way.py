"""The plain way: images made by the libraries' own functions, although fastpipe has replaced some of these.

It is what fastpipe's results are compared with, and what decides whose mistake an error is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType


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


def own_function(function: object) -> object:
    """The library's own function if fastpipe has replaced it; else the function, without what binds it."""
    own: object = getattr(function, "__func__", function)
    while isinstance(own, FunctionType) and own.__globals__.get("__name__", "").startswith("fastpipe."):
        wrapped: object = vars(own).get("__wrapped__")
        if wrapped is None:  # not a replacement
            break
        own = wrapped
    return own
