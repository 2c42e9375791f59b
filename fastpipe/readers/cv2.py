"""OpenCV's decoders: libjpeg-turbo, libpng and libwebp of its own. Whole images only."""

from __future__ import annotations

import cv2
import numpy as np

from fastpipe.errors import DecodeError
from fastpipe.readers.base import WHOLE_IMAGE, Capabilities, Pixels, Reader, Scratch
from fastpipe.types import DecodeRequest, Header

__all__ = ["OpenCvReader"]

_FULL = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
_FLAGS = {
    1: _FULL,
    2: cv2.IMREAD_REDUCED_COLOR_2 | cv2.IMREAD_IGNORE_ORIENTATION,
    4: cv2.IMREAD_REDUCED_COLOR_4 | cv2.IMREAD_IGNORE_ORIENTATION,
    8: cv2.IMREAD_REDUCED_COLOR_8 | cv2.IMREAD_IGNORE_ORIENTATION,
}
# Since 4.11 OpenCV decodes straight to RGB; before, the channels are swapped afterwards.
_RGB: int = getattr(cv2, "IMREAD_COLOR_RGB", 0)


class OpenCvReader(Reader):
    """`cv2.imdecode`, as RGB and with the EXIF orientation ignored."""

    name = "cv2"
    capabilities = Capabilities(frozenset({"JPEG", "MPO", "PNG", "WEBP"}), scales=(1, 2, 4, 8))

    @property
    def version(self) -> str:
        return cv2.__version__

    def _scale(self, header: Header, wanted: int) -> int:
        # Only its JPEG decoder reduces while decoding.
        return super()._scale(header, wanted) if header.format in ("JPEG", "MPO") else 1

    def decode(self, data: bytes, request: DecodeRequest = WHOLE_IMAGE, out: Scratch | None = None) -> Pixels:
        self._only(request)
        direct = _RGB if request.scale == 1 else 0
        flags = (direct | cv2.IMREAD_IGNORE_ORIENTATION) if direct else _FLAGS[request.scale]
        try:
            pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error as error:
            raise DecodeError("<bytes>", None, self.name, str(error)) from error
        if pixels is None or pixels.ndim != 3 or pixels.dtype != np.uint8:
            raise DecodeError("<bytes>", None, self.name, "cv2.imdecode gives no 8-bit colour image")
        if not direct:
            cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB, dst=pixels)
        result: Pixels = pixels
        return result
