"""imageio through its Pillow plugin: Pillow's pixels with imageio's overhead, for comparisons."""

from __future__ import annotations

import imageio.v3 as imageio
import numpy as np

from fastpipe.readers.base import Pixels, Reader


class ImageioReader(Reader):
    """`imageio.v3.imread` with the Pillow plugin, the first frame as RGB."""

    name = distribution = "imageio"
    formats = frozenset({"JPEG", "MPO", "PNG", "WEBP"})
    proves = True
    refusals = (Exception,)  # Pillow's plugins raise nearly anything on a damaged file

    def decode(self, data: bytes) -> Pixels:
        return np.ascontiguousarray(imageio.imread(data, plugin="pillow", mode="RGB", index=0), np.uint8)
