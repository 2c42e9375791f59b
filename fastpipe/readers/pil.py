"""Pillow as a reader: reads every format, and defines the right pixels."""

from __future__ import annotations

import io
import re
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

import numpy as np
import PIL
from PIL import Image, features

from fastpipe.errors import DecodeError, ReaderError, UnsupportedRequestError
from fastpipe.foreign_code import errors_as
from fastpipe.readers.base import Pixels, Reader
from fastpipe.types import Box, Header

# Formats in which a crafted file harms the process: first version with the defect, first version without it, and why.
_DEFECTS = (
    ("PSD", "10.3", "12.2", "a made-up file writes outside of the image (CVE-2026-25990, CVE-2026-42311)"),
    ("FITS", "10.3", "12.2", "a small file unpacks to all of the memory (CVE-2026-40192)"),
    ("FPX", "0", "13", "a made-up file writes outside of the image (CVE-2026-112398)"),
)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def open_any_size(file: IO[bytes]) -> Image.Image:
    """Opens an image as ``PIL.Image.open(file)``, whatever number of pixels it claims; decodes none.

    Pillow checks the number by a setting of the whole process, which fastpipe must not change. Some of its plugins
    check it once more themselves.

    Raises:
        Exception: whatever Pillow's plugins raise.
    """
    start = file.read(16)
    tried: set[str] = set()
    for load_plugins in (Image.preinit, Image.init):
        load_plugins()
        for name in [name for name in Image.ID if name not in tried]:
            tried.add(name)
            plugin, accept = Image.OPEN[name]
            try:
                accepted = accept is None or accept(start)
                if accepted and not isinstance(accepted, str):  # a str is a warning that says why not
                    file.seek(0)
                    return plugin(file, "")
            except (SyntaxError, IndexError, TypeError, struct.error):
                continue  # not this plugin's format, as Pillow treats it
    file.seek(0)
    return Image.open(file)  # raises Pillow's error, with its warnings


def _as_rgb(image: Image.Image) -> Pixels:
    # `convert` to the image's own mode would make a copy.
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


class PillowReader(Reader):
    """`PIL.Image.open(f).convert("RGB")`."""

    name = "pil"
    formats = frozenset({"*"})

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
        versions = {"pillow": self.version, "libjpeg-turbo": features.version("libjpeg_turbo") or ""}
        if not versions["libjpeg-turbo"]:
            versions["libjpeg"] = features.version("jpg") or ""
        for name, library in (("webp", "libwebp"), ("libtiff", "libtiff"), ("jpg_2000", "openjpeg"), ("zlib", "zlib")):
            versions[library] = features.version(name) or ""
        return {library: version for library, version in versions.items() if version}

    def accepts(self, header: Header) -> bool:
        return True

    def decode(self, data: bytes) -> Pixels:
        return self.decode_region(data, None)

    def decode_region(self, data: bytes, box: Box | None, *, any_size: bool = False) -> Pixels:
        """Decodes the whole image by Pillow, and converts only a box of it; None for the whole image.

        `any_size`: skip Pillow's limit of pixels, because the caller has checked another one.
        """
        with self._opened(data, any_size) as image:
            image.load()
            if box is None or (box.top, box.left, *box.size) == (0, 0, image.height, image.width):
                return _as_rgb(image)
            if not box.inside((image.height, image.width)):
                raise UnsupportedRequestError(
                    f"reader 'pil' can't give {box}: the image has {image.height}×{image.width} pixels"
                )
            if image.mode in ("P", "PA") or box.height * box.width > (Image.MAX_IMAGE_PIXELS or sys.maxsize):
                # A crop would get a palette that the image lacks, and is checked against the limit of pixels.
                return _as_rgb(image)[box.top : box.bottom, box.left : box.right]
            return _as_rgb(image.crop((box.left, box.top, box.right, box.bottom)))

    def decode_indices(self, data: bytes, box: Box) -> Pixels:
        """The indices of a palette image, or the levels of a gray one: ``(h, w)`` uint8, a new array."""
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
        """Opens the image until the end of the block; any exception of Pillow's becomes a DecodeError."""
        image_format: str | None = None

        def refused(error: Exception) -> DecodeError:
            reason = str(error) or type(error).__name__
            if isinstance(error, Image.DecompressionBombError):
                reason += "; this is Pillow's own limit, PIL.Image.MAX_IMAGE_PIXELS"
            return DecodeError("<bytes>", image_format, self.name, reason)

        opener = open_any_size if any_size else Image.open
        with errors_as(refused, ReaderError), opener(io.BytesIO(data)) as image:
            image_format = image.format
            if image_format in self.defects:
                raise DecodeError("<bytes>", image_format, self.name, self.defects[image_format])
            yield image
