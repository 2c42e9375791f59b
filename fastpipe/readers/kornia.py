"""kornia-rs: libjpeg-turbo behind Rust bindings. Whole JPEGs only."""

from __future__ import annotations

import numpy as np
from kornia_rs.io import decode_image_jpegturbo

from fastpipe.readers.base import Capabilities, Pixels, Scratch, WholeImageReader


class KorniaReader(WholeImageReader):
    """`kornia_rs.io.decode_image_jpegturbo`; kornia's other decoders aren't libjpeg's and differ from Pillow's."""

    name = "kornia"
    distribution = "kornia-rs"
    capabilities = Capabilities(frozenset({"JPEG", "MPO"}))
    refusals = (Exception,)  # the bindings raise just that

    def whole(self, data: bytes, scale: int, out: Scratch) -> Pixels:
        return np.asarray(decode_image_jpegturbo(data, "rgb"))
