"""Makes images smaller before they are packed.

    smaller = Smaller(max_side=512)
    data, changes = smaller.apply(data)  # the same bytes, and None, if the image isn't larger

`Smaller` has the limits, `Changes` describes the change of one image, and adds up to that of many.
"""

from __future__ import annotations

import io
import math
import struct
from dataclasses import dataclass

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from fastpipe.core.packed import PACKED_FORMAT
from fastpipe.errors import ConfigError, DecodeError, NotPackableError
from fastpipe.index.table import Array
from fastpipe.pillow.files import open_image
from fastpipe.png import chunks_of
from fastpipe.readers import parse_header
from fastpipe.types import Header, Size

__all__ = ["DEFAULT_QUALITY", "Changes", "Smaller"]

DEFAULT_QUALITY = 90
"""The default quality of re-encoded images; FFCV's."""

_MOST_SIDE = 65_500  # the longest side of a JPEG that libjpeg writes
_JPEGS = ("JPEG", "MPO")
_SUBSAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}  # all that Pillow writes
_METADATA = ("icc_profile", "exif", "xmp", "comment", "dpi")  # of Pillow's `info`, and of what its encoders take
_CHUNKS = (b"gAMA", b"cHRM", b"sRGB", b"cICP", b"tIME", b"tEXt", b"zTXt", b"iTXt")
_PEAK = 255


@dataclass(frozen=True)
class Changes:
    """The change of an image, or the sums over the changes of many; ``Changes()`` is of none.

    Attributes:
        images: the number of changed images.
        pixels_before: their pixels before.
        pixels_after: their pixels after.
        bytes_before: bytes of their files before.
        bytes_after: bytes of their files after.
        squared_error: the sum of the images' mean squared errors of the encoding: between the pixels that were encoded,
            0 to 255, and the pixels decoded from the new file. 0 if it is lossless.
        largest_squared_error: the largest mean squared error of an image.
    """

    images: int = 0
    pixels_before: int = 0
    pixels_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    squared_error: float = 0.0
    largest_squared_error: float = 0.0

    def __add__(self, other: Changes) -> Changes:
        return Changes(
            self.images + other.images,
            self.pixels_before + other.pixels_before,
            self.pixels_after + other.pixels_after,
            self.bytes_before + other.bytes_before,
            self.bytes_after + other.bytes_after,
            self.squared_error + other.squared_error,
            max(self.largest_squared_error, other.largest_squared_error),
        )

    @property
    def psnr(self) -> float:
        """Peak signal-to-noise ratio of the encoding, in dB, from the mean of the images' squared errors."""
        return _psnr(self.squared_error / max(self.images, 1))

    @property
    def lowest_psnr(self) -> float:
        """The PSNR of the image that encoding changed most."""
        return _psnr(self.largest_squared_error)


