"""Pillow: reads everything, and says what the right pixels are."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import PIL
from PIL import Image

from fastpipe.errors import DecodeError, ReaderError, UnsupportedRequestError
from fastpipe.readers._pillow import open_any_size
from fastpipe.readers.base import WHOLE_IMAGE, Capabilities, Pixels, Reader, Scratch, covering_box, scaled_size
from fastpipe.types import Box, DecodeRequest, Header

_DRAFTED = ("JPEG", "MPO")
_WITH_PALETTE = ("P", "PA")


def _as_rgb(image: Image.Image) -> Pixels:
    # Converting to the mode that it has makes a copy.
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


class PillowReader(Reader):
    """`PIL.Image.open(f).convert("RGB")`, with Pillow's draft mode for the reduced sizes of a JPEG.

    A box is cut out after the whole image is decoded, as Pillow has no region decode, but converted alone.
    """

    name = "pil"
    capabilities = Capabilities(frozenset({"*"}), regions=False, scales=(1, 2, 4, 8), reference=True, indices=True)

    @property
    def version(self) -> str:
        return PIL.__version__

    def accepts(self, header: Header) -> bool:
        return True

    def resolve(self, header: Header, request: DecodeRequest) -> DecodeRequest:
        scale = self._scale(header, request.scale)
        box = request.box
        return DecodeRequest(box if box is None or scale == 1 else covering_box(box, header.size, scale), scale)

    def _scale(self, header: Header, wanted: int) -> int:
        if header.format not in _DRAFTED:
            return 1
        # Draft mode takes a size and picks the scale; below one pixel it can't be told which.
        fits = [scale for scale in self.capabilities.scales if scale <= min(wanted, header.height, header.width)]
        return max(fits, default=1)

    def decode(
        self,
        data: bytes,
        request: DecodeRequest = WHOLE_IMAGE,
        out: Scratch | None = None,
        *,
        any_size: bool = False,
    ) -> Pixels:
        """As `Reader.decode`; `any_size`: the number of pixels was checked against another limit than Pillow's."""
        with self._opened(data, any_size) as image:
            scale = request.scale
            if scale > 1:
                image.draft(None, (image.width // scale, image.height // scale))
            image.load()
            if request.box is None:
                return _as_rgb(image)
            box = request.box
            top, left = box.top // scale, box.left // scale
            height, width = scaled_size(box.size, scale)
            if not Box(top, left, height, width).inside((image.height, image.width)):
                raise self._refuse_box(request, image.height, image.width)
            if image.mode in _WITH_PALETTE or height * width > (Image.MAX_IMAGE_PIXELS or sys.maxsize):
                # A crop gets a palette where the image should have one and hasn't, and its size is judged.
                return _as_rgb(image)[top : top + height, left : left + width]
            if (height, width) == (image.height, image.width):
                return _as_rgb(image)
            return _as_rgb(image.crop((left, top, left + width, top + height)))

    def decode_indices(self, data: bytes, box: Box) -> Pixels:
        with self._opened(data, any_size=True) as image:
            if image.mode not in ("P", "L"):
                raise UnsupportedRequestError(
                    f"mode='P' is for images with a palette and for gray ones, not for Pillow's mode {image.mode!r}; "
                    "read this one with mode='RGB'"
                )
            indices: Pixels = np.array(image, np.uint8)[box.top : box.bottom, box.left : box.right]
            return np.array(indices)

    @contextmanager
    def _opened(self, data: bytes, any_size: bool) -> Iterator[Image.Image]:
        """The image, for as long as the file is open; what Pillow raises becomes a DecodeError."""
        image_format = None
        try:
            with (open_any_size if any_size else Image.open)(io.BytesIO(data)) as image:
                image_format = image.format
                for defect in self.defects:
                    if image_format in defect.formats:
                        raise DecodeError("<bytes>", image_format, self.name, str(defect))
                yield image
        except ReaderError:
            raise
        except Exception as error:  # Pillow's plugins raise nearly anything on a damaged file
            reason = str(error) or type(error).__name__
            if isinstance(error, Image.DecompressionBombError):
                reason += "; this is Pillow's own limit, PIL.Image.MAX_IMAGE_PIXELS"
            raise DecodeError("<bytes>", image_format, self.name, reason) from error
