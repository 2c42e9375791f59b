"""Conversions between images and tensors and between dtypes, and normalisation.

Derived from torchvision (BSD-3-Clause, see NOTICE).
"""

import sys
from typing import Any

import numpy as np
import torch
from PIL.Image import Image as PILImage
from torch import Tensor

from fastpipe import core, ops
from fastpipe.kernels import conversion as kernels
from fastpipe.program import shape_of, to_pil
from fastpipe.program.on_image import on_pixels
from fastpipe.tensor_kernels import floats
from fastpipe.tensor_kernels.torchscript import Floats, is_scripting
from fastpipe.transforms import _functional_pil as _pil
from fastpipe.transforms.functional._tensor_common import assert_image_tensor, max_value
from fastpipe.types import Array

_INT16_MODE = "I;16" if sys.byteorder == "little" else "I;16B"
_ARRAY_DTYPES: dict[str, type[np.generic]] = {"I": np.int32, _INT16_MODE: np.int16, "F": np.float32}
_MODES_OF_GRAY: dict[object, str] = {
    np.dtype(np.uint8): "L",
    np.dtype(np.int16): _INT16_MODE,
    np.dtype(np.int32): "I",
    np.dtype(np.float32): "F",
}


def to_tensor(pic: PILImage | np.ndarray) -> Tensor:
    """Converts a PIL image or ndarray to a tensor ``(C, H, W)``; always copies.

    8-bit pixels become the default float dtype in [0, 1]; other pixels keep their type and values (modes I, I;16 and
    F: int32, int16 and float32). Not for TorchScript.

    Args:
        pic: PIL image, or ndarray ``(H, W)`` or ``(H, W, C)`` of any dtype.

    Raises:
        TypeError: ``pic`` is neither.
        ValueError: ``pic`` is an ndarray with another number of dimensions.
    """
    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        array = pic[:, :, None] if pic.ndim == 2 else pic
    elif isinstance(pic, PILImage):
        if torch.get_default_dtype() == torch.float32:
            by_core = _from_memory(ops.ToTensor(), pic)
            if by_core is not None:
                return by_core
        array = _pixels(pic, np.asarray(pic, _ARRAY_DTYPES.get(pic.mode, np.uint8)))
        if pic.mode == "1":
            array = 255 * array
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")

    dtype = torch.get_default_dtype()
    if array.dtype != np.uint8:
        return torch.from_numpy(array.copy()).permute(2, 0, 1).contiguous()
    if dtype == torch.float32:
        return kernels.to_tensor(array)
    return kernels.array_to_tensor(array).to(dtype=dtype).div(255)


def pil_to_tensor(pic: Any) -> Tensor:
    """Converts a PIL image, or a uint8 ndarray, to a tensor ``(C, H, W)`` of the same type; always copies.

    The tensor of an image is interleaved in memory, as torchvision's: not contiguous. That of an ndarray is contiguous.

    Not for TorchScript.

    Args:
        pic: PIL image, or uint8 ndarray ``(H, W)`` or ``(H, W, C)``.

    Raises:
        TypeError: ``pic`` is neither.
    """
    if isinstance(pic, np.ndarray) and pic.dtype == np.uint8 and pic.ndim in (2, 3):
        return kernels.array_to_tensor(pic)
    if not isinstance(pic, PILImage):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    by_core = _from_memory(ops.PilToTensor(), pic)
    if by_core is not None:
        return by_core
    return torch.as_tensor(_pixels(pic, np.asarray(pic)).copy()).permute((2, 0, 1))


def _from_memory(conversion: ops.ToTensor | ops.PilToTensor, pic: PILImage) -> Tensor | None:
    """A PIL image as a tensor, made from the image's memory; None if it has to be read as an array."""
    shape = shape_of(pic)
    if shape is None or not core.available():
        return None
    in_rows = isinstance(conversion, ops.PilToTensor) or shape.channels == 1
    tensor: Tensor = on_pixels(pic, (), ops.fused_conversion((conversion,), shape.channels)[0], None, in_rows=in_rows)
    return tensor


def _pixels(pic: PILImage, array: "Array") -> "Array":
    return array.reshape(pic.size[1], pic.size[0], len(pic.getbands()))


