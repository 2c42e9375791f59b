"""Headers of image files: `read_header` and `parse_header`.

JPEG, PNG, WebP and packed images are parsed here in microseconds; other formats and whatever is odd are Pillow's to
describe.
"""

from __future__ import annotations

import io
import os
from typing import IO, Any

from PIL import Image

from fastpipe import core
from fastpipe.core.packed import PACKED_FORMAT, is_packed
from fastpipe.errors import DecodeError, ReaderUnavailableError
from fastpipe.readers._containers import parse_png, parse_webp
from fastpipe.readers._exif import valid_orientation
from fastpipe.readers._files import open_file, read_file, read_start
from fastpipe.readers._jpeg import MAYBE_MPO, parse_jpeg
from fastpipe.readers._pillow import open_any_size
from fastpipe.types import ArchiveMember, Header

BytesLike = bytes | bytearray | memoryview
Source = str | os.PathLike[str] | BytesLike

# Most headers fit in the first; a large EXIF thumbnail or colour profile needs the second or third.
_PREFIXES = (4096, 1 << 16, 1 << 20)

_LATE_ORIENTATION = (b"eXIf", b"Raw profile type exif", b"XML:com.adobe.xmp")

_BITS = {"1": 1, "I;16": 16, "I;16B": 16, "I;16L": 16, "I": 32, "F": 32}


def as_bytes(data: Any) -> bytes:
    """The data as one bytes object; copied only where it is another kind of buffer."""
    if type(data) is bytes:
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(
            f"an image is given as a path (str or os.PathLike) or as bytes-like data, not {type(data).__name__}"
        ) from None


def parse_header(data: BytesLike, source: str = "<bytes>") -> Header:
    """The header of an image in memory, without decoding a pixel.

    Args:
        data: the whole file.
        source: what an error calls it.

    Raises:
        DecodeError: neither fastpipe nor Pillow recognises it.
    """
    data = as_bytes(data)
    header = _parse(data, source)
    if header is None or header.format == MAYBE_MPO:
        return _completed(header, _ask_pillow(io.BytesIO(data), source, data[:16]))
    return header


def read_header(src: Source) -> Header:
    """Format, size, channels, bit depth, orientation and more of an image file, without decoding a pixel.

    Of a path, only the first 4 KiB are read where these hold the header.

    Args:
        src: a path, or the file as bytes-like data. The format comes from the bytes, never from the extension.

    Raises:
        DecodeError: not an image that Pillow recognises.
        OSError: the path can't be opened (FileNotFoundError, IsADirectoryError, …).
    """
    if not isinstance(src, (str, os.PathLike)):
        return parse_header(src)
    path = os.fspath(src)
    if isinstance(path, ArchiveMember):
        return _header_of_member(path)
    descriptor, length = open_file(path)
    try:
        data, header = b"", None
        # Of a JPEG all, before Pillow is asked: it would take any number of segments, see parse_jpeg.
        for size in (*_PREFIXES, length):
            if size > _PREFIXES[-1] and not data.startswith(b"\xff\xd8\xff"):
                break
            more = os.read(descriptor, size - len(data))
            data += more
            header = _parse(data, str(path))
            if header is not None:
                if header.format == MAYBE_MPO:
                    break
                return header
            if not more or len(data) < size:
                break
        os.lseek(descriptor, 0, os.SEEK_SET)
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return _completed(header, _ask_pillow(file, str(path), data[:16]))
    finally:
        os.close(descriptor)


def _header_of_member(member: ArchiveMember) -> Header:
    for size in _PREFIXES:
        if size < member.length:
            header = _parse(read_start(member, size), str(member))
            if header is not None and header.format != MAYBE_MPO:
                return header
    return parse_header(read_file(member), str(member))


def upright_orientation(data: bytes, header: Header) -> int:
    """The orientation that `PIL.ImageOps.exif_transpose` would apply.

    The header's, except for a PNG with EXIF data or XMP behind its pixels, where only those who look find it.
    """
    if header.format != "PNG" or not any(data.find(mark, header.data_offset) > 0 for mark in _LATE_ORIENTATION):
        return header.orientation
    try:
        with open_any_size(io.BytesIO(data)) as image:
            image.load()  # EXIF data behind the pixels takes the place of that before them
            return valid_orientation(image.getexif().get(0x0112))
    except Exception:  # a damaged file is refused when it is decoded
        return header.orientation


def _completed(header: Header | None, pillows: Header) -> Header:
    """Pillow's header, or the parsed one with the format and frames that only Pillow's reading of an index tells."""
    if header is None:
        return pillows
    return header._replace(format=pillows.format, animated=pillows.animated)


def _parse(data: bytes, source: str) -> Header | None:
    """The header; None where the data is cut off, or Pillow had better say."""
    format = guess_format(data)
    if format == "WEBP":
        return parse_webp(data)
    if format not in ("JPEG", "PNG", PACKED_FORMAT):
        return None
    if core.available():
        found = core.read_header(data)
        if isinstance(found, Header):
            return found
        if found == core.Status.TRUNCATED:
            return None
        if format == PACKED_FORMAT:
            raise DecodeError(source, format, "core", f"its head can't be read: {core.status_text(found)}")
        # EXIF data that only Pillow can read, or segments without end: rare, and the following know about them.
    elif format == PACKED_FORMAT:
        raise ReaderUnavailableError(
            f"{source} is a packed image, which fastpipe's core alone reads, and {core.why_not()}. Or unpack it, where "
            "the core is, to a JPEG that every decoder reads"
        )
    return parse_png(data) if format == "PNG" else parse_jpeg(data, source)


def guess_format(data: bytes) -> str | None:
    """The format that the magic number shows; None for one of Pillow's others, and for what is no image."""
    if data.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WEBP"
    if is_packed(data):
        return PACKED_FORMAT
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    if data.startswith((b"II*\0", b"MM\0*")):
        return "TIFF"
    return "BMP" if data.startswith(b"BM") else None


def _ask_pillow(file: IO[bytes], source: str, start: bytes) -> Header:
    if is_packed(start):
        raise DecodeError(source, PACKED_FORMAT, "core", "it ends before its head does")
    try:
        with open_any_size(file) as image:
            orientation = 1
            if image.format != "TIFF":  # Pillow turns a TIFF upright by itself when it loads
                try:
                    # Not image.getexif(), which loads a PNG's pixels to see what follows them.
                    orientation = valid_orientation(Image.Image.getexif(image).get(0x0112))
                except Exception:  # damaged EXIF data raises nearly anything, and has no orientation to give
                    orientation = 1
            try:
                animated = bool(getattr(image, "is_animated", False))
            except Exception:  # the second frame is damaged
                animated = False
            return Header(
                image.format or "",
                image.height,
                image.width,
                len(image.getbands()),
                _BITS.get(image.mode, 8),
                image.mode,
                "unknown" if image.format in ("JPEG", "MPO") and len(image.getbands()) > 1 else None,
                bool(image.info.get("progressive") or image.info.get("interlace")),
                orientation,
                animated,
                "transparency" in image.info,
            )
    except Exception as error:  # Pillow's plugins raise nearly anything on a damaged file
        reason = str(error) or type(error).__name__
        if not start:
            reason = "the file is empty"
        elif type(error).__name__ == "UnidentifiedImageError":
            reason = "not an image that Pillow recognises; it is damaged or of another kind"
        raise DecodeError(source, guess_format(start), "pil", reason) from error
