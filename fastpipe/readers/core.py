"""fastpipe's own decoder of JPEGs, PNGs and packed images: gives Pillow's pixels, of a region too, or refuses.

See `fastpipe.core`.
"""

from __future__ import annotations

import contextlib

import numpy as np

from fastpipe import core
from fastpipe.errors import ConfigError, DecodeError, UnsupportedRequestError
from fastpipe.readers.base import Pixels, Reader
from fastpipe.readers.header import guess_format, parse_header
from fastpipe.readers.limits import most_scratch, pixel_limit
from fastpipe.types import Box, Header


class CoreReader(Reader):
    """The core as a reader of whole images and regions."""

    name = "core"
    formats = frozenset({"JPEG", "MPO", "PNG", "FPJ"})
    proves = True

    def __init__(self) -> None:
        if not core.available():
            raise ImportError(core.why_not())

    @property
    def version(self) -> str:
        return core.isa()

    def accepts(self, header: Header) -> bool:
        if header.format == "PNG":
            return header.bit_depth <= 8 and not header.progressive and not header.animated
        return header.plain and header.format in self.formats

    def decode(self, data: bytes) -> Pixels:
        return self.decode_region(data, Box(0, 0, *parse_header(data).size))

    def decode_region(self, data: bytes, box: Box) -> Pixels:
        """The pixels of a box inside the image; decodes no others."""
        return self._run(data, box, np.empty((*box.size, 3), np.uint8))

    def decode_indices(self, data: bytes, box: Box) -> Pixels:
        """The indices of a palette image, or the levels of a gray one: ``(h, w)`` uint8."""
        return self._run(data, box, np.empty(box.size, np.uint8), indices=True)

    def _run(self, data: bytes, box: Box, pixels: Pixels, indices: bool = False) -> Pixels:
        job = core.thread_job()
        job.read(data)
        with contextlib.suppress(ConfigError):  # in the variable, which an argument may override
            job.limit(max_bytes=most_scratch(pixel_limit()))
        job.box(*box)
        job.write_array(pixels)
        job.raw.indices = indices
        status = core.run(job)
        job.raw.indices = False
        row = job.raw.row
        core.give_back(job)
        if status == core.Status.BAD_REGION:
            raise UnsupportedRequestError(f"reader 'core' can't give {box}: {core.status_text(status)}")
        if core.refused(status):
            reason = core.status_text(status)
            if row >= 0:
                reason = f"row {row} of its MCUs can't be read: {reason}"
            raise DecodeError("<bytes>", guess_format(data), self.name, reason)
        core.check(status)
        return pixels


def intact_jpeg(data: bytes, header: Header) -> bool:
    """True if a JPEG has all its tables and scans, and ends with the end marker: see `fastpipe.core.jpeg_end`.

    False for other files, and if the core isn't available.
    """
    return core.available() and header.format in ("JPEG", "MPO") and header.plain and core.jpeg_end(data) > 0
