"""Pillow: reads everything, and says what the right pixels are."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import PIL
from PIL import Image, features

from fastpipe.errors import DecodeError, ReaderError, UnsupportedRequestError
from fastpipe.readers._pillow import open_any_size
from fastpipe.readers.base import WHOLE_IMAGE, Capabilities, Pixels, Reader, Scratch
from fastpipe.types import Box, DecodeRequest, Header, Size

_DRAFTED = ("JPEG", "MPO")
_WITH_PALETTE = ("P", "PA")

# Formats that a made-up file harms its reader by: since and before which version, and how.
_DEFECTS = (
    ("PSD", "10.3", "12.2", "a made-up file writes outside of the image (CVE-2026-25990, CVE-2026-42311)"),
    ("FITS", "10.3", "12.2", "a small file unpacks to all of the memory (CVE-2026-40192)"),
    ("FPX", "0", "13", "a made-up file writes outside of the image (CVE-2026-112398)"),
)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def scaled_size(size: tuple[int, int], scale: int) -> Size:
    """The size of an image or a box at a reduced scale, rounded up as libjpeg-turbo does."""
    return Size(-(-size[0] // scale), -(-size[1] // scale))


def _covering_box(box: Box, size: Size, scale: int) -> Box:
    """The smallest box around a box whose edges are whole pixels of the reduced image (or the image's edges)."""
    top, left = box.top // scale * scale, box.left // scale * scale
    bottom = min(-(-box.bottom // scale) * scale, size.height)
    right = min(-(-box.right // scale) * scale, size.width)
    return Box(top, left, bottom - top, right - left)


def _as_rgb(image: Image.Image) -> Pixels:
    # Converting to the mode that it has makes a copy.
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


class PillowReader(Reader):
    """`PIL.Image.open(f).convert("RGB")`, with Pillow's draft mode for the reduced sizes of a JPEG.

    A box is cut out after the whole image is decoded, as Pillow has no region decode, but converted alone.
    """

    name = "pil"
    capabilities = Capabilities(frozenset({"*"}), scales=(1, 2, 4, 8), reference=True, indices=True)

    def __init__(self) -> None:
        here = _number(self.version)
        self.defects = {
            format: f"{format} with pillow before {fixed}: {reason}; install {fixed} or later"
            for format, since, fixed, reason in _DEFECTS
            if _number(since) <= here < _number(fixed)
        }

    @property
    def version(self) -> str:
        return PIL.__version__

    def libraries(self) -> Mapping[str, str]:
        found = {"pillow": self.version, "libjpeg-turbo": features.version("libjpeg_turbo") or ""}
        if not found["libjpeg-turbo"]:
            found["libjpeg"] = features.version("jpg") or ""
        for name, library in (("webp", "libwebp"), ("libtiff", "libtiff"), ("jpg_2000", "openjpeg"), ("zlib", "zlib")):
            found[library] = features.version(name) or ""
        return {library: version for library, version in found.items() if version}

    def accepts(self, header: Header) -> bool:
        return True

    def resolve(self, header: Header, request: DecodeRequest) -> DecodeRequest:
        """Resolves as the base does; the scale is the largest offered that doesn't exceed the one asked for.

        A box covers the one asked for, up to whole pixels of the reduced image.
        """
        scale, box = 1, request.box
        if header.format in _DRAFTED:
            # Draft mode takes a size and picks the scale; below one pixel it can't be told which.
            most = min(request.scale, header.height, header.width)
            scale = max((one for one in self.capabilities.scales if one <= most), default=1)
        return DecodeRequest(box if box is None or scale == 1 else _covering_box(box, header.size, scale), scale)

    def decode(self, data: bytes) -> Pixels:
        return self.decode_request(data, WHOLE_IMAGE)

    def decode_request(
        self, data: bytes, request: DecodeRequest, scratch: Scratch | None = None, *, any_size: bool = False
    ) -> Pixels:
        """Decodes as the base does; `any_size`: the pixels' number was checked against another limit than Pillow's."""
        with self._opened(data, any_size) as image:
            scale = request.scale
            if scale > 1:
                image.draft(None, (image.width // scale, image.height // scale))
            image.load()
            if request.box is None:
                return _as_rgb(image)
            top, left = request.box.top // scale, request.box.left // scale
            height, width = scaled_size(request.box.size, scale)
            if not Box(top, left, height, width).inside((image.height, image.width)):
                raise UnsupportedRequestError(
                    f"reader 'pil' can't give {request}: the image has {image.height}×{image.width} pixels"
                )
            if image.mode in _WITH_PALETTE or height * width > (Image.MAX_IMAGE_PIXELS or sys.maxsize):
                # A crop gets a palette where the image should have one and hasn't, and its size is judged.
                return _as_rgb(image)[top : top + height, left : left + width]
            if (height, width) == (image.height, image.width):
                return _as_rgb(image)
            return _as_rgb(image.crop((left, top, left + width, top + height)))

    def decode_indices(self, data: bytes, box: Box) -> Pixels:
        with self._opened(data, any_size=True) as image:
            if image.mode not in ("P", "L"):
                raise UnsupportedRequestError(
                    f"mode='P' is for images with a palette and for gray ones, not for Pillow's mode {image.mode!r}; "
                    "read this one with mode='RGB'"
                )
            indices: Pixels = np.array(image, np.uint8)[box.top : box.bottom, box.left : box.right]
            return np.array(indices)

    @contextmanager
    def _opened(self, data: bytes, any_size: bool) -> Iterator[Image.Image]:
        """The image, for as long as the file is open; what Pillow raises becomes a DecodeError."""
        image_format = None
        try:
            with (open_any_size if any_size else Image.open)(io.BytesIO(data)) as image:
                image_format = image.format
                if image_format in self.defects:
                    raise DecodeError("<bytes>", image_format, self.name, self.defects[image_format])
                yield image
        except ReaderError:
            raise
        except Exception as error:  # Pillow's plugins raise nearly anything on a damaged file
            reason = str(error) or type(error).__name__
            if isinstance(error, Image.DecompressionBombError):
                reason += "; this is Pillow's own limit, PIL.Image.MAX_IMAGE_PIXELS"
            raise DecodeError("<bytes>", image_format, self.name, reason) from error
