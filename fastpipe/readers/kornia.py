"""kornia-rs: libjpeg-turbo behind Rust bindings. Whole JPEGs only."""

from __future__ import annotations

import numpy as np
from kornia_rs.io import decode_image_jpegturbo

from fastpipe.errors import DecodeError
from fastpipe.readers.base import WHOLE_IMAGE, Capabilities, Pixels, Reader, Scratch, installed_version
from fastpipe.types import DecodeRequest

__all__ = ["KorniaReader"]


class KorniaReader(Reader):
    """`kornia_rs.io.decode_image_jpegturbo`; kornia's other decoders aren't libjpeg's and differ from Pillow's."""

    name = "kornia"
    capabilities = Capabilities(frozenset({"JPEG", "MPO"}))

    @property
    def version(self) -> str:
        return installed_version("kornia-rs")

    def decode(self, data: bytes, request: DecodeRequest = WHOLE_IMAGE, out: Scratch | None = None) -> Pixels:
        self._only(request)
        try:
            pixels = np.asarray(decode_image_jpegturbo(data, "rgb"))
        except Exception as error:  # the bindings raise bare Exception
            raise DecodeError("<bytes>", "JPEG", self.name, str(error)) from error
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise DecodeError("<bytes>", "JPEG", self.name, f"gives {pixels.dtype} {pixels.shape}, not 8-bit RGB")
        return pixels
