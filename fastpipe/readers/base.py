"""The base of readers: the bytes of an image file → its pixels, all of them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fastpipe.environment import installed
from fastpipe.errors import UnsupportedRequestError
from fastpipe.types import Box, DecodeRequest, Header

Pixels = NDArray[np.uint8]

WHOLE_IMAGE = DecodeRequest()
"""The whole image at full size."""

_KEEP_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Capabilities:
    """A reader's abilities.

    Attributes:
        formats: Pillow's names of the formats that it reads (``"JPEG"``); where it reads any, ``"*"``.
        regions: decodes a box without the pixels around it, as the core alone does. From another reader's whole image
            the box is cut out.
        scales: denominators of the reduced sizes that cost less than the full one; Pillow alone has any.
        reference: the reader is Pillow itself, which no file needs to be proved for.
        proves: the reader itself refuses every file that Pillow might read otherwise; nobody needs to look before.
        indices: gives a palette's indices, too: `Reader.decode_indices`.
    """

    formats: frozenset[str]
    regions: bool = False
    scales: tuple[int, ...] = (1,)
    reference: bool = False
    proves: bool = False
    indices: bool = False


class Scratch:
    """Memory that is used again for every image: a new half megabyte costs a quarter of a decode in page faults.

    The array that `take` gives is valid until the next `take`.
    """

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer: Pixels = np.empty(0, np.uint8)

    def take(self, height: int, width: int, channels: int = 3) -> Pixels:
        """An uninitialised, contiguous ``(height, width, channels)`` uint8 array."""
        needed = height * width * channels
        if needed > self._buffer.size:
            if needed > _KEEP_BYTES:  # one huge image must not hold its memory for the rest of the training
                return np.empty((height, width, channels), np.uint8)
            # Exact at first, then with room to grow.
            self._buffer = np.empty(needed + (needed >> 2 if self._buffer.size else 0), np.uint8)
        return self._buffer[:needed].reshape(height, width, channels)


_local = threading.local()


def thread_scratch() -> Scratch:
    """The calling thread's own scratch memory."""
    try:
        scratch: Scratch = _local.scratch
    except AttributeError:
        scratch = _local.scratch = Scratch()
    return scratch


class Reader(ABC):
    """One way of turning the bytes of an image file into pixels.

    A subclass sets `name` and `capabilities` and writes `decode`. Making the instance loads the library: an ImportError
    or OSError there means that the reader isn't available. One instance serves all threads.
    """

    name: ClassVar[str]
    distribution: ClassVar[str] = ""
    """The distribution's name for pip; empty where `version` asks the library."""
    refusals: ClassVar[tuple[type[Exception], ...]] = (RuntimeError, ValueError)
    """The exceptions that the library raises for a file that it refuses; others are warned about. Pillow decides."""
    capabilities: Capabilities

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
        return header.plain and not header.progressive and header.format in self.capabilities.formats

    @abstractmethod
    def decode(self, data: bytes) -> Pixels:
        """The pixels of a whole file that the reader accepts: ``(H, W, 3)`` uint8 RGB.

        Raises:
            Exception: the library refuses the file, or warns about it.
        """

    def resolve(self, header: Header, request: DecodeRequest) -> DecodeRequest:
        """The box and scale that `decode_request` gives for that request; no pixel is touched."""
        return DecodeRequest(request.box)

    def decode_request(self, data: bytes, request: DecodeRequest, scratch: Scratch) -> Pixels:
        """The pixels of a request that came from `resolve`.

        Args:
            data: the whole file.
            request: a box inside the image, or all of it.
            scratch: memory that may be decoded into.

        Returns:
            ``(h, w, 3)`` uint8 RGB, maybe a strided view, and maybe of the scratch memory.
        """
        pixels, box = self.decode(data), request.box
        return pixels if box is None else pixels[box.top : box.bottom, box.left : box.right]

    def decode_indices(self, data: bytes, box: Box) -> Pixels:
        """The indices of an image with a palette, or the levels of a gray one, where the capabilities say so.

        Args:
            data: the whole file.
            box: inside the image.

        Returns:
            ``(h, w)`` uint8, fresh.

        Raises:
            DecodeError: the library refuses the file.
            UnsupportedRequestError: the reader has no indices.
        """
        raise UnsupportedRequestError(f"reader {self.name!r} gives no indices")

    def __repr__(self) -> str:
        return f"<reader {self.name!r} {self.version}>"
