"""torchvision.io's decoders (deprecated there in favour of torchcodec). Whole JPEGs and PNGs."""

from __future__ import annotations

import numpy as np
import torch
from torchvision.io import ImageReadMode, decode_jpeg, decode_png

from fastpipe.readers.base import Capabilities, Pixels, Scratch, WholeImageReader
from fastpipe.types import Header


class TorchvisionReader(WholeImageReader):
    """`torchvision.io.decode_jpeg` and `decode_png`."""

    name = distribution = "torchvision"
    capabilities = Capabilities(frozenset({"JPEG", "MPO", "PNG"}))

    def __init__(self) -> None:
        # torchvision imports without its compiled part, and then fails at the first image.
        if not hasattr(torch.ops.image, "decode_jpeg"):
            raise ImportError("torchvision.io's compiled decoders don't load beside this torch")

    def accepts(self, header: Header) -> bool:
        return super().accepts(header) and header.color_space in ("YCbCr", "RGB", "L") and header.bit_depth == 8

    def whole(self, data: bytes, scale: int, out: Scratch) -> Pixels:
        decoder = decode_jpeg if data.startswith(b"\xff\xd8") else decode_png
        # A copy, as torch wants a writable buffer and warns about any other.
        pixels = decoder(torch.from_numpy(np.frombuffer(data, np.uint8).copy()), mode=ImageReadMode.RGB)
        array: Pixels = pixels.permute(1, 2, 0).numpy()
        return array
