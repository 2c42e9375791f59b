"""Random erasing, on tensors."""

import numbers
from collections.abc import Sequence

import torch
from torch import Tensor

from fastpipe import ops
from fastpipe.rng import Stream, TorchStream, stream_of
from fastpipe.rng.float32 import log_ratio
from fastpipe.tensor_kernels.torchscript import FloatList, FloatPair
from fastpipe.transforms import functional as F
from fastpipe.transforms._base import Transform, check_scale_and_ratio
from fastpipe.types import Generators, ImageShape, Step


class RandomErasing(Transform):
    """Erases a random rectangle of a tensor ``(…, C, H, W)``, with probability ``p``.

    Not for PIL images: put it after `ToTensor`.

    Args:
        p: the probability.
        scale: bounds of the rectangle's area, as fractions of the image's.
        ratio: bounds of the rectangle's height divided by its width.
        value: the new values: a number, one for each channel, or ``"random"`` for normal noise in every value.
        inplace: overwrite the given tensor. (A drawn pipeline never does; the result is the same.)

    Raises:
        TypeError: ``value``, ``scale`` or ``ratio`` has another type.
        ValueError: a value is out of its range, or a string other than ``"random"``; when called, the number of values
            is neither 1 nor the image's number of channels.
    """

    _repr_format = "p={0.p}, scale={0.scale}, ratio={0.ratio}, value={0.value}, inplace={0.inplace}"

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | str | Sequence[float] = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(value, numbers.Number | str | tuple | list):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        check_scale_and_ratio(scale, ratio)
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        if p < 0 or p > 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p = p
        self.scale = scale
        self.ratio = ratio
        self.value: float | str | Sequence[float] = value
        self.inplace = inplace

    @staticmethod
    def get_params(
        img: Tensor, scale: FloatPair, ratio: FloatPair, value: list[float] | None = None
    ) -> tuple[int, int, int, int, Tensor]:
        """Top, left, height and width of a random rectangle, and the values to write there.

        Args:
            img: the tensor; if no rectangle fits, the result is the whole tensor, to be overwritten with itself.
            scale: bounds of the rectangle's area, as fractions of the image's.
            ratio: bounds of the rectangle's height divided by its width.
            value: one number, or one for each channel; None for noise.
        """
        logarithms: list[float] = torch.log(torch.tensor(ratio)).tolist()
        channels, height, width = img.shape[-3], img.shape[-2], img.shape[-1]
        i, j, h, w, v = _draw_rectangle(channels, height, width, scale, logarithms, value, TorchStream())
        if v is None:
            return 0, 0, h, w, img
        return i, j, h, w, v

    def _values(self, channels: int) -> list[float] | None:
        """`value` as one number for each channel, or one for all; None for noise."""
        if isinstance(self.value, (int, float)):
            value = [float(self.value)]
        elif isinstance(self.value, str):
            value = None
        else:
            value = [float(v) for v in self.value]
        if value is not None and len(value) not in (1, channels):
            raise ValueError(
                f"If value is a sequence, it should have either a single value or {channels} (number of input channels)"
            )
        return value

    def forward(self, img: Tensor) -> Tensor:
        """Returns the tensor with a rectangle erased, or ``img`` itself."""
        if TorchStream().bernoulli(float(self.p)):
            value = self._values(img.shape[-3])
            x, y, h, w, v = self.get_params(img, scale=self.scale, ratio=self.ratio, value=value)
            return F.erase(img, x, y, h, w, v, self.inplace)
        return img

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        stream = stream_of(generators)
        if not stream.bernoulli(float(self.p)):
            return ()
        logarithms = log_ratio(tuple(self.ratio), torch.get_default_dtype())
        values = self._values(shape.channels)
        i, j, h, w, v = _draw_rectangle(
            shape.channels, shape.height, shape.width, self.scale, logarithms, values, stream
        )
        # Without a fitting rectangle a tensor stays unchanged; an image is refused in any case.
        return (ops.Erase(0, 0, 0, 0, torch.zeros(1)) if v is None else ops.Erase(i, j, h, w, v),)


def _draw_rectangle(
    channels: int,
    height: int,
    width: int,
    scale: FloatList,
    logarithms: FloatList,
    value: list[float] | None,
    stream: Stream,
) -> tuple[int, int, int, int, Tensor | None]:
    """Top, left, height, width, and values that broadcast to ``(C, h, w)``; None if none of ten tries fits."""
    area = height * width
    for _ in range(10):
        erase_area = area * stream.uniform(scale[0], scale[1])
        h, w = stream.rectangle_sides(erase_area, logarithms[0], logarithms[1])
        if h < height and w < width:
            if value is None:
                v = stream.randn([channels, h, w])
            else:
                v = torch.tensor(value)[:, None, None]
            i = stream.randint(0, height - h + 1)
            j = stream.randint(0, width - w + 1)
            return i, j, h, w, v
    return 0, 0, height, width, None