@dataclass(frozen=True)
class Smaller:
    """The largest size of images; larger images are resized and encoded again, by Pillow's filter and encoders.

    An image that isn't larger stays as it is, byte for byte, whatever its quality.

    Sizes are those of the stored image, before EXIF orientation, and the aspect ratio is kept: with ``short_side=256``
    an image gets the size of torchvision's ``Resize(256)``. The filter is antialiased Lanczos. (img2dataset and FFCV
    average areas, like Pillow's ``BOX``; random crops then differ more from those of the original.) Palette images and
    1-bit images can't be interpolated, and get the nearest pixel, as in Pillow.

    - JPEGs keep mode (gray, RGB, CMYK), subsampling (or 4:4:4 if Pillow can't write it), ICC profile, XMP, comment, and
      EXIF data including the orientation. Of several pictures in a file (MPO), the first is kept.
    - PNGs of up to 8 bits stay PNGs, without loss, in their mode and with their metadata.
    - WebPs stay lossy or lossless, with ICC profile, EXIF data and XMP.

    Other images that are larger (16 bits, a transparent color, animations, other formats) raise an error.

    Gray PNGs are resized like pictures: don't make maps of labels or depth smaller.

    Args:
        max_side: the most pixels of the longer side; ``--max-side``.
        short_side: the most pixels of the shorter side; ``--short-side``. Give one of the two.
        quality: Pillow's ``quality`` for lossy formats, 1 to 100; ``--quality``.

    Raises:
        ConfigError: no side is given, or both are, or a number is invalid.
    """

    max_side: int | None = None
    short_side: int | None = None
    quality: int | None = None

    def __post_init__(self) -> None:
        _check("max_side", self.max_side, _MOST_SIDE, "pixels")
        _check("short_side", self.short_side, _MOST_SIDE, "pixels")
        _check("quality", self.quality, 100, "Pillow's scale")
        if self.max_side is not None and self.short_side is not None:
            raise ConfigError(
                f"max_side={self.max_side} and short_side={self.short_side}: an image can keep its shape with one of "
                "them, so give one."
            )
        if self.max_side is None and self.short_side is None:
            raise ConfigError("nothing says what to make smaller: give max_side or short_side.")

    def size_of(self, size: Size) -> Size:
        """The height and width of an image after the resize; unchanged if it isn't larger."""
        shorter, longer = sorted(size)
        if self.max_side is not None and longer > self.max_side:
            scaled = (max(1, self.max_side * shorter // longer), self.max_side)
        elif self.short_side is not None and shorter > self.short_side:
            scaled = (self.short_side, self.short_side * longer // shorter)
        else:
            return size
        return Size(*(scaled if size.height <= size.width else scaled[::-1]))

    def apply(self, data: bytes) -> tuple[bytes, Changes | None]:
        """Makes an image smaller, if it is larger.

        Args:
            data: the whole file.

        Returns:
            The new file and its change; the same bytes and None if the image isn't larger.

        Raises:
            NotPackableError: the image is larger, but can't be made smaller, or Pillow can't read it.
        """
        try:
            header = parse_header(data)
        except DecodeError as error:
            raise NotPackableError(f"its size can't be read: {error.reason}") from error
        size = self.size_of(header.size)
        if size == header.size:
            return data, None
        _refuse_others(header)
        try:
            pixels, encoded = self._encoded(data, header, size)
            decoded = np.asarray(open_image(encoded))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise NotPackableError(f"it was to be made smaller, and Pillow can't: {error}") from error
        before, after = math.prod(header.size), math.prod(size)
        squared_error = _squared_error(pixels, decoded)
        return encoded, Changes(1, before, after, len(data), len(encoded), squared_error, squared_error)

    def _encoded(self, data: bytes, header: Header, size: Size) -> tuple[Array, bytes]:
        """Resizes an image; returns the pixels, and the new file."""
        image = open_image(data)
        metadata: dict[str, object] = {name: image.info[name] for name in _METADATA if image.info.get(name)}
        resized = image.resize((size.width, size.height), Image.Resampling.LANCZOS)
        out = io.BytesIO()
        quality = self.quality or DEFAULT_QUALITY
        if header.format in _JPEGS:
            sampling = _SUBSAMPLINGS.get(str(header.subsampling), 0) if image.mode == "RGB" else -1
            resized.save(out, "JPEG", quality=quality, subsampling=sampling, **metadata)
        elif header.format == "PNG":
            chunks = PngInfo()
            for name, start, end in chunks_of(data):
                if name in _CHUNKS:
                    chunks.add(name, data[start:end])
            resized.save(out, "PNG", pnginfo=chunks, **metadata)
        else:
            resized.save(out, "WEBP", quality=quality, lossless=_is_lossless(data), **metadata)
        return np.asarray(resized), out.getvalue()


def _is_lossless(webp: bytes) -> bool:
    """True if a WebP is lossless."""
    position = 12
    while position + 8 <= len(webp):
        name, length = struct.unpack_from("<4sI", webp, position)
        if name in (b"VP8 ", b"VP8L"):
            return bool(name == b"VP8L")
        position += 8 + length + length % 2
    return False


def _check(name: str, number: object, most: int, unit: str) -> None:
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= most):
        return
    raise ConfigError(f"{name}={number!r}: give an integer from 1 to {most:,} ({unit}), or None.")


def _refuse_others(header: Header) -> None:
    """Raises NotPackableError for an image that can't be encoded again in its format and mode."""
    if header.format == PACKED_FORMAT:
        reason = "it is a packed image already: make the original smaller, or unpack it first"
    elif header.format in _JPEGS:
        return
    elif header.animated:
        reason = "it has several frames"
    elif header.format not in ("PNG", "WEBP"):
        reason = f"{header.format} isn't encoded here: JPEG, PNG and WebP are"
    elif header.bit_depth > 8:
        reason = f"it has {header.bit_depth} bits a sample, and would be cut to 8"
    elif header.format == "PNG" and header.transparency and header.color_space != "P":
        reason = "one of its colors is transparent, which can't be interpolated"
    else:
        return
    raise NotPackableError(f"it is larger than the limit, and stays so: {reason}")


def _squared_error(one: Array, other: Array) -> float:
    if one.dtype == bool:  # 1 bit: black and white
        one, other = one * np.uint8(_PEAK), other * np.uint8(_PEAK)
    difference = np.subtract(one, other, dtype=np.int32)
    return float(np.mean(difference * difference))


def _psnr(squared_error: float) -> float:
    return math.inf if squared_error == 0 else 10 * math.log10(_PEAK**2 / squared_error)
