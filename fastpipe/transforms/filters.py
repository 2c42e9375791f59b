"""Gaussian blur and sharpness transforms."""

from collections.abc import Sequence

from fastpipe import ops
from fastpipe.rng import TorchStream, stream_of
from fastpipe.tensor_kernels.torchscript import Image
from fastpipe.transforms import functional as F
from fastpipe.transforms._base import RandomOp, Transform, is_number, setup_size
from fastpipe.types import Floats, Generators, ImageShape, Ints, Step


class GaussianBlur(Transform):
    """Blurs an image with a Gaussian of random standard deviation.

    Args:
        kernel_size: width and height of the kernel, odd and positive; one int for both.
        sigma: bounds ``(min, max)`` of the standard deviation in pixels, positive; one number for a fixed one.

    Raises:
        ValueError: ``kernel_size`` or ``sigma`` is invalid.
    """

    _repr_format = "kernel_size={0.kernel_size}, sigma={0.sigma}"

    def __init__(self, kernel_size: Ints, sigma: Floats = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = setup_size(kernel_size, "Kernel size should be a tuple/list of two integers")
        for ks in self.kernel_size:
            if ks <= 0 or ks % 2 == 0:
                raise ValueError("Kernel size value should be an odd and positive number.")
        if is_number(sigma):
            if sigma <= 0:
                raise ValueError("If sigma is a single number, it must be positive.")
            sigma = (sigma, sigma)
        elif isinstance(sigma, Sequence) and len(sigma) == 2:
            if not 0.0 < sigma[0] <= sigma[1]:
                raise ValueError("sigma values should be positive and of the form (min, max).")
        else:
            raise ValueError("sigma should be a single number or a list/tuple with length 2.")
        self.sigma = sigma

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """Draws a standard deviation.

        Args:
            sigma_min: the lower bound, in pixels.
            sigma_max: the upper bound, in pixels.
        """
        return TorchStream().uniform(sigma_min, sigma_max)

    def forward(self, img: Image) -> Image:
        """Returns the blurred image."""
        sigma = self.get_params(float(self.sigma[0]), float(self.sigma[1]))
        return F.gaussian_blur(img, self.kernel_size, [sigma, sigma])

    def draw(self, shape: ImageShape, generators: Generators) -> tuple[Step, ...]:
        sigma = stream_of(generators).uniform(self.sigma[0], self.sigma[1])
        return (ops.GaussianBlur(list(self.kernel_size), [sigma, sigma]),)


class RandomAdjustSharpness(RandomOp):
    """Sharpens or smooths an image, with probability ``p``.

    Args:
        sharpness_factor: 0 for a smoothed image, 1 for the image itself, 2 for twice the sharpness.
        p: the probability.
    """

    _repr_format = "sharpness_factor={0.sharpness_factor},p={0.p}"

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def _changed(self, img: Image) -> Image:
        return F.adjust_sharpness(img, self.sharpness_factor)

    def _operation(self) -> ops.Operation:
        return ops.AdjustSharpness(self.sharpness_factor)
