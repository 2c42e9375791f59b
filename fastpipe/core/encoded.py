"""JPEGs and PNGs that the core reads, packed images among them: whoever opens an encoded image asks here.

A packed image is the JPEG that was packed: that has its header, and comes back where another decoder has to read it.
"""

from __future__ import annotations

from fastpipe.clock import uncounted
from fastpipe.core.files import MAYBE_MPO, jpeg_end, read_header
from fastpipe.core.library import available, status_text, why_not
from fastpipe.core.packed import PACKED_FORMAT, is_packed, is_whole, restore, segments_of, unpack_head
from fastpipe.errors import DecodeError
from fastpipe.types import Header


class JpegOrPng:
    """An encoded image in memory.

    Args:
        data: the file's bytes.
        stored: the header of these bytes as they are.

    Attributes:
        data, stored: the arguments.
        is_packed: whether the bytes are a packed image's.
    """

    __slots__ = ("_end", "_head", "_header", "data", "is_packed", "stored")

    def __init__(self, data: bytes, stored: Header) -> None:
        self.data, self.stored = data, stored
        self.is_packed = stored.format == PACKED_FORMAT
        self._head: bytes | None = None
        self._header = None if self.is_packed else stored
        self._end = -1

    @property
    def head(self) -> bytes:
        """All bytes of a JPEG before its first scan's data; those of a PNG up to its end.

        Raises:
            DecodeError: the metadata of a packed image are damaged.
        """
        if self._head is None:
            if self.is_packed:
                self._head = unpack_head(self.data)
            else:
                self._head = self.data if self.stored.format == "PNG" else self.data[: self.stored.data_offset]
        return self._head

    @property
    def header(self) -> Header:
        """The header of the JPEG or PNG, also of one that is packed.

        Raises:
            DecodeError: the metadata of a packed image are damaged.
        """
        if self._header is None:
            header = read_header(self.head)
            if not isinstance(header, Header):
                raise DecodeError("<bytes>", PACKED_FORMAT, "core", status_text(header))
            self._header = header
        return self._header

    @property
    def end(self) -> int:
        """The position after a JPEG's end marker: see `fastpipe.core.jpeg_end`. 0 for PNGs and packed images."""
        if self._end < 0:
            self._end = jpeg_end(self.data) if self.stored.format == "JPEG" else 0
        return self._end

    @property
    def segments(self) -> bytes:
        """A JPEG's segments for applications and comments before its first scan, possibly with other bytes."""
        if not self.is_packed:
            return self.head
        begin, end = segments_of(self.data)
        return self.data[begin:end]

    def is_intact(self) -> bool:
        """True if a JPEG is complete, so that every decoder reads it without an error. False for a PNG."""
        if self.is_packed:
            return is_whole(self.data)
        return self.stored.plain and self.end > 0


def jpeg_or_png(data: bytes, *, is_one_picture: bool = False) -> JpegOrPng | str:
    """Recognises a JPEG, a PNG or a packed image whose header the core reads.

    Args:
        data: the whole file.
        is_one_picture: Pillow has opened the file, and takes a JPEG with an index of several pictures for one.

    Returns:
        The image; or the reason why the file is left to other decoders.
    """
    if not available():
        return why_not()
    stored = read_header(data)
    if not isinstance(stored, Header):
        return status_text(stored)
    if stored.format == MAYBE_MPO:
        if not is_one_picture:
            return "a file with an index of several pictures"
        stored = stored._replace(format="JPEG")
    return JpegOrPng(data, stored)


def as_jpeg(data: bytes, source: str = "<bytes>") -> bytes:
    """The JPEG of a packed image, for decoders that know nothing of packed images; any other file's bytes themselves.

    Args:
        data: the whole file.
        source: the file's name in errors.

    Raises:
        DecodeError: a packed image is damaged.
        ReaderUnavailableError: it is a packed image, and the core isn't available.
    """
    if not is_packed(data):
        return data
    with uncounted():
        try:
            return restore(data)
        except DecodeError as error:
            failed = error
    raise DecodeError(source, failed.format, failed.reader, failed.reason)
