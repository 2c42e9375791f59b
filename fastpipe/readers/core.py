"""fastpipe's own decoder of JPEGs, PNGs and packed images: regions, bit-equal to Pillow's, or a refusal.

See `fastpipe.core`.
"""

from __future__ import annotations

import contextlib

import numpy as np

from fastpipe import core
from fastpipe.errors import ConfigError, DecodeError, UnsupportedRequestError
from fastpipe.readers.base import WHOLE_IMAGE, Capabilities, Pixels, Reader, Scratch
from fastpipe.readers.header import guess_format, parse_header
from fastpipe.readers.limits import most_scratch, pixel_limit
from fastpipe.types import Box, DecodeRequest, Header


class CoreReader(Reader):
    """The core as a reader of whole images and regions."""

    name = "core"
    capabilities = Capabilities(frozenset({"JPEG", "MPO", "PNG", "FPJ"}), regions=True, proves=True, indices=True)

    def __init__(self) -> None:
        if not core.available():
            raise ImportError(core.why_not())

    @property
    def version(self) -> str:
        return core.isa()

    def accepts(self, header: Header) -> bool:
        if header.format != "PNG":
            return super().accepts(header)
        return header.bit_depth <= 8 and not header.progressive and not header.animated

    def decode(self, data: bytes, request: DecodeRequest = WHOLE_IMAGE, out: Scratch | None = None) -> Pixels:
        if request.scale != 1:
            raise UnsupportedRequestError(f"the reader 'core' decodes at full size, not at scale {request.scale}")
        box = request.box or Box(0, 0, *parse_header(data).size)
        pixels = (Scratch() if out is None else out).take(box.height, box.width)
        return self._run(data, box, pixels)

    def decode_indices(self, data: bytes, box: Box) -> Pixels:
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
