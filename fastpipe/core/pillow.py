"""Access to the memory of Pillow's images, which the core reads and writes without a copy.

Pillow exports it through Arrow's C data interface (``Image.__arrow_c_array__``, since Pillow 11.2): RGB as four bytes a
pixel, L as one, if all rows lie one after the other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from fastpipe.core import library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image
    from PIL._imaging import ImagingCore

PIXEL_BYTES = {"RGB": 4, "L": 1}
CAPSULE_POINTER_AT = object.__basicsize__  # after the object's head


class PillowMemory(NamedTuple):
    """The memory of an image's pixels.

    Attributes:
        address: the address of the first pixel.
        row_stride: bytes from row to row.
        pixel_bytes: bytes from pixel to pixel: 4 for RGB, of which the fourth isn't visible, 1 for L.
        height, width, channels: the image's shape.
        keep: a reference that keeps the memory alive, even if the image is gone.
    """

    address: int
    row_stride: int
    pixel_bytes: int
    height: int
    width: int
    channels: int
    keep: object


class Pillow(NamedTuple):
    """Facts about the installed Pillow.

    Attributes:
        plain: ``PIL.Image.Image``; instances of exactly this class have nothing to load.
        wrap: makes an image from pixels of Pillow's C module, as ``PIL.Image.new`` does.
        core: Pillow's C module.
        checks_rows: whether Pillow itself checks that the rows lie one after the other, as since version 13. Older
            versions export their first block of memory, which isn't that of the pixels in a mapped or aligned image.
        pixels_in: the core's function that finds the pixels in an Arrow array.
    """

    plain: type[Image.Image]
    wrap: Callable[[ImagingCore], Image.Image]
    core: ModuleType
    checks_rows: bool
    pixels_in: Callable[[int, int, int], int]


@lru_cache(maxsize=1)
def installed() -> Pillow | None:
    """The installed Pillow; None if its images can't be read, because their layout is unknown."""
    from PIL import Image, __version__
    from PIL import _imaging as imaging

    checks_rows = int(__version__.partition(".")[0]) >= 13
    pillow = Pillow(Image.Image, Image.Image()._new, imaging, checks_rows, library.quick().fpc_arrow_pixels)
    for mode, pixel in (("RGB", b"\x01\x02\x03\xff"), ("L", b"\x04")):
        image = Image.new(mode, (3, 2), tuple(pixel[:3]) if len(pixel) == 4 else pixel[0])
        memory = _memory_in(image.im, pillow)
        if memory is None or ctypes.string_at(memory.address, 6 * len(pixel)) != pixel * 6:
            return None
    return pillow


def _memory_in(pixels: ImagingCore, pillow: Pillow) -> PillowMemory | None:
    """The memory of the pixels of Pillow's C module."""
    width, height = pixels.size
    size = PIXEL_BYTES.get(pixels.mode)
    if size is None or not (width and height):
        return None
    if not pillow.checks_rows and pillow.core.get_alignment() != 1:
        return None
    try:
        capsule = pixels.__arrow_c_array__()
    except ValueError:  # an image with several blocks of memory
        return None
    address = pillow.pixels_in(id(capsule) + CAPSULE_POINTER_AT, width * height, size)
    if not address:
        return None
    return PillowMemory(address, width * size, size, height, width, 3 if size == 4 else 1, capsule)


def memory_of(image: Image.Image) -> PillowMemory | None:
    """The memory of an image's pixels, which are loaded if they aren't yet.

    The memory may only be read: a read-only image may share it with a file, or with an array that others write to.

    Returns:
        The memory. None for a mode other than RGB and L, for an image without pixels, with several blocks of memory
        (beyond 16 MB) or with reversed or aligned rows, and for a Pillow that doesn't share its memory.

    Raises:
        OSError, ValueError: Pillow's, for an image that can't be loaded or is closed.
    """
    if image.mode not in PIXEL_BYTES or not library.available():
        return None
    pillow = installed()
    if pillow is None:
        return None
    if type(image) is not pillow.plain:
        image.load()
    if not pillow.checks_rows and image.readonly:
        return None
    return _memory_in(image.im, pillow)


def new_image(height: int, width: int, channels: int) -> tuple[Image.Image, PillowMemory] | None:
    """Makes an image of mode RGB or L, by its channels, whose pixels are yet to be written.

    Returns:
        The image and its memory; None if the memory isn't accessible (see `memory_of`).
    """
    pillow = installed() if library.available() else None
    if pillow is None:
        return None
    mode = "L" if channels == 1 else "RGB"
    if height * width * PIXEL_BYTES[mode] > pillow.core.get_block_size():
        return None
    pixels = pillow.core.new(mode, (width, height))
    memory = _memory_in(pixels, pillow)
    return None if memory is None else (pillow.wrap(pixels), memory)


def image_of(pixels: NDArray[np.uint8]) -> Image.Image | None:
    """Makes an image of mode RGB or L from a contiguous array ``(H, W, 1 or 3)``, in as many blocks as Pillow needs.

    None if the core isn't available.
    """
    pillow = installed() if library.available() else None
    if pillow is None:
        return None
    height, width, channels = pixels.shape
    image = pillow.wrap(pillow.core.new("L" if channels == 1 else "RGB", (width, height)))
    image.frombytes(pixels)
    return image
