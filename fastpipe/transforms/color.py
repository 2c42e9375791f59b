"""Colour transforms, which work on each pixel by itself or use the image's statistics."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fastpipe import ops
from fastpipe.program import run_steps
from fastpipe.rng import Stream, TorchStream, stream_of
from fastpipe.tensor_kernels.torchscript import FloatList, Image
from fastpipe.transforms import functional as F
from fastpipe.transforms._base import RandomOp, Transform, is_number
from fastpipe.types import Generators, ImageShape, Step

_INVERT, _AUTOCONTRAST, _EQUALIZE = ops.Invert(), ops.Autocontrast(), ops.Equalize()


class ColorJitter(Transform):
    """Changes brightness, contrast, saturation and hue at random and in random order.

    Args:
        brightness: bounds ``(min, max)`` of the factor, not negative; a number ``b`` for ``(max(0, 1 - b), 1 + b)``.
        contrast: as ``brightness``, for contrast.
        saturation: as ``brightness``, for saturation.
        hue: bounds of the shift, within ``(-0.5, 0.5)`` where 1 is the full circle; a number ``h`` for ``(-h, h)``.

    Raises:
        TypeError: an argument is neither a number nor a list or tuple of two.
        ValueError: a value is out of its range.
    """

    _looks_at_shape = False

    _repr_format = "brightness={0.brightness}, contrast={0.contrast}, saturation={0.saturation}, hue={0.hue}"

    def __init__(
        self,
        brightness: float | tuple[float, float] = 0,
        contrast: float | tuple[float, float] = 0,
        saturation: float | tuple[float, float] = 0,
        hue: float | tuple[float, float] = 0,
    ) -> None:
        super().__init__()
        self.brightness = self._check_input(brightness, "brightness")
        self.contrast = self._check_input(contrast, "contrast")
        self.saturation = self._check_input(saturation, "saturation")
        self.hue = self._check_input(hue, "hue", center=0, bound=(-0.5, 0.5), clip_first_on_zero=False)

    @torch.jit.unused
    def _check_input(
        self,
        value: object,
        name: str,
        center: float = 1,
        bound: tuple[float, float] = (0, float("inf")),
        clip_first_on_zero: bool = True,
    ) -> tuple[float, float] | None:
        """The bounds as a tuple of floats; None if they change nothing."""
        if is_number(value):
            if value < 0:
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            low, high = center - float(value), center + float(value)
            if clip_first_on_zero:
                low = max(low, 0.0)
        elif isinstance(value, tuple | list) and len(value) == 2:
            low, high = float(value[0]), float(value[1])
        else:
            raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
        if not bound[0] <= low <= high <= bound[1]:
            raise ValueError(f"{name} values should be between {bound}, but got {[low, high]}.")
        return None if low == high == center else (low, high)

    @staticmethod
    def get_params(
        brightness: FloatList | None, contrast: FloatList | None, saturation: FloatList | None, hue: FloatList | None
    ) -> tuple[Tensor, float | None, float | None, float | None, float | None]:
        """The order (a permutation of brightness 0, contrast 1, saturation 2 and hue 3) and the four factors.

        Args:
            brightness: bounds of the factor; None for no change, for which the factor is None, too.
            contrast: bounds of the factor, or None.
            saturation: bounds of the factor, or None.
            hue: bounds of the shift, or None.
        """
        order = torch.randperm(4)
        b, c, s, h = _draw_factors(brightness, contrast, saturation, hue, TorchStream())
        return order, b, c, s, h

    def forward(self, img: Image) -> Image:
        """Returns the changed image."""
        fn_idx, brightness_factor, contrast_factor, saturation_factor, hue_factor = self.get_params(
            self.brightness, self.contrast, self.saturation, self.hue
        )
        order: list[int] = fn_idx.tolist()  # ints are compared in a tenth of a tensor's time
        if not isinstance(img, torch.Tensor):
            factors = (brightness_factor, contrast_factor, saturation_factor, hue_factor)
            changed: Image = run_steps(_jitter(order, factors), img)
            return changed
        for fn_id in order:
            if fn_id == 0 and brightness_factor is not None:
                img = F.adjust_brightness(img, brightness_factor)
            elif fn_id == 1 and contrast_factor is not None:
                img = F.adjust_contrast(img, contrast_factor)
            elif fn_id == 2 and saturation_factor is not None:
                img = F.adjust_saturation(img, saturation_factor)
            elif fn_id == 3 and hue_factor is not None:
                img = F.adjust_hue(img, hue_factor)
        return img

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return draw_jitter(self, stream_of(generators))


_JITTERED: tuple[Callable[[float], ops.Operation], ...] = (
    ops.AdjustBrightness,
    ops.AdjustContrast,
    ops.AdjustSaturation,
    ops.AdjustHue,
)


def draw_jitter(transform: Any, stream: Stream) -> tuple[Step, ...]:
    """Draws the steps of a `ColorJitter`, v1's or v2's."""
    order = stream.randperm(4)
    factors = _draw_factors(transform.brightness, transform.contrast, transform.saturation, transform.hue, stream)
    return _jitter(order, factors)


def _jitter(order: Sequence[int], factors: Sequence[float | None]) -> tuple[Step, ...]:
    steps: list[Step] = []
    for index in order:
        factor = factors[index]
        if factor is not None:
            steps.append(_JITTERED[index](factor))
    return tuple(steps)


def _draw_factors(
    brightness: FloatList | None,
    contrast: FloatList | None,
    saturation: FloatList | None,
    hue: FloatList | None,
    stream: Stream,
) -> tuple[float | None, float | None, float | None, float | None]:
    b = None if brightness is None else stream.uniform(brightness[0], brightness[1])
    c = None if contrast is None else stream.uniform(contrast[0], contrast[1])
    s = None if saturation is None else stream.uniform(saturation[0], saturation[1])
    h = None if hue is None else stream.uniform(hue[0], hue[1])
    return b, c, s, h


class Grayscale(Transform):
    """Converts an image to gray.

    Args:
        num_output_channels: 1, or 3 for equal channels.
    """

    _repr_format = "num_output_channels={0.num_output_channels}"

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Image) -> Image:
        """Returns the gray image, of one channel or three."""
        return F.rgb_to_grayscale(img, num_output_channels=self.num_output_channels)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        return (ops.interned_if_hashable(ops.RgbToGrayscale, self.num_output_channels),)


class RandomGrayscale(Transform):
    """Converts an image to gray, with probability ``p``; keeps the number of channels.

    Args:
        p: the probability.
    """

    _repr_format = "p={0.p}"

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Image) -> Image:
        """Returns the gray image, or ``img`` itself."""
        num_output_channels, _, _ = F.get_dimensions(img)
        if TorchStream().bernoulli(float(self.p)):
            return F.rgb_to_grayscale(img, num_output_channels=num_output_channels)
        return img

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        if stream_of(generators).bernoulli(float(self.p)):
            return (ops.interned_once(ops.RgbToGrayscale, shape.channels),)
        return ()


class RandomInvert(RandomOp):
    """Inverts an image, with probability ``p``.

    Args:
        p: the probability.
    """

    def _changed(self, img: Image) -> Image:
        return F.invert(img)

    def _operation(self) -> ops.Operation:
        return _INVERT


class RandomPosterize(RandomOp):
    """Keeps only the upper bits of every value, with probability ``p``. For uint8 images.

    Args:
        bits: how many bits to keep, 0 to 8.
        p: the probability.
    """

    _repr_format = "bits={0.bits},p={0.p}"

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def _changed(self, img: Image) -> Image:
        return F.posterize(img, self.bits)

    def _operation(self) -> ops.Operation:
        return ops.Posterize(self.bits)


class RandomSolarize(RandomOp):
    """Inverts all values from a threshold on, with probability ``p``.

    Args:
        threshold: the smallest value to be inverted.
        p: the probability.
    """

    _repr_format = "threshold={0.threshold},p={0.p}"

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def _changed(self, img: Image) -> Image:
        return F.solarize(img, self.threshold)

    def _operation(self) -> ops.Operation:
        return ops.Solarize(self.threshold)


class RandomAutocontrast(RandomOp):
    """Stretches each channel to the full range, with probability ``p``.

    Args:
        p: the probability.
    """

    def _changed(self, img: Image) -> Image:
        return F.autocontrast(img)

    def _operation(self) -> ops.Operation:
        return _AUTOCONTRAST


class RandomEqualize(RandomOp):
    """Equalizes each channel's histogram, with probability ``p``. For uint8 images.

    Args:
        p: the probability.
    """

    def _changed(self, img: Image) -> Image:
        return F.equalize(img)

    def _operation(self) -> ops.Operation:
        return _EQUALIZE
