"""simplejpeg: a current libjpeg-turbo in its own wheel, for every platform. Whole JPEGs, full or reduced size."""

from __future__ import annotations

import simplejpeg

from fastpipe.readers.base import Capabilities, Pixels, Scratch, WholeImageReader, scaled_size


class SimpleJpegReader(WholeImageReader):
    """`simplejpeg.decode_jpeg`, strictly: a warning of libjpeg's counts as a refusal."""

    name = distribution = "simplejpeg"
    capabilities = Capabilities(frozenset({"JPEG", "MPO"}), scales=(1, 2, 4, 8))
    refusals = (ValueError, KeyError)  # a KeyError for sampling factors that it has no name for

    def whole(self, data: bytes, scale: int, out: Scratch) -> Pixels:
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
        size = scaled_size((height, width), scale)
        pixels = out.take(*size)
        # It takes the smallest scale that is no smaller than this size: exactly that of the request.
        wanted = {} if scale == 1 else {"min_height": size.height, "min_width": size.width}
        decoded: Pixels = simplejpeg.decode_jpeg(data, "RGB", buffer=pixels, **wanted)
        if decoded.shape != pixels.shape:
            raise ValueError(f"gives {decoded.shape} where {pixels.shape} was announced")
        return decoded
