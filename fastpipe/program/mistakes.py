"""Judgement on an error of a fast way: the user's mistake where the plain way fails as well, else fastpipe's own."""

from __future__ import annotations

import threading
from collections.abc import Callable

_thread = threading.local()


def is_judging() -> bool:
    """True while the plain way is tried: whatever has a fast way leaves it."""
    return getattr(_thread, "is_judging", False)


def judge(error: Exception, plain: Callable[[], object]) -> None:
    """Raises an error that the plain way doesn't have: then it is fastpipe's, and must not pass for a refusal.

    Args:
        error: of the fast way.
        plain: the plain way, whose result isn't used. Where it fails, this returns, and the caller has the plain way
            tell the user what is wrong.
    """
    if is_judging():
        return
    _thread.is_judging = True
    try:
        plain()
    except Exception:
        return
    finally:
        _thread.is_judging = False
    raise error
