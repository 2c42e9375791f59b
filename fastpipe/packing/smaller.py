"""Images made smaller before they are packed.

    smaller = Smaller(max_side=512)
    data, change = smaller.apply(data)  # the same bytes, and None, where the image isn't larger
    changes += Changes.of(change)

`Smaller` does it, `Change` says what it did, `Changes` adds that up.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from fastpipe.core.packed import PACKED_FORMAT
from fastpipe.errors import ConfigError, DecodeError, NotPackableError
from fastpipe.pillow.files import open_image
from fastpipe.readers import parse_header
from fastpipe.types import Header, Size

__all__ = ["DEFAULT_QUALITY", "Change", "Changes", "Smaller"]

DEFAULT_QUALITY = 90
"""The quality of what is encoded anew where none is given: FFCV's."""

_MOST_SIDE = 65_500  # of a JPEG that libjpeg writes
_JPEGS = ("JPEG", "MPO")
_SUBSAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}  # all that Pillow writes
_METADATA = ("icc_profile", "exif", "xmp", "comment", "dpi")  # of Pillow's `info`, and of what its encoders take
_CHUNKS = (b"gAMA", b"cHRM", b"sRGB", b"cICP", b"tIME", b"tEXt", b"zTXt", b"iTXt")
_PEAK = 255


@dataclass(frozen=True)
class Change:
    """The change of one image.

    Attributes:
        format: Pillow's name of the file's format, the same before and after; ``"MPO"`` becomes ``"JPEG"``.
        before: height and width as they were stored.
        after: height and width now.
        bytes_before: of the file.
        bytes_after: of the new file.
        squared_error: the mean over all samples of the squared difference that encoding made: between the pixels that
            were encoded, on their scale of 0 to 255, and those that the new file is decoded to. 0 if it is lossless.
    """

    format: str
    before: Size
    after: Size
    bytes_before: int
    bytes_after: int
    squared_error: float

    @property
    def psnr(self) -> float:
        """The same as peak signal-to-noise ratio, in dB; infinite if it is lossless."""
        return _psnr(self.squared_error)


@dataclass(frozen=True)
class Changes:
    """The changes of many images, added up; ``Changes()`` is none.

    Attributes:
        images: how many were changed.
        pixels_before: of these.
        pixels_after: of these.
        bytes_before: of their files.
        bytes_after: of their new files.
        squared_error: the sum of `Change.squared_error`.
        largest_squared_error: that of the image that encoding changed most.
    """

    images: int = 0
    pixels_before: int = 0
    pixels_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    squared_error: float = 0.0
    largest_squared_error: float = 0.0

    @classmethod
    def of(cls, change: Change | None) -> Changes:
        """The changes of one image."""
        if change is None:
            return cls()
        pixels = math.prod(change.before), math.prod(change.after)
        error = change.squared_error
        return cls(1, *pixels, change.bytes_before, change.bytes_after, error, error)

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
        """Peak signal-to-noise ratio of all images' encoding, in dB, from the mean of their squared errors."""
        return _psnr(self.squared_error / max(self.images, 1))

    @property
    def lowest_psnr(self) -> float:
        """The PSNR of the image that encoding changed most."""
        return _psnr(self.largest_squared_error)


