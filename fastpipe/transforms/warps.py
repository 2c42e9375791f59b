"""Rotations, affine and perspective warps, and elastic deformations."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fastpipe import ops
from fastpipe.environment import has_version
from fastpipe.rng import Stream, TorchStream, stream_of
from fastpipe.tensor_kernels.torchscript import FloatList, Image, IntList
from fastpipe.transforms import functional as F
from fastpipe.transforms._base import Filled, Transform, check_fill, check_interpolation, check_length, setup_angle
from fastpipe.transforms.functional import InterpolationMode
from fastpipe.types import Fill, Floats, Generators, ImageShape, Step


class RandomRotation(Filled):
    """Rotates an image by a random angle.

    Args:
        degrees: bounds ``(min, max)`` of the angle, counter-clockwise; a number ``d`` for ``(-d, d)``.
        interpolation: an `InterpolationMode`, or Pillow's integer for one. Tensors take NEAREST and BILINEAR.
        expand: make the result large enough for the whole rotated image, instead of as large as the image. Assumes a
            rotation about the centre.
        center: ``(x, y)`` to rotate about, in pixels from the top left; the image's centre by default.
        fill: the value outside of the rotated image: a number, or one for each channel.

    Raises:
        TypeError: ``degrees`` is neither a number nor a sequence, ``center`` no sequence, or ``fill`` neither.
        ValueError: ``degrees`` is a negative number, or a sequence doesn't have two elements.
    """

    def __init__(
        self,
        degrees: Floats,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Sequence[int] | None = None,
        fill: Fill = 0,
    ) -> None:
        super().__init__()
        self.degrees = setup_angle(degrees, name="degrees", req_sizes=(2,))
        if center is not None:
            check_length(center, "center", req_sizes=(2,))
        self.center = center
        self.interpolation = check_interpolation(interpolation)
        self.expand = expand
        self.fill = check_fill(fill)

    @staticmethod
    def get_params(degrees: FloatList) -> float:
        """Draws an angle.

        Args:
            degrees: the bounds of the angle.
        """
        return TorchStream().uniform(float(degrees[0]), float(degrees[1]))

    def forward(self, img: Image) -> Image:
        """Returns the rotated image."""
        channels, _, _ = F.get_dimensions(img)
        fill = self._filling(img, channels)
        angle = self.get_params(self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, fill)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        angle = stream_of(generators).uniform(float(self.degrees[0]), float(self.degrees[1]))
        return (ops.Rotate(angle, self.interpolation, self.expand, self.center, self.fill),)

    def __repr__(self) -> str:
        text = f"{self.__class__.__name__}(degrees={self.degrees}, interpolation={self.interpolation.value}"
        text += f", expand={self.expand}"
        if self.center is not None:
            text += f", center={self.center}"
        if self.fill is not None:
            text += f", fill={self.fill}"
        return text + ")"


class RandomAffine(Filled):
    """Rotates, shifts, scales and shears an image at random, about its centre.

    Args:
        degrees: bounds ``(min, max)`` of the angle, counter-clockwise; a number ``d`` for ``(-d, d)``, 0 for none.
        translate: the largest shifts ``(horizontal, vertical)`` in either direction, as fractions of width and height.
        scale: bounds of the factor.
        shear: bounds of the horizontal shear in degrees, then, if four are given, those of the vertical one; a
            number ``s`` for ``(-s, s)``, horizontal only.
        interpolation: an `InterpolationMode`, or Pillow's integer for one. Tensors take NEAREST and BILINEAR.
        fill: the value outside of the image: a number, or one for each channel.
        center: ``(x, y)`` of the fixed point, in pixels from the top left; the image's centre by default.

    Raises:
        TypeError: an argument that has to be a sequence isn't one.
        ValueError: a sequence has the wrong length, or a value is out of its range.
    """

    def __init__(
        self,
        degrees: Floats,
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: Fill = 0,
        center: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.degrees = setup_angle(degrees, name="degrees", req_sizes=(2,))
        if translate is not None:
            check_length(translate, "translate", req_sizes=(2,))
            if not all(0.0 <= t <= 1.0 for t in translate):
                raise ValueError("translation values should be between 0 and 1")
        self.translate = translate
        if scale is not None:
            check_length(scale, "scale", req_sizes=(2,))
            if any(s <= 0 for s in scale):
                raise ValueError("scale values should be positive")
        self.scale = scale
        self.shear = None if shear is None else setup_angle(shear, name="shear", req_sizes=(2, 4))
        self.interpolation = check_interpolation(interpolation)
        self.fill = check_fill(fill)
        if center is not None:
            check_length(center, "center", req_sizes=(2,))
        self.center = center

    @staticmethod
    def get_params(
        degrees: FloatList,
        translate: FloatList | None,
        scale_ranges: FloatList | None,
        shears: FloatList | None,
        img_size: IntList,
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Draws angle in degrees, ``(x, y)`` shift in pixels, factor, and ``(x, y)`` shear in degrees.

        Args:
            degrees: bounds of the angle.
            translate: the largest shifts, as fractions of width and height; None for no shift.
            scale_ranges: bounds of the factor; None for 1.
            shears: two or four bounds of the shear; None for no shear.
            img_size: ``(width, height)`` of the image.
        """
        return _draw_affine(degrees, translate, scale_ranges, shears, img_size, TorchStream())

    def forward(self, img: Image) -> Image:
        """Returns the warped image."""
        channels, height, width = F.get_dimensions(img)
        fill = self._filling(img, channels)
        ret = self.get_params(self.degrees, self.translate, self.scale, self.shear, [width, height])
        return F.affine(img, *ret, interpolation=self.interpolation, fill=fill, center=self.center)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        angle, translate, scale, shear = _draw_affine(
            self.degrees, self.translate, self.scale, self.shear, [shape.width, shape.height], stream_of(generators)
        )
        return (ops.Affine(angle, list(translate), scale, list(shear), self.interpolation, self.fill, self.center),)

    def __repr__(self) -> str:
        text = f"{self.__class__.__name__}(degrees={self.degrees}"
        text += f", translate={self.translate}" if self.translate is not None else ""
        text += f", scale={self.scale}" if self.scale is not None else ""
        text += f", shear={self.shear}" if self.shear is not None else ""
        text += f", interpolation={self.interpolation.value}" if self.interpolation != InterpolationMode.NEAREST else ""
        text += f", fill={self.fill}" if self.fill != 0 else ""
        text += f", center={self.center}" if self.center is not None else ""
        return text + ")"


