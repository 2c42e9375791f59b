"""imageio through its Pillow plugin: Pillow's pixels with imageio's overhead, for those who want to compare."""

from __future__ import annotations

import imageio.v3 as imageio
import numpy as np

from fastpipe.readers.base import Capabilities, Pixels, Scratch, WholeImageReader


class ImageioReader(WholeImageReader):
    """`imageio.v3.imread` with the Pillow plugin, the first frame as RGB."""

    name = distribution = "imageio"
    capabilities = Capabilities(frozenset({"JPEG", "MPO", "PNG", "WEBP"}))
    refusals = (Exception,)  # Pillow's plugins raise nearly anything on a damaged file

    def whole(self, data: bytes, scale: int, out: Scratch) -> Pixels:
        return np.ascontiguousarray(imageio.imread(data, plugin="pillow", mode="RGB", index=0), np.uint8)
