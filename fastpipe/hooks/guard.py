"""`guard`: what a hook does besides the library's own call never ends or changes the script."""

from __future__ import annotations

from types import TracebackType

from fastpipe.hooks.ledger import LEDGER, named
from fastpipe.plain_way import raise_interruption


class guard:
    """A block in a hook, such as accounting: an error in it is noted for the report, once, and the hook goes on.

    The library's own call isn't in the block, as its errors are the script's. What a signal's handler raised passes,
    and so do ``MemoryError`` and ``RecursionError``.

    .. code:: python

        batch = plain(self)
        with guard("the times of a loader"):
            site.images += samples_in(batch)

    Args:
        what: what the script goes on without, for the report.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        raise_interruption(error)
        LEDGER.note(f"fastpipe failed ({named(error)}): the script went on without {self._what}.")
        return True
