"""fastpipe as a decoder of imread_benchmark (https://github.com/ternaus/imread_benchmark).

It goes to ``imread_benchmark/decoders/fastpipe_decoder.py`` of a checkout; README.md beside this file says how.
"""

from __future__ import annotations

import numpy as np
from imread_benchmark.decoders import BaseDecoder


class FastpipeDecoder(BaseDecoder):
    """`fastpipe.readers.read_image`: Pillow's pixels, decoded whole, on one thread, into a fresh array."""

    name = "fastpipe"
    package_name = "fastpipe"
    group = "mainstream"

    def decode(self, data: bytes) -> np.ndarray:
        from fastpipe.readers import read_image

        return read_image(data)

    def decode_path(self, path: str) -> np.ndarray:
        from fastpipe.readers import read_image

        return read_image(path)
