"""The base of readers, which turn an image file's bytes into pixels."""

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
    """The base of readers, which decode whole image files.

    A subclass sets `name` and `formats` and defines `decode`. Making the instance loads the library: an ImportError or
    OSError means that the reader isn't available. All threads share one instance.
    """

    name: ClassVar[str]
    formats: ClassVar[frozenset[str]]
    """The formats that it reads, by Pillow's names (``"JPEG"``); ``"*"`` for any, which only Pillow has."""
    proves: ClassVar[bool] = False
    """True if the reader itself refuses every file that Pillow may read differently, so that no check is needed."""
    distribution: ClassVar[str] = ""
    """The distribution's name for pip; empty if `version` asks the library."""
    refusals: ClassVar[tuple[type[Exception], ...]] = (RuntimeError, ValueError)
    """The exceptions for which Pillow decodes the file without a warning; for any others a warning is issued."""

    @property
    def version(self) -> str:
        """The library's version, for reports."""
        return (self.distribution and installed(self.distribution)) or ""

    def libraries(self) -> Mapping[str, str]:
        """The reader's libraries, its package first, with their versions, as far as they are known."""
        return {self.distribution or self.name: self.version}

    def accepts(self, header: Header) -> bool:
        """True if the header proves that this reader gives Pillow's pixels, or refuses the file.

        True for JPEGs, PNGs and WebP files with `Header.plain`, except progressive and interlaced ones. A reader of
        another format overrides this with its own proof.
        """
        return header.plain and not header.progressive and header.format in self.formats

    @abstractmethod
    def decode(self, data: bytes) -> Pixels:
        """Decodes a whole file that the reader accepts, to ``(H, W, 3)`` uint8 RGB.

        Raises:
            Exception: the library refuses the file, or warns about it.
        """

    def __repr__(self) -> str:
        return f"<reader {self.name!r} {self.version}>"
