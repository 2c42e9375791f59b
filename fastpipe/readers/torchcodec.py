"""torchcodec's image decoders (0.16 and later), the successors of torchvision.io's. Whole JPEGs and PNGs."""

from __future__ import annotations

import numpy as np
import torch
from torchcodec.decoders import decode_jpeg, decode_png

from fastpipe.errors import UnsupportedRequestError
from fastpipe.readers.base import Capabilities, Pixels, Scratch, WholeImageReader
from fastpipe.types import Header


class TorchcodecReader(WholeImageReader):
    """`torchcodec.decoders.decode_jpeg` and `decode_png`.

    These turn an image upright by its EXIF orientation and can't be told not to, so files with EXIF data aren't read.
    """

    name = distribution = "torchcodec"
    capabilities = Capabilities(frozenset({"JPEG", "MPO", "PNG"}))

    def accepts(self, header: Header) -> bool:
        ordinary = header.color_space in ("YCbCr", "RGB", "L") and header.bit_depth == 8
        return super().accepts(header) and ordinary and header.orientation == 1

    def whole(self, data: bytes, scale: int, out: Scratch) -> Pixels:
        jpeg = data.startswith(b"\xff\xd8")
        # Damaged EXIF data may have an orientation for torchcodec where it has none for Pillow, even where the
        # segment isn't called Exif: no APP1 at all.
        if (b"\xff\xe1" if jpeg else b"eXIf") in data:
            raise UnsupportedRequestError("torchcodec applies EXIF orientations, and this file has EXIF data")
        # A copy, as torch wants a writable buffer and warns about any other.
        encoded = torch.from_numpy(np.frombuffer(data, np.uint8).copy())
        array: Pixels = (decode_jpeg if jpeg else decode_png)(encoded, mode="RGB").permute(1, 2, 0).numpy()
        return array
