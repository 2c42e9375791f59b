"""The base of readers: each declares what it can do, says what it would return, and returns exactly that."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fastpipe.environment import installed
from fastpipe.errors import DecodeError, UnsupportedRequestError
from fastpipe.readers.defects import Defect
from fastpipe.types import Box, DecodeRequest, Header, Size

Pixels = NDArray[np.uint8]

WHOLE_IMAGE = DecodeRequest()
"""The whole image at full size."""

_KEEP_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Capabilities:
    """A reader's abilities, worked out once from the library that it loaded.

    Attributes:
        formats: Pillow's names of the formats that it reads (``"JPEG"``); where it reads any, ``"*"``.
        regions: decodes a box without the pixels around it.
        scales: denominators of the reduced sizes that cost less than the full one (JPEG: 1, 2, 4, 8).
        reference: the reader is Pillow itself, which no header needs to be proved for.
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


def scaled_size(size: tuple[int, int], scale: int) -> Size:
    """The size of an image or a box at a reduced scale, rounded up as libjpeg-turbo does."""
    return Size(-(-size[0] // scale), -(-size[1] // scale))


def covering_box(box: Box, size: Size, scale: int) -> Box:
    """The smallest box around a box whose edges are whole pixels of the reduced image (or the image's edges)."""
    top, left = box.top // scale * scale, box.left // scale * scale
    bottom = min(-(-box.bottom // scale) * scale, size.height)
    right = min(-(-box.right // scale) * scale, size.width)
    return Box(top, left, bottom - top, right - left)


class Reader(ABC):
    """One way of turning the bytes of an image file into pixels.

    A subclass sets `name`, gives `capabilities` and writes `decode`; `accepts` and `resolve` follow from the
    capabilities and are overridden where the library has rules of its own. Making the instance loads the library:
    an ImportError or OSError there means that the reader isn't available. One instance serves all threads.
    """

    name: ClassVar[str]
    distribution: ClassVar[str] = ""
    """The distribution's name for pip; empty where `version` asks the library."""
    capabilities: Capabilities
    defects: tuple[Defect, ...] = ()
    """Formats that are refused because of the library's version."""

    @property
    def version(self) -> str:
        """The library's version, for reports."""
        return (self.distribution and installed(self.distribution)) or ""

    def accepts(self, header: Header) -> bool:
        """Whether the header proves that this reader gives Pillow's pixels (or refuses the file).

        `Header.plain` is fastpipe's proof for JPEG, PNG and WebP and false for other formats: a reader of one of those
        overrides this with a proof of its own.
        """
        return header.plain and header.format in self.capabilities.formats

    def resolve(self, header: Header, request: DecodeRequest) -> DecodeRequest:
        """The box and scale that `decode` returns for that request; no pixel is touched.

        The scale is the largest one offered that doesn't exceed the one asked for. The box covers the one asked
        for: exactly it at scale 1, up to the reduced pixels' edges otherwise; None, so all of the image, where the
        reader has no regions.
        """
        scale = self._scale(header, request.scale)
        if request.box is None or not self.capabilities.regions:
            return DecodeRequest(None, scale)
        return DecodeRequest(request.box if scale == 1 else covering_box(request.box, header.size, scale), scale)

    def _scale(self, header: Header, wanted: int) -> int:
        return max(scale for scale in self.capabilities.scales if scale <= max(wanted, 1))

    @abstractmethod
    def decode(self, data: bytes, request: DecodeRequest = WHOLE_IMAGE, out: Scratch | None = None) -> Pixels:
        """The pixels of a request that came from `resolve`.

        Args:
            data: the whole file.
            request: a box inside the image and a scale, as `resolve` gives them.
            out: memory to decode into; without it, or where the reader doesn't write into given memory, the result
                is fresh.

        Returns:
            ``(h, w, 3)`` uint8 RGB, ``(h, w)`` being the box at that scale. It may be a strided view, and with
            `out` it is valid until `out` is used again.

        Raises:
            DecodeError: the library refuses the file, or warns about it.
            UnsupportedRequestError: a box or scale that `resolve` wouldn't give.
        """

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

    def _refuse_box(self, request: DecodeRequest, height: int, width: int) -> UnsupportedRequestError:
        return UnsupportedRequestError(
            f"reader {self.name!r} can't give {request}: the image has {height}×{width} pixels; "
            "ask its resolve() for what it can give"
        )


class WholeImageReader(Reader):
    """A reader of whole images: a subclass writes `whole`, and may raise there what its library raises."""

    refusals: ClassVar[tuple[type[Exception], ...]] = (RuntimeError, ValueError)
    """The exceptions that the library raises for a file that it refuses."""

    def decode(self, data: bytes, request: DecodeRequest = WHOLE_IMAGE, out: Scratch | None = None) -> Pixels:
        if request.box is not None:
            raise UnsupportedRequestError(
                f"reader {self.name!r} decodes whole images only, not {request.box}; its resolve() gives box=None"
            )
        if request.scale not in self.capabilities.scales:
            raise UnsupportedRequestError(
                f"reader {self.name!r} decodes at the scales {self.capabilities.scales}, not {request.scale}"
            )
        try:
            pixels = self.whole(data, request.scale, Scratch() if out is None else out)
        except UnsupportedRequestError:
            raise
        except self.refusals as error:
            raise DecodeError("<bytes>", None, self.name, str(error) or type(error).__name__) from error
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise DecodeError("<bytes>", None, self.name, f"gives {pixels.dtype} {pixels.shape}, not 8-bit RGB")
        return pixels

    @abstractmethod
    def whole(self, data: bytes, scale: int, out: Scratch) -> Pixels:
        """Decodes a whole image at a scale that `capabilities` has; see `decode`."""
