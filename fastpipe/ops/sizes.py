"""Sizes and boxes of geometric operations' results, computed from sizes alone.

The operations, the drawn steps and the planner all use these functions. TorchScript compiles them as part of the
operations.
"""

import numbers

from fastpipe.tensor_kernels.torchscript import IntList, Ints


def resized_size(height: int, width: int, size: Ints, max_size: int | None = None) -> tuple[int, int]:
    """The ``(height, width)`` of `resize`'s result for an image of this height and width.

    Args:
        size: ``[height, width]``, or one length (``[length]``, or ``length`` outside of TorchScript) for the shorter
            edge.
        max_size: the maximum of the longer edge, for which the shorter edge shrinks, too; only with one length.

    Raises:
        ValueError: ``size`` has neither 1 nor 2 elements, or ``max_size`` contradicts it.
    """
    if isinstance(size, int):
        size = [size]
    check_size(size, max_size)
    if len(size) == 2:
        return size[0], size[1]

    short, long = (width, height) if width <= height else (height, width)
    new_short, new_long = size[0], int(size[0] * long / short)
    if max_size is not None:
        if max_size <= size[0]:
            raise ValueError(
                f"max_size = {max_size} must be strictly greater than the requested "
                f"size for the smaller edge size = {size}"
            )
        if new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_long, new_short) if width <= height else (new_short, new_long)


def check_size(size: Ints, max_size: int | None) -> None:
    """Raises `resized_size`'s errors that don't depend on the image."""
    if isinstance(size, (list, tuple)):
        if len(size) not in [1, 2]:
            raise ValueError(
                f"Size must be an int or a 1 or 2 element tuple/list, not a {len(size)} element tuple/list"
            )
        if max_size is not None and len(size) != 1:
            raise ValueError(
                "max_size should only be passed if size specifies the length of the smaller edge, "
                "i.e. size should be an int or a sequence of length 1 in torchscript mode."
            )


def height_and_width(size: Ints) -> list[int]:
    """``[height, width]`` from one number for both (or a sequence of one number), or from a sequence of two."""
    if isinstance(size, numbers.Number):
        return [int(size), int(size)]  # type: ignore[arg-type]
    sides: IntList = size  # type: ignore[assignment]
    if len(sides) == 1:
        return [sides[0], sides[0]]
    if len(sides) != 2:
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    return [sides[0], sides[1]]


def center_crop_box(height: int, width: int, output_size: Ints) -> tuple[int, int, int, int]:
    """``(top, left, height, width)`` of the centre crop; the box leaves an image smaller than ``output_size``.

    Half pixels are rounded to even, as in torchvision. torchvision pads a smaller image first, and puts an odd pixel
    at the bottom or right.
    """
    crop_height, crop_width = height_and_width(output_size)
    pad_top = (crop_height - height) // 2 if crop_height > height else 0
    pad_left = (crop_width - width) // 2 if crop_width > width else 0
    # TorchScript rounds to a float.
    top = int(round((max(height, crop_height) - crop_height) / 2.0))  # noqa: RUF046 - TorchScript's round gives a float
    left = int(round((max(width, crop_width) - crop_width) / 2.0))  # noqa: RUF046 - TorchScript's round gives a float
    return top - pad_top, left - pad_left, crop_height, crop_width


def padding_ltrb(padding: Ints) -> tuple[int, int, int, int]:
    """``(left, top, right, bottom)`` from 1, 2 (left and right, top and bottom) or 4 numbers, or one int.

    Raises:
        ValueError: ``padding`` has another number of elements.
    """
    if isinstance(padding, int):
        return padding, padding, padding, padding
    if len(padding) == 1:
        return padding[0], padding[0], padding[0], padding[0]
    if len(padding) == 2:
        return padding[0], padding[1], padding[0], padding[1]
    if len(padding) == 4:
        return padding[0], padding[1], padding[2], padding[3]
    raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple")
