"""simplejpeg: a current libjpeg-turbo in its own wheel, for every platform. Whole JPEGs, full or reduced size."""

from __future__ import annotations

import simplejpeg

from fastpipe.errors import DecodeError
from fastpipe.readers.base import WHOLE_IMAGE, Capabilities, Pixels, Reader, Scratch, installed_version, scaled_size
from fastpipe.types import DecodeRequest

__all__ = ["SimpleJpegReader"]


class SimpleJpegReader(Reader):
    """`simplejpeg.decode_jpeg`, strictly: a warning of libjpeg's counts as a refusal."""

    name = "simplejpeg"
    capabilities = Capabilities(frozenset({"JPEG", "MPO"}), scales=(1, 2, 4, 8), writes_into=True)

    @property
    def version(self) -> str:
        return installed_version("simplejpeg")

    def decode(self, data: bytes, request: DecodeRequest = WHOLE_IMAGE, out: Scratch | None = None) -> Pixels:
        self._only(request)
        try:
            height, width, _, _ = simplejpeg.decode_jpeg_header(data)
            size = scaled_size((height, width), request.scale)
            pixels: Pixels = (Scratch() if out is None else out).take(*size)
            # It takes the smallest scale that is no smaller than this size: exactly that of the request.
            wanted = {} if request.scale == 1 else {"min_height": size.height, "min_width": size.width}
            decoded: Pixels = simplejpeg.decode_jpeg(data, "RGB", buffer=pixels, **wanted)
        except (ValueError, KeyError) as error:  # a KeyError for sampling factors that it has no name for
            raise DecodeError("<bytes>", "JPEG", self.name, str(error)) from error
        if decoded.shape != pixels.shape:
            raise DecodeError("<bytes>", "JPEG", self.name, f"gives {decoded.shape} where {pixels.shape} was announced")
        return decoded
