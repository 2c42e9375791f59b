"""Comparisons with the plain way: only a file's first few parts are compared, with one plain decode of the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Plain = TypeVar("Plain")

MOST_COMPARED = 8
"""The most parts of one file that are compared: a slide is cut into thousands."""


class Comparisons(Generic[Plain]):
    """The comparisons of what is made from one file.

    Args:
        make: makes the file's plain image or tensor by the library alone.

    Attributes:
        left: how many further parts of the file may be compared.
    """

    __slots__ = ("_make", "_plain", "left")

    def __init__(self, make: Callable[[], Plain]) -> None:
        self._make = make
        self._plain: Plain | None = None
        self.left = MOST_COMPARED

    def plain(self) -> Plain:
        """The file's plain image or tensor, for one comparison; made once for all that are left, and never changed."""
        plain = self._make() if self._plain is None else self._plain
        self.left -= 1
        self._plain = plain if self.left > 0 else None
        return plain
