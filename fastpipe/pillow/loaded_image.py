"""Methods and functions that look at every pixel of a Pillow image, by the core, on images that have theirs.

Each has the parameters of the library's own, and gives the new image, or None where the library is to make it: of
another mode, of too few pixels, by arguments that the core doesn't take, or that the library refuses.
"""

from __future__ import annotations

from PIL import Image

from fastpipe.ops import AdjustHue, GaussianBlur, GaussianBlurOfV2, Operation
from fastpipe.pillow.method_arguments import (
    filter_operation,
    resize_operations,
    warp_operation,
    whole_size,
)
from fastpipe.program.on_image import run_operation
from fastpipe.tensor_kernels.filters import blur_arguments
from fastpipe.types import Size


def resize(
    self: Image.Image, size: object, resample: object = None, box: object = None, reducing_gap: object = None
) -> Image.Image | None:
    """``Image.resize``."""
    steps = resize_operations(Size(self.height, self.width), size, resample, box, reducing_gap)
    return run_operation(steps[0], self) if steps else None


def transform(
    self: Image.Image,
    size: object,
    method: object,
    data: object = None,
    resample: object = 0,
    fill: object = 1,
    fillcolor: object = None,
) -> Image.Image | None:
    """``Image.transform`` to the image's own size, in RGB; ``rotate`` calls it."""
    if whole_size(size) != self.size[::-1]:
        return None
    return _done(warp_operation(self.mode, method, data, resample, fillcolor), self)


def filter(self: Image.Image, filter: object) -> Image.Image | None:
    """``Image.filter``."""
    return _done(filter_operation(filter), self)


def adjust_hue(img: Image.Image, hue_factor: object) -> Image.Image | None:
    """torchvision's ``adjust_hue`` of a colour image."""
    if not isinstance(hue_factor, (int, float)):
        return None
    return _done(AdjustHue(hue_factor), img)


def gaussian_blur(img: Image.Image, kernel_size: object, sigma: object = None) -> Image.Image | None:
    """torchvision's ``gaussian_blur``."""
    return _blurred(GaussianBlur, kernel_size, sigma, img)


def _gaussian_blur_image_pil(image: Image.Image, kernel_size: object, sigma: object = None) -> Image.Image | None:
    """v2's ``gaussian_blur``."""
    return _blurred(GaussianBlurOfV2, kernel_size, sigma, image)


def _blurred(kind: type[GaussianBlur], kernel_size: object, sigma: object, image: Image.Image) -> Image.Image | None:
    arguments = blur_arguments(kernel_size, sigma)
    return None if arguments is None else run_operation(kind(*arguments), image)


def _done(operation: Operation | None, image: Image.Image) -> Image.Image | None:
    return None if operation is None else run_operation(operation, image)
