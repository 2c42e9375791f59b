"""The base of readers: the bytes of an image file → its pixels, all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fastpipe.environment import installed
from fastpipe.types import Header

Pixels = NDArray[np.uint8]


class Reader(ABC):
    """One way of turning the bytes of an image file into pixels, all of them.

    A subclass sets `name` and `formats` and writes `decode`. Making the instance loads the library: an ImportError or
    OSError there means that the reader isn't available. One instance serves all threads.
    """

    name: ClassVar[str]
    formats: ClassVar[frozenset[str]]
    """Pillow's names of the formats that it reads (``"JPEG"``); Pillow alone reads any, ``"*"``."""
    proves: ClassVar[bool] = False
    """The reader itself refuses every file that Pillow might read otherwise; nobody needs to look before."""
    distribution: ClassVar[str] = ""
    """The distribution's name for pip; empty where `version` asks the library."""
    refusals: ClassVar[tuple[type[Exception], ...]] = (RuntimeError, ValueError)
    """The exceptions that the library raises for a file that it refuses; others are warned about. Pillow decides."""

    @property
    def version(self) -> str:
        """The library's version, for reports."""
        return (self.distribution and installed(self.distribution)) or ""

    def libraries(self) -> Mapping[str, str]:
        """The libraries in the reader, the package first, and their versions, as far as these can be told."""
        return {self.distribution or self.name: self.version}

    def accepts(self, header: Header) -> bool:
        """Whether the header proves that this reader gives Pillow's pixels (or refuses the file).

        True for JPEGs, PNGs and WebP files that are `Header.plain`, but progressive or interlaced ones. A reader of
        another format overrides this with a proof of its own.
        """
        return header.plain and not header.progressive and header.format in self.formats

    @abstractmethod
    def decode(self, data: bytes) -> Pixels:
        """The pixels of a whole file that the reader accepts: ``(H, W, 3)`` uint8 RGB.

        Raises:
            Exception: the library refuses the file, or warns about it.
        """

    def __repr__(self) -> str:
        return f"<reader {self.name!r} {self.version}>"
