"""The memory of Pillow's images, which the core reads from and writes to without a copy.

Pillow shares it through Arrow's C data interface (``Image.__arrow_c_array__``, since Pillow 11.2): RGB as four bytes a
pixel, L as one, where all of the image lies in one block. https://arrow.apache.org/docs/format/CDataInterface.html
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from PIL import Image

_PIXEL_BYTES = {"RGB": 4, "L": 1}


class PillowMemory(NamedTuple):
    """Where an image's pixels lie.

    Attributes:
        address: of the first pixel.
        row_stride: bytes from row to row.
        pixel_bytes: bytes from pixel to pixel: 4 for RGB, whose fourth isn't shown, 1 for L.
        height, width, channels: of the image.
        keep: has to live as long as the memory is used.
    """

    address: int
    row_stride: int
    pixel_bytes: int
    height: int
    width: int
    channels: int
    keep: Any


class _ArrowArray(ctypes.Structure):
    pass


_ArrowArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
    *((name, ctypes.c_void_p) for name in ("dictionary", "release", "private_data")),
]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def memory_of(image: Image.Image) -> PillowMemory | None:
    """The memory of an image's pixels, which are loaded if they aren't yet.

    None for a mode other than RGB and L, for an image of several blocks or without pixels, and for a Pillow that
    doesn't share its memory.
    """
    pixel_bytes = _PIXEL_BYTES.get(image.mode)
    width, height = image.size
    if pixel_bytes is None or not width or not height:
        return None
    try:
        capsules = image.__arrow_c_array__()
    except (AttributeError, ValueError):
        return None
    array = ctypes.cast(_pointer_of(capsules[1], b"arrow_array"), ctypes.POINTER(_ArrowArray)).contents
    pixels = array.children[0].contents if array.n_children else array
    address = pixels.buffers[1]
    if not address:
        return None
    return PillowMemory(
        address, width * pixel_bytes, pixel_bytes, height, width, 3 if pixel_bytes == 4 else 1, capsules
    )


def new_image(height: int, width: int, channels: int) -> tuple[Image.Image, PillowMemory] | None:
    """A new image in mode RGB or L, by its channels, whose pixels are yet to be written; and its memory.

    None where its memory can't be had; see `memory_of`.
    """
    from PIL import Image

    image = Image.new("L" if channels == 1 else "RGB", (width, height), None)
    memory = memory_of(image)
    return None if memory is None else (image, memory)
