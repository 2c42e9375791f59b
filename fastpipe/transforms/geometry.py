"""Crops, pads, flips and resizes."""

import numbers
from collections.abc import Sequence

import PIL.Image
import torch

from fastpipe import ops
from fastpipe.pillow.lazy_image import lazy_of
from fastpipe.program import run_steps
from fastpipe.rng import Stream, TorchStream, stream_of
from fastpipe.rng.float32 import log_ratio
from fastpipe.tensor_kernels.torchscript import FloatList, Image
from fastpipe.transforms import functional as F
from fastpipe.transforms._base import RandomOp, Transform, check_interpolation, check_scale_and_ratio, setup_size
from fastpipe.transforms.functional import InterpolationMode
from fastpipe.types import Generators, ImageShape, Ints, Step

_TWO_SIZES = "Please provide only two dimensions (h, w) for size."
_HFLIP: ops.Operation = ops.interned_once(ops.HFlip)
_VFLIP: ops.Operation = ops.interned_once(ops.VFlip)


class Resize(Transform):
    """Resizes an image.

    Args:
        size: ``(height, width)``, or the length of the shorter edge (an int, or a sequence of one); the longer edge
            keeps the aspect ratio.
        interpolation: an `InterpolationMode`, or Pillow's integer for one. Tensors take NEAREST, NEAREST_EXACT,
            BILINEAR and BICUBIC.
        max_size: a maximum for the longer edge, which overrides ``size``; only if ``size`` is one length.
        antialias: average over all pixels when shrinking, in bilinear and bicubic mode. Only affects tensors: PIL
            images and uint8 ndarrays are always antialiased.

    Raises:
        TypeError: ``size`` is neither an int nor a sequence.
        ValueError: ``size`` doesn't have 1 or 2 elements.
    """

    _repr_format = (
        "size={0.size}, interpolation={0.interpolation.value}, max_size={0.max_size}, antialias={0.antialias}"
    )

    def __init__(
        self,
        size: Ints,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if not isinstance(size, int | Sequence):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size = size
        self.max_size = max_size
        self.interpolation = check_interpolation(interpolation)
        self.antialias = antialias

    def forward(self, img: Image) -> Image:
        """Returns the resized image."""
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return (ops.resize_to(self.size, self.interpolation, self.max_size, self.antialias),)


class _OfSize(Transform):
    """The base of crops to a given size."""

    _repr_format = "size={0.size}"

    def __init__(self, size: Ints) -> None:
        super().__init__()
        self.size = setup_size(size, error_msg=_TWO_SIZES)


class CenterCrop(_OfSize):
    """Crops the middle of an image; a smaller image is first padded with zeros.

    Args:
        size: ``(height, width)`` of the crop; an int, or a sequence of one, for a square.
    """

    def forward(self, img: Image) -> Image:
        """Returns the crop."""
        return F.center_crop(img, self.size)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return (ops.center_crop_to(self.size),)


class Pad(Transform):
    """Pads an image on all sides.

    Args:
        padding: pixels on every side; ``(left and right, top and bottom)``; or ``(left, top, right, bottom)``.
        fill: the value of new pixels in mode ``"constant"``: a number, or one for each channel.
        padding_mode: ``"constant"``, ``"edge"`` (the nearest pixel), ``"reflect"`` (mirrored without the edge pixel:
            ``3 2 [1 2 3 4] 3 2``) or ``"symmetric"`` (mirrored with the edge pixel: ``2 1 [1 2 3 4] 4 3``).

    Raises:
        TypeError: ``padding`` or ``fill`` is neither a number, a tuple nor a list.
        ValueError: an unknown mode, or a number of paddings other than 1, 2 or 4.
    """

    _repr_format = "padding={0.padding}, fill={0.fill}, padding_mode={0.padding_mode}"

    def __init__(self, padding: Ints, fill: float | Sequence[float] = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        if not isinstance(padding, numbers.Number | tuple | list):
            raise TypeError("Got inappropriate padding arg")
        if not isinstance(fill, numbers.Number | tuple | list):
            raise TypeError("Got inappropriate fill arg")
        if padding_mode not in ["constant", "edge", "reflect", "symmetric"]:
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        if isinstance(padding, Sequence) and len(padding) not in [1, 2, 4]:
            raise ValueError(
                f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple"
            )
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Image) -> Image:
        """Returns the padded image."""
        return F.pad(img, self.padding, self.fill, self.padding_mode)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return (ops.pad_by(self.padding, self.fill, self.padding_mode),)


class RandomCrop(Transform):
    """Crops an image at a random place.

    Args:
        size: ``(height, width)`` of the crop; an int, or a sequence of one, for a square.
        padding: pad first, as `Pad` does; None for no padding.
        pad_if_needed: then pad an image that is too small: left and right if it is too narrow, top and bottom if it is
            too low, on each side by the whole difference.
        fill: see `Pad`.
        padding_mode: see `Pad`.

    Raises:
        ValueError: when called, the image is smaller than the crop.
    """

    _repr_format = "size={0.size}, padding={0.padding}"

    @staticmethod
    def get_params(img: Image, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """``(top, left, height, width)`` of a random crop.

        Args:
            img: the image; only its size matters.
            output_size: ``(height, width)`` of the crop.
        """
        _, height, width = F.get_dimensions(img)
        return _draw_crop(height, width, output_size, TorchStream())

    def __init__(
        self,
        size: Ints,
        padding: Ints | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        height, width = setup_size(size, error_msg=_TWO_SIZES)
        self.size = height, width
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Image) -> Image:
        """Returns the crop."""
        if not isinstance(img, torch.Tensor):  # noqa: SIM102 - TorchScript must not compile the inner condition
            if self.padding is not None:
                return _cropped(self, img)
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, height, width = F.get_dimensions(img)
        if self.pad_if_needed and width < self.size[1]:
            img = F.pad(img, [self.size[1] - width, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.size[0]:
            img = F.pad(img, [0, self.size[0] - height], self.fill, self.padding_mode)
        i, j, h, w = self.get_params(img, self.size)
        return F.crop(img, i, j, h, w)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        steps: list[Step] = []
        if self.padding is not None:
            steps.append(ops.pad_by(self.padding, self.fill, self.padding_mode))
            shape = steps[-1].output_shape(shape)
        missing_width, missing_height = self.size[1] - shape.width, self.size[0] - shape.height
        if self.pad_if_needed and missing_width > 0:
            steps.append(ops.pad_by([missing_width, 0], self.fill, self.padding_mode))
            shape = steps[-1].output_shape(shape)
        if self.pad_if_needed and missing_height > 0:
            steps.append(ops.pad_by([0, missing_height], self.fill, self.padding_mode))
            shape = steps[-1].output_shape(shape)
        top, left, height, width = _draw_crop(shape.height, shape.width, self.size, stream_of(generators))
        places = (shape.height - height + 1) * (shape.width - width + 1)
        steps.append(ops.crop_at(top, left, height, width, places))
        return tuple(steps)


def _cropped(crop: RandomCrop, img: Image) -> Image:
    """Pads and crops an array or a PIL image in one step."""
    channels, height, width = F.get_dimensions(img)
    if isinstance(img, PIL.Image.Image) and lazy_of(img) is None:
        img.load()  # a broken file raises before a number is drawn, as torchvision's padding does
    cropped: Image = run_steps(crop.draw(ImageShape(height, width, channels), Generators()), img)
    return cropped


def _draw_crop(height: int, width: int, output_size: tuple[int, int], stream: Stream) -> tuple[int, int, int, int]:
    """``(top, left, height, width)``; draws nothing if the crop is the whole image."""
    th, tw = output_size
    if height < th or width < tw:
        raise ValueError(f"Required crop size {(th, tw)} is larger than input image size {(height, width)}")
    if width == tw and height == th:
        return 0, 0, height, width
    i = stream.randint(0, height - th + 1)
    j = stream.randint(0, width - tw + 1)
    return i, j, th, tw


class _RandomFlip(RandomOp):
    """A flip with probability ``p``, which torchvision compares in float32 here."""

    def _happens(self, stream: Stream) -> bool:
        return stream.bernoulli(float(self.p))


class RandomHorizontalFlip(_RandomFlip):
    """Mirrors left and right, with probability ``p``.

    Args:
        p: the probability.
    """

    _looks_at_shape = False

    def _changed(self, img: Image) -> Image:
        return F.hflip(img)

    def _operation(self) -> ops.Operation:
        return _HFLIP


class RandomVerticalFlip(_RandomFlip):
    """Mirrors top and bottom, with probability ``p``.

    Args:
        p: the probability.
    """

    _looks_at_shape = False

    def _changed(self, img: Image) -> Image:
        return F.vflip(img)

    def _operation(self) -> ops.Operation:
        return _VFLIP


class RandomResizedCrop(Transform):
    """Crops a part of random area and aspect ratio at a random place, and resizes it, as for training Inception.

    Args:
        size: ``(height, width)`` of the result; an int, or a sequence of one, for a square.
        scale: bounds of the crop's area, as fractions of the image's.
        ratio: bounds of the crop's width divided by its height.
        interpolation: see `Resize`.
        antialias: see `Resize`.

    Raises:
        TypeError: ``scale`` or ``ratio`` isn't a sequence.
    """

    def __init__(
        self,
        size: Ints,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = setup_size(size, error_msg=_TWO_SIZES)
        check_scale_and_ratio(scale, ratio)
        self.interpolation = check_interpolation(interpolation)
        self.antialias = antialias
        self.scale = scale
        self.ratio = ratio

    @staticmethod
    def get_params(img: Image, scale: FloatList, ratio: FloatList) -> tuple[int, int, int, int]:
        """``(top, left, height, width)`` of a random crop.

        Args:
            img: the image; only its size matters.
            scale: bounds of the crop's area, as fractions of the image's.
            ratio: bounds of the crop's width divided by its height.
        """
        _, height, width = F.get_dimensions(img)
        logarithms: list[float] = torch.log(torch.tensor(ratio)).tolist()
        return _draw_resized_crop(height, width, scale, ratio, logarithms, TorchStream())

    def forward(self, img: Image) -> Image:
        """Returns the resized crop."""
        i, j, h, w = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, i, j, h, w, self.size, self.interpolation, antialias=self.antialias)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        height, width, _ = shape
        logarithms = log_ratio(tuple(self.ratio), torch.get_default_dtype())
        box = _draw_resized_crop(height, width, self.scale, self.ratio, logarithms, stream_of(generators))
        return ops.Crop(*box), ops.resize_to(list(self.size), self.interpolation, None, self.antialias)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}(size={self.size}, scale={tuple(round(s, 4) for s in self.scale)}"
            f", ratio={tuple(round(r, 4) for r in self.ratio)}, interpolation={self.interpolation.value}"
            f", antialias={self.antialias})"
        )


def _draw_resized_crop(
    height: int,
    width: int,
    scale: FloatList,
    ratio: FloatList,
    logarithms: list[float],
    stream: Stream,
) -> tuple[int, int, int, int]:
    """``(top, left, height, width)``: the first of ten tries that fits, else the largest central crop."""
    area = height * width
    for _ in range(10):
        target_area = area * stream.uniform(scale[0], scale[1])
        w, h = stream.rectangle_sides(target_area, logarithms[0], logarithms[1])
        if 0 < w <= width and 0 < h <= height:
            i = stream.randint(0, height - h + 1)
            j = stream.randint(0, width - w + 1)
            return i, j, h, w
    return largest_crop(height, width, ratio)


def largest_crop(height: int, width: int, ratio: FloatList) -> tuple[int, int, int, int]:
    """``(top, left, height, width)`` of the largest central crop with a ratio of width to height between two bounds."""
    in_ratio = float(width) / float(height)
    if in_ratio < min(ratio):
        w = width
        h = int(round(w / min(ratio)))  # noqa: RUF046 - TorchScript's round gives a float
    elif in_ratio > max(ratio):
        h = height
        w = int(round(h * max(ratio)))  # noqa: RUF046 - TorchScript's round gives a float
    else:
        w = width
        h = height
    return (height - h) // 2, (width - w) // 2, h, w


class FiveCrop(_OfSize):
    """Crops the four corners and the centre of an image, as a tuple of five.

    Args:
        size: ``(height, width)`` of the crops; an int, or a sequence of one, for squares.

    Raises:
        ValueError: when called, the image is smaller than the crops.
    """

    def forward(self, img: Image) -> tuple[Image, Image, Image, Image, Image]:
        """Returns the crops: top left, top right, bottom left, bottom right, centre."""
        return F.five_crop(img, self.size)


class TenCrop(_OfSize):
    """Makes the crops of `FiveCrop`, and those of the mirrored image, as a tuple of ten.

    Args:
        size: ``(height, width)`` of the crops; an int, or a sequence of one, for squares.
        vertical_flip: mirror top and bottom instead of left and right.

    Raises:
        ValueError: when called, the image is smaller than the crops.
    """

    _repr_format = "size={0.size}, vertical_flip={0.vertical_flip}"

    def __init__(self, size: Ints, vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def forward(self, img: Image) -> tuple[Image, Image, Image, Image, Image, Image, Image, Image, Image, Image]:
        """Returns five crops of the image, then five of its mirror image."""
        return F.ten_crop(img, self.size, self.vertical_flip)
