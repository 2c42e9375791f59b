"""Headers of image files: `read_header` and `parse_header`.

The core reads the headers of JPEGs, PNGs and packed images, in microseconds, and `_parse_webp` those of simple WebP
files. Pillow reads headers of other formats and unusual ones, and those of JPEGs and PNGs if the core isn't available.
"""

from __future__ import annotations

import io
import os
from struct import unpack_from
from typing import IO, Any

from PIL import Image

from fastpipe import core
from fastpipe.core.files import MAYBE_MPO
from fastpipe.core.packed import PACKED_FORMAT, is_packed
from fastpipe.errors import DecodeError, ReaderUnavailableError
from fastpipe.foreign_code import errors_as, outcome_of
from fastpipe.readers._files import read_file, read_start
from fastpipe.readers._jpeg import refuse_absurd_head
from fastpipe.readers.pil import open_any_size
from fastpipe.types import ArchiveMember, Header

BytesLike = bytes | bytearray | memoryview
Source = str | os.PathLike[str] | BytesLike

# Most headers fit in the first prefix; a large EXIF thumbnail or colour profile needs the second or third.
_PREFIXES = (4096, 1 << 16, 1 << 20)

_LATE_ORIENTATION = (b"eXIf", b"Raw profile type exif", b"XML:com.adobe.xmp")

_NOT_OF_FILES = (MemoryError, RecursionError)
"""Errors that say nothing of a file."""

_BITS = {"1": 1, "I;16": 16, "I;16B": 16, "I;16L": 16, "I": 32, "F": 32}


def as_bytes(data: BytesLike) -> bytes:
    """Converts bytes-like data to bytes; copies only other buffers than bytes."""
    if type(data) is bytes:
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(
            f"an image is given as a path (str or os.PathLike) or as bytes-like data, not {type(data).__name__}"
        ) from None


def parse_header(data: BytesLike, source: str = "<bytes>") -> Header:
    """Parses the header of an image in memory, without decoding a pixel.

    Args:
        data: the whole file.
        source: the file's name in errors.

    Raises:
        DecodeError: neither fastpipe nor Pillow recognises the file.
    """
    data = as_bytes(data)
    header, _ = _parse(data, source)
    if header is None or header.format == MAYBE_MPO:
        return _completed(header, _ask_pillow(io.BytesIO(data), source, data[:16]))
    return header


def read_header(src: Source) -> Header:
    """Reads format, size, channels, bit depth, orientation and more of an image file, without decoding a pixel.

    Reads only the first 4 KiB of a path if they contain the header.

    Args:
        src: a path, or the file as bytes-like data. The format comes from the bytes, never from the extension.

    Raises:
        DecodeError: the file is no image that Pillow recognises.
        OSError: the path can't be opened (FileNotFoundError, IsADirectoryError, …).
    """
    if not isinstance(src, (str, os.PathLike)):
        return parse_header(src)
    path = os.fspath(src)
    for size in _PREFIXES:
        data = read_start(path, size)
        header, is_cut = _parse(data, str(path))
        if header is not None and header.format != MAYBE_MPO:
            return header
        if not is_cut or len(data) < size:
            break
    # A JPEG is read whole before Pillow is asked, because Pillow would read any number of segments.
    if isinstance(path, ArchiveMember) or (is_cut and data.startswith(b"\xff\xd8\xff")):
        return parse_header(read_file(path, None), str(path))
    with open(path, "rb", buffering=0) as file:
        return _completed(header, _ask_pillow(file, str(path), data[:16]))


def upright_orientation(data: bytes, header: Header) -> int:
    """The orientation that `PIL.ImageOps.exif_transpose` would apply.

    It is the header's, except for a PNG with EXIF data or XMP after its pixels, which the header doesn't have.
    """
    begin = max(header.data_offset, 0)
    if header.format != "PNG" or not any(data.find(mark, begin) > 0 for mark in _LATE_ORIENTATION):
        return header.orientation

    def told() -> int:
        with open_any_size(io.BytesIO(data)) as image:
            image.load()  # EXIF data after the pixels replaces that before them
            return _valid_orientation(image.getexif().get(0x0112))

    found = outcome_of(told, *_NOT_OF_FILES)
    return header.orientation if isinstance(found, Exception) else found  # a damaged file is refused when decoded


def _valid_orientation(value: object) -> int:
    """The value if it equals one of the eight orientations (a float or fraction may, as in Pillow), else 1."""
    return next((orientation for orientation in range(1, 9) if orientation == value), 1)


