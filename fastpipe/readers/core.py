"""fastpipe's own decoder of JPEGs, PNGs and packed images: regions, bit-equal to Pillow's, or a refusal.

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
        """The pixels of a box inside the image, and no others."""
        return self._run(data, box, np.empty((*box.size, 3), np.uint8))

    def decode_indices(self, data: bytes, box: Box) -> Pixels:
        """The indices of an image with a palette, or the levels of a gray one: ``(h, w)`` uint8."""
        return self._run(data, box, np.empty(box.size, np.uint8), indices=True)

    def _run(self, data: bytes, box: Box, pixels: Pixels, indices: bool = False) -> Pixels:
        job = core.thread_job()
        job.read(data)
        with contextlib.suppress(ConfigError):  # of the variable, which an argument may have taken the place of
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
    """Whether a baseline JPEG's tables are all there, and its one scan ends with the file's end marker.

    What the scan's bits say matters to nobody: every libjpeg fills in alike what it can't make sense of. Nothing is
    decoded here. False where the core isn't there, and for other files.
    """
    if not core.available() or header.format not in ("JPEG", "MPO") or not header.plain or header.progressive:
        return False
    return core.check_jpeg(data) == core.Status.OK


def unbroken_jpeg(data: bytes, header: Header) -> bool:
    """Whether a JPEG's scan ends with the end marker; of a progressive one, the last, after other scans and tables.

    Then a decoder comes to the end without an error, unless the head's tables are wrong. Nothing is decoded here.
    """
    position = header.data_offset
    while (position := core.scan_end(data, position)) >= 0:
        marker, start = data[position + 1], position + 4
        position += 2 + int.from_bytes(data[position + 2 : start], "big")
        if marker == _EOI:
            return True
        if not header.progressive or not (marker == _SOS or (marker == _DHT and _are_tables(data[start:position]))):
            return False
    return False


def _are_tables(segment: bytes) -> bool:
    """Whether a DHT segment is made of whole Huffman tables."""
    while segment:
        size = 17 + sum(segment[1:17])
        if segment[0] & 0xEF > 3 or size > len(segment):
            return False
        segment = segment[size:]
    return True


_DHT, _EOI, _SOS = 0xC4, 0xD9, 0xDA