def convert_image_dtype(image: torch.Tensor, dtype: torch.dtype = torch.float) -> torch.Tensor:
    """Converts a tensor to another dtype, scaled so that white stays white (1.0, or an integer dtype's largest value).

    From a smaller to a larger integer dtype the largest value isn't mapped exactly; converting back restores it.

    Args:
        image: tensor of any shape.
        dtype: the dtype of the result.

    Raises:
        TypeError: ``image`` is no tensor.
        RuntimeError: from float32 to int32 or int64, or from float64 to int64, because a float can't represent every
            such integer.
    """
    if not isinstance(image, torch.Tensor):
        raise TypeError("Input img should be Tensor Image")
    if image.dtype == dtype:
        return image
    # TorchScript has no dtype.is_floating_point.
    to_float = torch.tensor(0, dtype=dtype).is_floating_point()

    if image.is_floating_point():
        if to_float:
            return image.to(dtype)
        if (image.dtype == torch.float32 and dtype in (torch.int32, torch.int64)) or (
            image.dtype == torch.float64 and dtype == torch.int64
        ):
            raise RuntimeError(f"The cast from {image.dtype} to {dtype} cannot be performed safely.")
        # Multiplied by the maximum, only 1.0 would become white; multiplied by (almost) one more, every integer gets an
        # equal share of [0, 1]: https://github.com/pytorch/vision/pull/2078#issuecomment-612045321
        return image.mul(float(max_value(dtype)) + 1.0 - 1e-3).to(dtype)

    input_max = float(max_value(image.dtype))
    if to_float:
        return image.to(dtype) / input_max

    # The factors are converted to int; otherwise TorchScript would compute with floats, and round.
    output_max = float(max_value(dtype))
    if input_max > output_max:
        return torch.div(image, int((input_max + 1) // (output_max + 1)), rounding_mode="floor").to(dtype)
    return image.to(dtype) * int((output_max + 1) // (input_max + 1))


def to_pil_image(pic, mode=None):  # type: ignore[no-untyped-def] # torchvision's signature has no annotations
    """Converts a tensor ``(H, W)`` or ``(C, H, W)`` or an ndarray ``(H, W)`` or ``(H, W, C)`` to a PIL image; copies.

    Floating values are taken as [0, 1] and become 8 bits, unless the mode is F. Not for TorchScript.

    Args:
        pic (Tensor | ndarray): 1 to 4 channels.
        mode (str | None): Pillow's mode of the result; by default L, LA, RGB or RGBA for 8 bits, I;16, I or F for one
            channel of int16, int32 or float32.

    Raises:
        TypeError: ``pic`` is neither, or no mode fits its dtype.
        ValueError: ``pic`` has another shape, or the mode doesn't fit it.
    """
    if isinstance(pic, torch.Tensor):
        array = (pic.permute((1, 2, 0)) if pic.ndim == 3 else pic).numpy(force=True)
        if array.dtype == np.uint8 and pic.ndim == 3 and pic.is_contiguous():
            array = kernels.planes_to_array(array.transpose(2, 0, 1))
    elif isinstance(pic, np.ndarray):
        array = pic
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")

    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise ValueError(f"pic should be 2/3 dimensional. Got {array.ndim} dimensions.")
    channels = array.shape[-1]
    if channels > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {channels} channels.")
    if np.issubdtype(array.dtype, np.floating) and mode != "F":
        array = (array * 255).astype(np.uint8)

    if channels == 1:
        array = array[:, :, 0]
        expected = _MODES_OF_GRAY.get(array.dtype)
        if mode is not None and mode != expected:
            raise ValueError(f"Incorrect mode ({mode}) supplied for input type {array.dtype}. Should be {expected}")
        mode = expected
    else:
        # torchvision treats all numbers of channels other than 2 and 4 as 3, also an array without channels.
        permitted = {2: ["LA"], 4: ["RGBA", "CMYK", "RGBX"]}.get(channels, ["RGB", "YCbCr", "HSV"])
        if mode is not None and mode not in permitted:
            raise ValueError(f"Only modes {permitted} are supported for {channels}D inputs")
        if mode is None and array.dtype == np.uint8:
            mode = permitted[0]
    if mode is None:
        raise TypeError(f"Input type {array.dtype} is not supported")
    if mode in ("L", "RGB") and array.dtype == np.uint8 and array.size:
        return to_pil(array)
    return _pil.from_array(array, mode)


def normalize(tensor: Tensor, mean: Floats, std: Floats, inplace: bool = False) -> Tensor:
    """``(tensor - mean) / std``, channel by channel.

    Args:
        tensor: floating ``(..., C, H, W)``.
        mean: one value a channel.
        std: one value a channel; not zero.
        inplace: change and return the given tensor.

    Raises:
        TypeError: ``tensor`` is no floating tensor.
        ValueError: ``tensor`` has fewer than three dimensions, or ``std`` has a zero.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    assert_image_tensor(tensor)

    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")

    if tensor.ndim < 3:
        raise ValueError(
            f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = {tensor.size()}"
        )

    dtype = tensor.dtype
    mean_tensor = torch.as_tensor(mean, dtype=dtype, device=tensor.device)
    std_tensor = torch.as_tensor(std, dtype=dtype, device=tensor.device)
    if (std_tensor == 0).any():
        raise ValueError(f"std evaluated to zero after conversion to {dtype}, leading to division by zero.")
    if not inplace and not is_scripting() and mean_tensor.ndim == std_tensor.ndim == 1:
        by_rows = floats.normalized(tensor, mean_tensor, std_tensor)
        if by_rows is not None:
            return by_rows
    if not inplace:
        tensor = tensor.clone()
    if mean_tensor.ndim == 1:
        mean_tensor = mean_tensor.view(-1, 1, 1)
    if std_tensor.ndim == 1:
        std_tensor = std_tensor.view(-1, 1, 1)
    return tensor.sub_(mean_tensor).div_(std_tensor)
