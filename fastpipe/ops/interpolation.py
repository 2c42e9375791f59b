"""The interpolation modes and Pillow's integers for them."""

from fastpipe.ops.enums import TorchvisionEnum
from fastpipe.tensor_kernels.torchscript import is_scripting


class InterpolationMode(TorchvisionEnum):
    """The interpolation between pixels; the values are torch's names.

    Tensors take ``NEAREST``, ``NEAREST_EXACT``, ``BILINEAR`` and ``BICUBIC``; PIL images and uint8 ndarrays take all.
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


_MODES_BY_INT = {number: mode for mode, number in reversed(pil_modes_mapping.items())}


def interpolation_from_int(value: int) -> InterpolationMode:
    """The mode for one of Pillow's integer constants (``PIL.Image.BILINEAR`` is 2).

    Raises:
        KeyError: no resampling filter of Pillow has that number.
    """
    return _MODES_BY_INT[value]


def interpolation_of(given: object) -> InterpolationMode:
    """The mode for one of Pillow's integers, a mode's name, or torchvision's mode."""
    return interpolation_from_int(given) if isinstance(given, int) else InterpolationMode(given)


def checked_interpolation(interpolation: InterpolationMode) -> InterpolationMode:
    """Converts a function's interpolation argument; outside of TorchScript it may be torchvision's mode or an integer.

    Raises:
        TypeError: the argument is no interpolation mode and none of Pillow's integers.
    """
    if not is_scripting():  # noqa: SIM102 - TorchScript must not compile the inner condition
        if not isinstance(interpolation, InterpolationMode):
            return _checked(interpolation)
    return interpolation


def _checked(given: object) -> InterpolationMode:
    try:
        return interpolation_of(None if isinstance(given, str) else given)
    except ValueError:
        raise TypeError(
            "Argument interpolation should be a InterpolationMode or a corresponding Pillow integer constant"
        ) from None
