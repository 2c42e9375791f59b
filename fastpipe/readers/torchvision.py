"""torchvision.io's decoders (deprecated there in favour of torchcodec). Whole JPEGs and PNGs."""

from __future__ import annotations

import numpy as np
import torch
import torchvision
from torchvision.io import ImageReadMode, decode_jpeg, decode_png

from fastpipe.errors import DecodeError
from fastpipe.readers.base import WHOLE_IMAGE, Capabilities, Pixels, Reader, Scratch
from fastpipe.types import DecodeRequest, Header

__all__ = ["TorchvisionReader"]


class TorchvisionReader(Reader):
    """`torchvision.io.decode_jpeg` and `decode_png`."""

    name = "torchvision"
    capabilities = Capabilities(frozenset({"JPEG", "MPO", "PNG"}))

    def __init__(self) -> None:
        # torchvision imports without its compiled part, and then fails at the first image.
        if not hasattr(torch.ops.image, "decode_jpeg"):
            raise ImportError("torchvision.io's compiled decoders don't load beside this torch")

    @property
    def version(self) -> str:
        return str(torchvision.__version__)

    def accepts(self, header: Header) -> bool:
        return super().accepts(header) and header.color_space in ("YCbCr", "RGB", "L") and header.bit_depth == 8

    def decode(self, data: bytes, request: DecodeRequest = WHOLE_IMAGE, out: Scratch | None = None) -> Pixels:
        self._only(request)
        decoder = decode_jpeg if data.startswith(b"\xff\xd8") else decode_png
        try:
            # A copy, as torch wants a writable buffer and warns about any other.
            pixels = decoder(torch.from_numpy(np.frombuffer(data, np.uint8).copy()), mode=ImageReadMode.RGB)
        except (RuntimeError, ValueError) as error:
            raise DecodeError("<bytes>", None, self.name, str(error)) from error
        array: Pixels = pixels.permute(1, 2, 0).numpy()
        return array
