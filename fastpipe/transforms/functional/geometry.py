"""Crop, flip, pad and resize functions: on tensors here, on other images by `_images`.

Images are tensors ``(..., C, H, W)`` of any dtype and device, PIL images of any mode, or ndarrays ``(H, W)`` or
``(H, W, C)``, uint8 or floating in [0, 1]. The result has the input's type, and an input is never changed. Tensors get
the result of torchvision's tensor backend, PIL images Pillow's, uint8 ndarrays torchvision's for the same PIL image,
and floating ndarrays the tensor backend's. (Pillow premultiplies RGBA and LA for a resize. An array doesn't tell that
its second or fourth channel is alpha, so that channel is resized like the others.)

Derived from torchvision (BSD-3-Clause, see NOTICE); compiled by TorchScript.
"""

import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torch.nn.functional import pad as torch_pad

from fastpipe.ops.interpolation import InterpolationMode, checked_interpolation
from fastpipe.ops.sizes import (
    center_crop_box,
    check_size,
    height_and_width,
    padding_ltrb,
    resized_size,
)
from fastpipe.tensor_kernels import floats
from fastpipe.tensor_kernels.torchscript import Image, Ints, Scalar, is_scripting
from fastpipe.transforms.functional import _images, _tensor_common
from fastpipe.transforms.functional._tensor_common import assert_image_tensor, cast_squeeze_in, cast_squeeze_out


def get_dimensions(img: Image) -> list[int]:
    """``[channels, height, width]`` of an image.

    Raises:
        TypeError: ``img`` is no image.
    """
    if not isinstance(img, torch.Tensor):
        return _images.get_dimensions(img)
    return _tensor_common.get_dimensions(img)


def get_image_size(img: Image) -> list[int]:
    """``[width, height]`` of an image, in this order.

    Raises:
        TypeError: ``img`` is no image.
    """
    _, height, width = get_dimensions(img)
    return [width, height]


def get_image_num_channels(img: Image) -> int:
    """The number of an image's channels.

    Raises:
        TypeError: ``img`` is no image.
    """
    return get_dimensions(img)[0]