@dataclass(frozen=True)
class Smaller:
    """How large images may be: larger ones are resized and encoded anew, by Pillow's filter and encoders.

    An image that isn't larger stays as it is, byte for byte, whatever its quality.

    Sizes are of images as they are stored, and their shape stays: with ``short_side=256`` an image gets the size that
    torchvision's ``Resize(256)`` gives it. The filter is Lanczos', which antialiases: img2dataset and FFCV average
    areas, which, as Pillow's ``BOX``, leaves random crops farther from those of the original. Images of a palette or of
    1 bit have no colors between two, and get the nearest pixel, as in all of Pillow.

    - JPEGs keep mode (gray, RGB, CMYK), subsampling (4:4:4 where Pillow doesn't write it), ICC profile, XMP, comment,
      and EXIF data as they are (so the orientation). Of several pictures in a file (MPO) the first stays.
    - PNGs of up to 8 bits stay PNGs, without loss, in their mode and with their metadata.
    - WebPs stay lossy or lossless, with ICC profile, EXIF data and XMP.

    Others that are larger (16 bits, a transparent color, animations, other formats) are errors.

    Gray PNGs are taken for pictures: where they are maps of labels or of depth, don't make them smaller.

    Args:
        max_side: the most pixels of the longer side; ``--max-side``.
        short_side: the most pixels of the shorter side; ``--short-side``. One of the two.
        quality: of what is encoded with loss, Pillow's ``quality``, 1 to 100; 90 where none is given; ``--quality``.

    Raises:
        ConfigError: no side is given, or both are, or one isn't a number that it can be.
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
        """The height and width that an image of a size gets; its own where it isn't larger."""
        shorter, longer = sorted(size)
        if self.max_side is not None and longer > self.max_side:
            scaled = (max(1, self.max_side * shorter // longer), self.max_side)
        elif self.short_side is not None and shorter > self.short_side:
            scaled = (self.short_side, self.short_side * longer // shorter)
        else:
            return size
        return Size(*(scaled if size.height <= size.width else scaled[::-1]))

    def apply(self, data: bytes) -> tuple[bytes, Change | None]:
        """Makes an image smaller, if it is larger.

        Args:
            data: the whole file.

        Returns:
            The new file and what was changed; the same bytes and None where the image isn't larger.

        Raises:
            NotPackableError: it is larger and stays so, for this reason; or it is no image that Pillow can read.
        """
        try:
            header = parse_header(data)
        except DecodeError as error:
            raise NotPackableError(f"whether it is to be made smaller can't be seen: {error.reason}") from error
        size = self.size_of(header.size)
        if size == header.size:
            return data, None
        _refuse_others(header)
        try:
            pixels, made = self._encoded(data, header, size)
            decoded = np.asarray(open_image(made))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise NotPackableError(f"it was to be made smaller, and Pillow can't: {error}") from error
        format = "JPEG" if header.format in _JPEGS else header.format
        return made, Change(format, header.size, size, len(data), len(made), _squared_error(pixels, decoded))

    def _encoded(self, data: bytes, header: Header, size: Size) -> tuple[NDArray[Any], bytes]:
        """The pixels of an image at a size, and its new file."""
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
            for name, body in _png_chunks(data):
                if name in _CHUNKS:
                    chunks.add(name, body)
            resized.save(out, "PNG", pnginfo=chunks, **metadata)
        else:
            resized.save(out, "WEBP", quality=quality, lossless=_is_lossless(data), **metadata)
        return np.asarray(resized), out.getvalue()


def _png_chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and content of each chunk."""
    position = 8
    while position + 12 <= len(png):
        length, name = struct.unpack_from(">I4s", png, position)
        yield name, png[position + 8 : position + 8 + length]
        position += 12 + length


def _is_lossless(webp: bytes) -> bool:
    """Whether a WebP's pixels were encoded without loss."""
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
    """Raises for an image that can't be encoded anew as what it is."""
    if header.format == PACKED_FORMAT:
        reason = "it is a packed image already: make the original smaller, or unpack it first"
    elif header.format in _JPEGS:
        return
    elif header.animated:
        reason = "it has several frames"
    elif header.format not in ("PNG", "WEBP"):
        reason = f"{header.format} isn't encoded here: JPEG, PNG and WebP are"
    elif header.bit_depth > 8:
        reason = f"it has {header.bit_depth} bits a sample, which a filter's or the file's 8 would cut off"
    elif header.format == "PNG" and header.transparency and header.color_space != "P":
        reason = "one of its colors is transparent, which has no place between two pixels"
    else:
        return
    raise NotPackableError(f"it is larger than was asked for, and stays so: {reason}")


def _squared_error(one: NDArray[Any], other: NDArray[Any]) -> float:
    if one.dtype == bool:  # 1 bit: black and white
        one, other = one * np.uint8(_PEAK), other * np.uint8(_PEAK)
    difference = np.subtract(one, other, dtype=np.int32)
    return float(np.mean(difference * difference))


def _psnr(squared_error: float) -> float:
    return math.inf if squared_error == 0 else 10 * math.log10(_PEAK**2 / squared_error)
