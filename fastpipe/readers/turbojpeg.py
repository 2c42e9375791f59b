"""libjpeg-turbo's TurboJPEG API, through the package ``turbojpeg``. Whole JPEGs only."""

from __future__ import annotations

import numpy as np
from turbojpeg import PF, decompress

from fastpipe.readers.base import Pixels, Reader


class TurboJpegReader(Reader):
    """`turbojpeg.decompress`; any warning of libjpeg's counts as a refusal."""

    name = distribution = "turbojpeg"
    formats = frozenset({"JPEG", "MPO"})

    def decode(self, data: bytes) -> Pixels:
        return np.asarray(decompress(data, PF.RGB, raise_on_warnings=True))