def _draw_affine(
    degrees: FloatList,
    translate: FloatList | None,
    scale_ranges: FloatList | None,
    shears: FloatList | None,
    img_size: IntList,
    stream: Stream,
) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
    angle = stream.uniform(float(degrees[0]), float(degrees[1]))
    tx, ty = 0, 0
    if translate is not None:
        max_dx = float(translate[0] * img_size[0])
        max_dy = float(translate[1] * img_size[1])
        tx = int(round(stream.uniform(-max_dx, max_dx)))  # noqa: RUF046 - TorchScript's round gives a float
        ty = int(round(stream.uniform(-max_dy, max_dy)))  # noqa: RUF046 - TorchScript's round gives a float
    scale = 1.0
    if scale_ranges is not None:
        scale = stream.uniform(scale_ranges[0], scale_ranges[1])
    shear_x, shear_y = 0.0, 0.0
    if shears is not None:
        shear_x = stream.uniform(shears[0], shears[1])
        if len(shears) == 4:
            shear_y = stream.uniform(shears[2], shears[3])
    return angle, (tx, ty), scale, (shear_x, shear_y)


class RandomPerspective(Filled):
    """Moves an image's corners inwards at random, with probability ``p``, and warps the image accordingly.

    Args:
        distortion_scale: how far a corner may move, from 0 to 1 (the image's middle).
        p: the probability.
        interpolation: an `InterpolationMode`, or Pillow's integer for one. Tensors take NEAREST and BILINEAR.
        fill: the value outside of the warped image: a number, or one for each channel.

    Raises:
        TypeError: ``fill`` is neither a number nor a sequence.
    """

    _repr_format = "p={0.p}"

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        fill: Fill = 0,
    ) -> None:
        super().__init__()
        self.p = p
        self.interpolation = check_interpolation(interpolation)
        self.distortion_scale = distortion_scale
        self.fill = check_fill(fill)

    def forward(self, img: Image) -> Image:
        """Returns the warped image, or ``img`` itself."""
        channels, height, width = F.get_dimensions(img)
        fill = self._filling(img, channels)
        if TorchStream().bernoulli(float(self.p)):
            startpoints, endpoints = self.get_params(width, height, float(self.distortion_scale))
            return F.perspective(img, startpoints, endpoints, self.interpolation, fill)
        return img

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        stream = stream_of(generators)
        if not stream.bernoulli(float(self.p)):
            return ()
        startpoints, endpoints = _draw_corners(shape.width, shape.height, self.distortion_scale, stream)
        return (ops.Perspective(startpoints, endpoints, self.interpolation, self.fill),)

    @staticmethod
    def get_params(width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
        """The corners ``[x, y]`` of the image and of the warped image: top left, top right, bottom right, bottom left.

        Args:
            width: the image's width, in pixels.
            height: the image's height, in pixels.
            distortion_scale: how far a corner may move, from 0 to 1 (the image's middle).
        """
        return _draw_corners(width, height, distortion_scale, TorchStream())


def _draw_corners(
    width: int, height: int, distortion_scale: float, stream: Stream
) -> tuple[list[list[int]], list[list[int]]]:
    reach_x = int(distortion_scale * (width // 2))
    reach_y = int(distortion_scale * (height // 2))
    topleft = [stream.randint(0, reach_x + 1), stream.randint(0, reach_y + 1)]
    topright = [stream.randint(width - reach_x - 1, width), stream.randint(0, reach_y + 1)]
    botright = [
        stream.randint(width - reach_x - 1, width),
        stream.randint(height - reach_y - 1, height),
    ]
    botleft = [stream.randint(0, reach_x + 1), stream.randint(height - reach_y - 1, height)]
    startpoints = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
    return startpoints, [topleft, topright, botright, botleft]


class ElasticTransform(Transform):
    """Displaces every pixel by a smooth random field, as if seen through moving water.

    Args:
        alpha: the strength of the displacements; one float, or one for x and one for y.
        sigma: the standard deviation, in pixels, of the Gaussian that smooths them; one float, or one for x and for y.
        interpolation: an `InterpolationMode`, or Pillow's integer for one. Tensors take NEAREST and BILINEAR.
        fill: the value outside of the image: a number, or one for each channel.

    Raises:
        TypeError: ``alpha`` or ``sigma`` isn't a float or a sequence of floats, or ``fill`` has another type.
        ValueError: a sequence ``alpha`` or ``sigma`` doesn't have two elements.
    """

    _repr_format = "alpha={0.alpha}, sigma={0.sigma}, interpolation={0.interpolation}, fill={0.fill}"

    def __init__(
        self,
        alpha: Floats = 50.0,
        sigma: Floats = 5.0,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        fill: Fill = 0,
    ) -> None:
        super().__init__()
        self.alpha = _setup_pair(alpha, "alpha")
        self.sigma = _setup_pair(sigma, "sigma")
        self.interpolation = check_interpolation(interpolation)
        if isinstance(fill, int | float):
            fill = [float(fill)]
        elif isinstance(fill, list | tuple):
            fill = [float(f) for f in fill]
        else:
            raise TypeError(f"fill should be int or float or a list or tuple of them. Got {type(fill)}")
        self.fill = fill

    @staticmethod
    def get_params(alpha: FloatList, sigma: FloatList, size: IntList) -> Tensor:
        """Draws the displacement field ``(1, H, W, 2)``, x then y, in halves of the image's width and height.

        Args:
            alpha: strengths for x and y.
            sigma: standard deviations for x and y, in pixels.
            size: ``[height, width]`` of the image.
        """
        return _draw_displacement(alpha, sigma, size)

    def forward(self, tensor: Image) -> Image:
        """Returns the deformed image."""
        _, height, width = F.get_dimensions(tensor)
        displacement = self.get_params(self.alpha, self.sigma, [height, width])
        return F.elastic_transform(tensor, displacement, self.interpolation, self.fill)

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        displacement = _draw_displacement(
            self.alpha, self.sigma, [shape.height, shape.width], stream_of(generators).generator()
        )
        return (ops.ElasticTransform(displacement, self.interpolation, self.fill),)


def _setup_pair(value: Floats, name: str) -> Sequence[float]:
    if isinstance(value, float):
        return [value, value]
    if not isinstance(value, Sequence):
        raise TypeError(f"{name} should be float or a sequence of floats. Got {type(value)}")
    if len(value) != 2:
        raise ValueError(f"If {name} is a sequence its length should be 2. Got {len(value)}")
    for element in value:
        if not isinstance(element, float):
            raise TypeError(f"{name} should be a sequence of floats. Got {type(element)}")
    return value


_WIDTH, _HEIGHT = (1, 0) if has_version("torchvision", 0, 28) else (0, 1)
"""The places in a size by which displacements along x and y are divided: before 0.28, torchvision swaps them."""


def _draw_displacement(
    alpha: FloatList,
    sigma: FloatList,
    size: IntList,
    generator: torch.Generator | None = None,
    width: int = _WIDTH,  # TorchScript takes a default's value, and no global's
    height: int = _HEIGHT,
) -> Tensor:
    dx = _draw_smooth_noise(sigma[0], sigma, size, generator) * alpha[0] / size[width]
    dy = _draw_smooth_noise(sigma[1], sigma, size, generator) * alpha[1] / size[height]
    return torch.concat([dx, dy], 1).permute([0, 2, 3, 1])


def _draw_smooth_noise(
    kernel_sigma: float, sigma: FloatList, size: IntList, generator: torch.Generator | None = None
) -> Tensor:
    """Noise ``(1, 1, H, W)``; the kernel's size follows from one sigma, its shape (as in torchvision) from both."""
    noise = torch.rand([1, 1, size[0], size[1]], generator=generator) * 2 - 1
    if kernel_sigma > 0.0:
        kernel_size = int(8 * kernel_sigma + 1)
        if kernel_size % 2 == 0:
            kernel_size += 1
        noise = F.gaussian_blur(noise, [kernel_size, kernel_size], sigma)
    return noise
