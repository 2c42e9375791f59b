"""The interpolation modes, and Pillow's integers for them."""

from enum import Enum

__all__ = ["InterpolationMode", "pil_modes_mapping"]


class InterpolationMode(Enum):
    """How pixels between pixels are worked out; the values are torch's names.

    Tensors take ``NEAREST``, ``NEAREST_EXACT``, ``BILINEAR`` and ``BICUBIC``; PIL images and uint8 ndarrays all.
    """

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


pil_modes_mapping = {
    InterpolationMode.NEAREST: 0,
    InterpolationMode.BILINEAR: 2,
    InterpolationMode.BICUBIC: 3,
    InterpolationMode.NEAREST_EXACT: 0,
    InterpolationMode.BOX: 4,
    InterpolationMode.HAMMING: 5,
    InterpolationMode.LANCZOS: 1,
}


def interpolation_from_int(value: int) -> InterpolationMode:
    """The mode of one of Pillow's integer constants (``PIL.Image.BILINEAR`` is 2).

    Raises:
        KeyError: no resampling filter of Pillow has that number.
    """
    return {
        0: InterpolationMode.NEAREST,
        1: InterpolationMode.LANCZOS,
        2: InterpolationMode.BILINEAR,
        3: InterpolationMode.BICUBIC,
        4: InterpolationMode.BOX,
        5: InterpolationMode.HAMMING,
    }[value]