def resize(
    img: Image,
    size: Ints,
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Image:
    """The image at another size; the image itself if it has that size.

    Args:
        img: tensor ``(..., H, W)``, PIL image or ndarray.
        size: ``(height, width)``, or one length for the shorter edge, which keeps the aspect ratio. TorchScript needs
            a list.
        interpolation: an `InterpolationMode` or Pillow's integer constant. Tensors (and floating ndarrays) take
            nearest, nearest-exact, bilinear and bicubic.
        max_size: the maximum of the longer edge, in pixels; only if ``size`` is one length.
        antialias: smooth tensors and floating ndarrays before shrinking them, in bilinear and bicubic mode; None for
            False. PIL images and uint8 ndarrays are always antialiased.

    Raises:
        TypeError: ``interpolation`` is neither a mode nor an integer, or ``img`` is no image.
        ValueError: ``size`` and ``max_size`` don't fit each other.
    """
    interpolation = checked_interpolation(interpolation)
    check_size(size, max_size)
    _, height, width = get_dimensions(img)
    new_height, new_width = resized_size(height, width, size, max_size)
    if height == new_height and width == new_width:
        return img

    if not isinstance(img, torch.Tensor):
        return _images.resize(img, new_height, new_width, interpolation, antialias)
    return resize_tensor(img, [new_height, new_width], interpolation.value, antialias)


def resize_tensor(
    img: Tensor, size: list[int], interpolation: str = "bilinear", antialias: bool | None = True
) -> Tensor:
    """Args: ``size``: height and width; ``interpolation``: torch's name of the mode."""
    assert_image_tensor(img)
    if isinstance(size, tuple):
        size = list(size)
    smooth = interpolation in ["bilinear", "bicubic"]
    # torch's interpolate refuses antialias in other modes, in which it has no effect.
    use_antialias = False if antialias is None else antialias and smooth

    if not is_scripting() and img.ndim >= 3:
        resized = floats.resized(img if img.ndim > 3 else img.unsqueeze(0), size, interpolation, use_antialias)
        if resized is not None:
            return resized if img.ndim > 3 else resized.squeeze(0)
    img, need_cast, need_squeeze, out_dtype = cast_squeeze_in(img, [torch.float32, torch.float64])
    # Giving align_corners in other modes is an error; not giving it in these modes is a warning.
    align_corners = False if smooth else None
    img = interpolate(img, size=size, mode=interpolation, align_corners=align_corners, antialias=use_antialias)
    if interpolation == "bicubic" and out_dtype == torch.uint8:
        img = img.clamp(min=0, max=255)
    return cast_squeeze_out(img, need_cast=need_cast, need_squeeze=need_squeeze, out_dtype=out_dtype)


def pad(img: Image, padding: Ints, fill: Scalar = 0, padding_mode: str = "constant") -> Image:
    """The image with a border; negative padding crops.

    Args:
        img: tensor ``(..., H, W)`` (at most 2 leading dimensions for reflect and symmetric), PIL image or ndarray.
        padding: pixels on every side, or (left and right, top and bottom), or (left, top, right, bottom). TorchScript
            needs a list.
        fill: the border's value for "constant"; for PIL images and ndarrays also one number a channel.
        padding_mode: "constant", "edge" (repeats the edge pixel), "reflect" (mirrors without the edge pixel:
            [3, 2, 1, 2, 3, 2, 1]) or "symmetric" (mirrors with the edge pixel: [2, 1, 1, 2, 3, 3, 2]).

    Raises:
        TypeError: an argument has another type.
        ValueError: another number of paddings, an unknown mode, or a number of fill values other than of channels.
    """
    if not isinstance(img, torch.Tensor):
        return _images.pad(img, padding, fill, padding_mode)
    assert_image_tensor(img)
    if fill is None:
        fill = 0
    if not isinstance(padding, (int, tuple, list)):
        raise TypeError("Got inappropriate padding arg")
    if not isinstance(fill, (int, float)):
        raise TypeError("Got inappropriate fill arg")
    if not isinstance(padding_mode, str):
        raise TypeError("Got inappropriate padding_mode arg")
    left, top, right, bottom = padding_ltrb(padding)
    left_right_top_bottom = [left, right, top, bottom]
    if padding_mode not in ["constant", "edge", "reflect", "symmetric"]:
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    if padding_mode == "symmetric":
        return pad_symmetric(img, left_right_top_bottom)

    # torch mirrors and replicates floating dtypes only: https://github.com/pytorch/pytorch/issues/40763
    dtypes = [img.dtype] if padding_mode == "constant" else [torch.float32, torch.float64]
    img, need_cast, need_squeeze, out_dtype = cast_squeeze_in(img, dtypes)
    if padding_mode == "constant":
        img = torch_pad(img, left_right_top_bottom, mode="constant", value=float(fill))
    elif padding_mode == "edge":
        img = torch_pad(img, left_right_top_bottom, mode="replicate")
    else:
        img = torch_pad(img, left_right_top_bottom, mode="reflect")
    return cast_squeeze_out(img, need_cast, need_squeeze, out_dtype)


def pad_symmetric(img: Tensor, padding: list[int]) -> Tensor:
    """Mirrors the image with its edge repeated; negative padding crops.

    Args:
        padding: left, right, top, bottom.
    """
    if padding[0] < 0 or padding[1] < 0 or padding[2] < 0 or padding[3] < 0:
        crop_left, crop_right, crop_top, crop_bottom = [-min(x, 0) for x in padding]
        img = img[..., crop_top : img.shape[-2] - crop_bottom, crop_left : img.shape[-1] - crop_right]
        padding = [max(x, 0) for x in padding]

    x_indices = torch.tensor(_mirrored(img.shape[-1], padding[0], padding[1]), device=img.device)
    y_indices = torch.tensor(_mirrored(img.shape[-2], padding[2], padding[3]), device=img.device)
    if img.ndim == 3:
        return img[:, y_indices[:, None], x_indices[None, :]]
    if img.ndim == 4:
        return img[:, :, y_indices[:, None], x_indices[None, :]]
    raise RuntimeError("Symmetric padding of N-D tensors are not supported yet")


def _mirrored(length: int, before: int, after: int) -> list[int]:
    """Indices such as [1, 0, 0, 1, 2, -1, -2]; an index beyond the opposite edge raises when it is used."""
    # A comprehension, because TorchScript can't convert a range to a list.
    return [i if i >= 0 else -i - 1 for i in range(-before, length)] + [-(i + 1) for i in range(after)]


def crop(img: Image, top: int, left: int, height: int, width: int) -> Image:
    """A box of the image, black outside of the image; a view of a tensor or ndarray if the box lies inside.

    Args:
        img: tensor ``(..., H, W)``, PIL image or ndarray.
        top: the box's first row.
        left: the box's first column.
        height: the box's height.
        width: the box's width.
    """
    if not isinstance(img, torch.Tensor):
        return _images.crop(img, top, left, height, width)
    assert_image_tensor(img)
    _, h, w = get_dimensions(img)
    right = left + width
    bottom = top + height
    if left < 0 or top < 0 or right > w or bottom > h:
        padding = [
            max(-left + min(0, right), 0),
            max(-top + min(0, bottom), 0),
            max(right - max(w, left), 0),
            max(bottom - max(h, top), 0),
        ]
        return pad(img[..., max(top, 0) : bottom, max(left, 0) : right], padding, fill=0)
    return img[..., top:bottom, left:right]


def center_crop(img: Image, output_size: Ints) -> Image:
    """The box in the image's middle, with black around an image that is smaller than the box.

    Args:
        img: tensor ``(..., H, W)``, PIL image or ndarray.
        output_size: ``(height, width)``, or one number for both. TorchScript needs a list.
    """
    _, height, width = get_dimensions(img)
    top, left, crop_height, crop_width = center_crop_box(height, width, output_size)
    if not isinstance(img, torch.Tensor):
        return _images.center_crop(img, top, left, crop_height, crop_width)
    return crop(img, top, left, crop_height, crop_width)


def resized_crop(
    img: Image,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Ints,
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Image:
    """`crop`, then `resize`.

    Args:
        img: tensor ``(..., H, W)``, PIL image or ndarray.
        top: the box's first row.
        left: the box's first column.
        height: the box's height.
        width: the box's width.
        size: see `resize`.
        interpolation: see `resize`.
        antialias: see `resize`.
    """
    if not isinstance(img, torch.Tensor):  # noqa: SIM102 - TorchScript must not compile the inner condition
        if antialias is not False:
            by_core = _images.resized_crop(img, top, left, height, width, size, interpolation)
            if by_core is not None:
                return by_core
    img = crop(img, top, left, height, width)
    return resize(img, size, interpolation, antialias=antialias)


def hflip(img: Image) -> Image:
    """Mirrors an image left to right: a tensor ``(..., H, W)``, PIL image or ndarray."""
    if not isinstance(img, torch.Tensor):
        return _images.hflip(img)
    assert_image_tensor(img)
    return img.flip(-1)


def vflip(img: Image) -> Image:
    """Turns an image upside down: a tensor ``(..., H, W)``, PIL image or ndarray."""
    if not isinstance(img, torch.Tensor):
        return _images.vflip(img)
    assert_image_tensor(img)
    return img.flip(-2)


def five_crop(img: Image, size: Ints) -> tuple[Image, Image, Image, Image, Image]:
    """Crops the four corners and the middle: ``(top left, top right, bottom left, bottom right, centre)``.

    Args:
        img: tensor ``(..., H, W)``, PIL image or ndarray.
        size: ``(height, width)`` of each, or one number for both. TorchScript needs a list.

    Raises:
        ValueError: ``size`` isn't one or two numbers, or is larger than the image.
    """
    crop_height, crop_width = height_and_width(size)
    _, height, width = get_dimensions(img)
    if crop_width > width or crop_height > height:
        raise ValueError(f"Requested crop size {size} is bigger than input size {(height, width)}")

    return (
        crop(img, 0, 0, crop_height, crop_width),
        crop(img, 0, width - crop_width, crop_height, crop_width),
        crop(img, height - crop_height, 0, crop_height, crop_width),
        crop(img, height - crop_height, width - crop_width, crop_height, crop_width),
        center_crop(img, [crop_height, crop_width]),
    )


def ten_crop(
    img: Image, size: Ints, vertical_flip: bool = False
) -> tuple[Image, Image, Image, Image, Image, Image, Image, Image, Image, Image]:
    """`five_crop` of the image, then of the flipped image.

    Args:
        img: tensor ``(..., H, W)``, PIL image or ndarray.
        size: see `five_crop`.
        vertical_flip: flip upside down instead of left to right.

    Raises:
        ValueError: see `five_crop`.
    """
    first_five = five_crop(img, size)
    flipped = vflip(img) if vertical_flip else hflip(img)
    return first_five + five_crop(flipped, size)
