"""libjpeg-turbo's TurboJPEG API: decodes JPEG regions without reading what lies below them.

A region begins at an iMCU boundary. Where chroma is subsampled, the pixels next to the region's edge are
interpolated from chroma outside it, so one more iMCU is decoded on each side and trimmed: the result is then
bit-equal to the same pixels of a full decode.
"""

from __future__ import annotations

import threading

from fastpipe.errors import UnsupportedRequestError
from fastpipe.readers._libturbojpeg import Decompressor, Library
from fastpipe.readers.base import WHOLE_IMAGE, Capabilities, Pixels, Reader, Scratch, covering_box, scaled_size
from fastpipe.types import DecodeRequest, Size

# iMCU width by TJSAMP number: 4:4:4, 4:2:2, 4:2:0, gray, 4:4:0, 4:1:1
_IMCU_WIDTH = (8, 16, 16, 8, 8, 32)
_SUBSAMPLED = (False, True, True, False, True, True)


class TurboJpegReader(Reader):
    """The TurboJPEG API of libjpeg-turbo 3."""

    name = "turbojpeg"
    capabilities = Capabilities(frozenset({"JPEG", "MPO"}), regions=True, scales=(1, 2, 4, 8))

    def __init__(self) -> None:
        self.library = Library()
        self._local = threading.local()

    @property
    def version(self) -> str:
        return f"API 3 ({self.library.path})"

    def _decompressor(self) -> Decompressor:
        mine: Decompressor | None = getattr(self._local, "decompressor", None)
        if mine is None or not mine.usable():
            mine = self._local.decompressor = Decompressor(self.library)
        return mine

    def decode(self, data: bytes, request: DecodeRequest = WHOLE_IMAGE, out: Scratch | None = None) -> Pixels:
        decompressor = self._decompressor()
        height, width, subsampling = decompressor.header(data)
        scale = request.scale
        if scale not in self.capabilities.scales:
            raise self._refuse_box(request, height, width)
        out = Scratch() if out is None else out
        if request.box is None or request.box == (0, 0, height, width):
            pixels = out.take(*scaled_size((height, width), scale))
            decompressor.decompress(data, pixels, scale)
            return pixels
        if not request.box.inside((height, width)) or not self.capabilities.regions:
            raise self._refuse_box(request, height, width)
        if not 0 <= subsampling < len(_IMCU_WIDTH):
            raise UnsupportedRequestError(f"turbojpeg has no name for these sampling factors ({subsampling})")
        box = covering_box(request.box, Size(height, width), scale)
        top, left = box.top // scale, box.left // scale
        rows, columns = scaled_size(box.size, scale)
        imcu = _IMCU_WIDTH[subsampling] // scale
        margin = imcu if _SUBSAMPLED[subsampling] else 0
        start = max(left // imcu * imcu - margin, 0)
        stop = min(-(-(left + columns) // imcu) * imcu + margin, -(-width // scale))
        pixels = out.take(rows, stop - start)
        decompressor.decompress(data, pixels, scale, (start, top, stop - start, rows))
        return pixels[:, left - start : left - start + columns]
