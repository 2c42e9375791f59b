"""Marks in the pipeline's own code: each piece of work says when it is done, and a listener may take the time.

What lies between two marks is the time of the piece that the second one names, so the pieces of a stretch of work add
up to all of it. Where nobody listens a mark costs less than 0.1 µs; a sample has about ten.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator

Listener = Callable[[object], None]

listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("fastpipe_profile", default=None)
"""This thread's listener; None where nobody profiles."""


def mark(done: object) -> None:
    """Tells this thread's listener, if it has one, what was done since the last mark.

    Args:
        done: the step or transform that ran, or a word for what is neither: ``"look-up"``, ``"read"``, ``"header"``,
            ``"draw"``, ``"plan"``, ``"decode"``, ``"to PIL"``, ``"convert"``, ``"target"``, ``"collate"``.
    """
    tell = listener.get()
    if tell is not None:
        tell(done)


def profiled() -> bool:
    """Whether this thread has a listener: then work is done piece by piece, so that each can be told."""
    return listener.get() is not None


@contextlib.contextmanager
def profile(tell: Listener) -> Iterator[None]:
    """Calls a listener at every mark of this thread within the block; other threads, a dataset's too, go unheard."""
    token = listener.set(tell)
    try:
        yield
    finally:
        listener.reset(token)
