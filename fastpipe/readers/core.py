"""fastpipe's own decoder of JPEGs: regions, bit-equal to Pillow's, or a refusal. See `fastpipe.core`."""

from __future__ import annotations

import contextlib

from fastpipe import core
from fastpipe.errors import ConfigError, DecodeError, UnsupportedRequestError
from fastpipe.readers.base import WHOLE_IMAGE, Capabilities, Pixels, Reader, Scratch
from fastpipe.readers.header import parse_header
from fastpipe.readers.limits import most_scratch, pixel_limit
from fastpipe.types import Box, DecodeRequest


class CoreReader(Reader):
    """The core as a reader of whole images and regions."""

    name = "core"
    capabilities = Capabilities(frozenset({"JPEG", "MPO"}), regions=True, writes_into=True, proves=True)

    def __init__(self) -> None:
        if not core.available():
            raise ImportError(core.why_not())

    @property
    def version(self) -> str:
        return core.isa()

    def decode(self, data: bytes, request: DecodeRequest = WHOLE_IMAGE, out: Scratch | None = None) -> Pixels:
        if request.scale != 1:
            raise UnsupportedRequestError(f"the reader 'core' decodes at full size, not at scale {request.scale}")
        box = request.box
        if box is None:
            box = Box(0, 0, *parse_header(data).size)
        job = core.thread_job()
        job.read(data)
        with contextlib.suppress(ConfigError):  # of the variable, which an argument may have taken the place of
            job.limit(max_bytes=most_scratch(pixel_limit()))
        job.box(*box)
        pixels = (Scratch() if out is None else out).take(box.height, box.width)
        job.write_array(pixels)
        status = core.run(job)
        if status == core.Status.BAD_REGION:
            raise UnsupportedRequestError(f"reader 'core' can't give {request}: {core.status_text(status)}")
        if core.refused(status):
            raise DecodeError("<bytes>", "JPEG", self.name, core.status_text(status))
        core.check(status)
        return pixels
