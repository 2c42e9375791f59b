"""OpenCV's decoders: libjpeg-turbo, libpng and libwebp of its own. Whole images only."""

from __future__ import annotations

import cv2
import numpy as np

from fastpipe.readers.base import Capabilities, Pixels, Scratch, WholeImageReader
from fastpipe.types import Header

_FULL = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
_FLAGS = {
    1: _FULL,
    2: cv2.IMREAD_REDUCED_COLOR_2 | cv2.IMREAD_IGNORE_ORIENTATION,
    4: cv2.IMREAD_REDUCED_COLOR_4 | cv2.IMREAD_IGNORE_ORIENTATION,
    8: cv2.IMREAD_REDUCED_COLOR_8 | cv2.IMREAD_IGNORE_ORIENTATION,
}
# Since 4.11 OpenCV decodes straight to RGB; before, the channels are swapped afterwards.
_RGB: int = getattr(cv2, "IMREAD_COLOR_RGB", 0)


class OpenCvReader(WholeImageReader):
    """`cv2.imdecode`, as RGB and with the EXIF orientation ignored."""

    name = "cv2"
    capabilities = Capabilities(frozenset({"JPEG", "MPO", "PNG", "WEBP"}), scales=(1, 2, 4, 8))
    refusals = (cv2.error, ValueError)

    @property
    def version(self) -> str:
        return cv2.__version__

    def _scale(self, header: Header, wanted: int) -> int:
        # Only its JPEG decoder reduces while decoding.
        return super()._scale(header, wanted) if header.format in ("JPEG", "MPO") else 1

    def whole(self, data: bytes, scale: int, out: Scratch) -> Pixels:
        direct = _RGB if scale == 1 else 0
        flags = (direct | cv2.IMREAD_IGNORE_ORIENTATION) if direct else _FLAGS[scale]
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if pixels is None:
            raise ValueError("cv2.imdecode gives no image")
        if not direct:
            cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB, dst=pixels)
        result: Pixels = pixels
        return result