def _completed(header: Header | None, pillows: Header) -> Header:
    """Pillow's header, or the parsed one with Pillow's format and animation, which need its reading of an index."""
    if header is None:
        return pillows
    return header._replace(format=pillows.format, animated=pillows.animated)


def _parse(data: bytes, source: str) -> tuple[Header | None, bool]:
    """The header, or None if Pillow has to read it; and whether the data is cut off, so that more of it may help."""
    format = guess_format(data)
    if format == "WEBP":
        return _parse_webp(data), False
    if format not in ("JPEG", "PNG", PACKED_FORMAT):
        return None, False
    if core.available():
        parsed = core.read_header(data)
        if isinstance(parsed, Header):
            return parsed, False
        if format == PACKED_FORMAT and parsed != core.Status.TRUNCATED:
            raise DecodeError(source, format, "core", f"its head can't be read: {core.status_text(parsed)}")
        if parsed == core.Status.TRUNCATED and format != "JPEG":
            return None, True
    elif format == PACKED_FORMAT:
        raise ReaderUnavailableError(
            f"{source} is a packed image, which fastpipe's core alone reads, and {core.why_not()}. Or unpack it, where "
            "the core is, to a JPEG that every decoder reads"
        )
    return None, format == "JPEG" and refuse_absurd_head(data, source)


def _parse_webp(data: bytes) -> Header | None:
    """The header of a WebP file that contains one picture and nothing else; None for others."""
    if len(data) < 30:
        return None
    riff_bytes, kind, size = unpack_from("<I4x4sI", data, 4)
    plain = riff_bytes == 12 + size + (size & 1)
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a" and not data[20] & 1:
        width, height = unpack_from("<HH", data, 26)
        return Header("WEBP", height & 0x3FFF, width & 0x3FFF, 3, 8, "RGB", "4:2:0", data_offset=20, plain=plain)
    if kind == b"VP8L" and data[20] == 0x2F and not data[24] >> 4:  # no transparency, version 0
        bits = int.from_bytes(data[21:25], "little")
        return Header("WEBP", (bits >> 14) + 1, (bits & 0x3FFF) + 1, 3, 8, "RGB", data_offset=20, plain=plain)
    return None


def guess_format(data: bytes) -> str | None:
    """The format by its magic number; None for other formats of Pillow's, and for files that are no images."""
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

    def refused(error: Exception) -> DecodeError:
        reason = str(error) or type(error).__name__
        if not start:
            reason = "the file is empty"
        elif type(error).__name__ == "UnidentifiedImageError":
            reason = "not an image that Pillow recognises; it is damaged or of another kind"
        return DecodeError(source, guess_format(start), "pil", reason)

    with (
        errors_as(refused, *_NOT_OF_FILES),
        open_any_size(file) as image,
    ):  # Pillow's plugins raise nearly anything on a damaged file
        orientation: object = 1
        if image.format != "TIFF":  # Pillow turns a TIFF upright by itself when it loads
            # image.getexif() would load a PNG's pixels to read what follows them.
            orientation = outcome_of(lambda: Image.Image.getexif(image).get(0x0112), *_NOT_OF_FILES)
        animated = outcome_of(lambda: bool(getattr(image, "is_animated", False)), *_NOT_OF_FILES)
        return Header(
            image.format or "",
            image.height,
            image.width,
            len(image.getbands()),
            _BITS.get(image.mode, 8),
            _jpeg_color(image) if image.format in ("JPEG", "MPO") else image.mode,
            "unknown" if image.format in ("JPEG", "MPO") and len(image.getbands()) > 1 else None,
            bool(image.info.get("progressive") or image.info.get("interlace")),
            _valid_orientation(orientation),  # 1 for damaged EXIF data
            animated is True,  # False for a damaged second frame
            "transparency" in image.info,
        )


def _jpeg_color(image: Any) -> str:
    """The color space of a JPEG opened by Pillow, by libjpeg's rule (jdapimin.c, default_decompress_parms)."""
    transform = image.info.get("adobe_transform")
    if image.mode == "CMYK":
        return "YCCK" if transform == 2 else "CMYK"
    if image.mode != "RGB" or "jfif" in image.info:
        return "YCbCr" if image.mode == "RGB" else str(image.mode)
    is_rgb = [part[0] for part in image.layer] == [*b"RGB"] if transform is None else transform == 0
    return "RGB" if is_rgb else "YCbCr"
