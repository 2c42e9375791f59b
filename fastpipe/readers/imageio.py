"""imageio through its Pillow plugin: Pillow's pixels with imageio's overhead, for those who want to compare."""

from __future__ import annotations

import imageio.v3 as imageio
import numpy as np

from fastpipe.errors import DecodeError
from fastpipe.readers.base import WHOLE_IMAGE, Capabilities, Pixels, Reader, Scratch, installed_version
from fastpipe.types import DecodeRequest

__all__ = ["ImageioReader"]


class ImageioReader(Reader):
    """`imageio.v3.imread` with the Pillow plugin, the first frame as RGB."""

    name = "imageio"
    capabilities = Capabilities(frozenset({"JPEG", "MPO", "PNG", "WEBP"}))

    @property
    def version(self) -> str:
        return installed_version("imageio")

    def decode(self, data: bytes, request: DecodeRequest = WHOLE_IMAGE, out: Scratch | None = None) -> Pixels:
        self._only(request)
        try:
            pixels = imageio.imread(data, plugin="pillow", mode="RGB", index=0)
        except Exception as error:  # Pillow's plugins raise nearly anything on a damaged file
            raise DecodeError("<bytes>", None, self.name, str(error) or type(error).__name__) from error
        return np.ascontiguousarray(pixels, np.uint8)
