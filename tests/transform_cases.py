"""Every transform class with arguments worth testing, for the tests that hold them against torchvision's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision_here import torchvision

InterpolationMode = torchvision.transforms.InterpolationMode
BILINEAR, BICUBIC = 2, 3  # Pillow's integers, so that the same arguments serve both libraries

# (name, keyword arguments); for images of all sizes from 1 pixel on, 1 or 3 channels.
RANDOM: list[tuple[str, dict[str, Any]]] = [
    ("RandomResizedCrop", {"size": 24}),
    ("RandomResizedCrop", {"size": (20, 31), "scale": (0.3, 0.9), "ratio": (0.2, 4.0), "interpolation": BICUBIC}),
    ("RandomResizedCrop", {"size": [7], "scale": (3.0, 4.0), "interpolation": 0}),  # never fits: the fallback
    ("RandomCrop", {"size": 40, "padding": 3, "pad_if_needed": True, "fill": 7}),
    ("RandomCrop", {"size": (9, 40), "padding": [1, 2], "pad_if_needed": True, "padding_mode": "edge"}),
    ("RandomCrop", {"size": 1}),
    ("RandomHorizontalFlip", {}),
    ("RandomHorizontalFlip", {"p": 1}),
    ("RandomVerticalFlip", {"p": 0.3}),
    ("RandomGrayscale", {"p": 0.4}),
    ("RandomInvert", {}),
    ("RandomPosterize", {"bits": 3}),
    ("RandomSolarize", {"threshold": 120}),
    ("RandomAdjustSharpness", {"sharpness_factor": 1.7}),
    ("RandomAutocontrast", {"p": 0.7}),
    ("RandomEqualize", {}),
    ("ColorJitter", {}),
    ("ColorJitter", {"brightness": 0.4, "contrast": 0.3, "saturation": (0.2, 1.9)}),
    ("ColorJitter", {"brightness": 0.1, "hue": 0.2}),
    ("GaussianBlur", {"kernel_size": 1}),
    ("RandomRotation", {"degrees": 30}),
    ("RandomRotation", {"degrees": (-170, 10), "interpolation": BILINEAR, "center": (3, 4), "fill": 9}),
    ("RandomAffine", {"degrees": 12}),
    ("RandomAffine", {"degrees": 12, "translate": (0.1, 0.3), "scale": (0.6, 1.4), "shear": 9, "fill": 3}),
    ("RandomAffine", {"degrees": (1, 2), "shear": (-5, 5, -8, 8), "interpolation": BILINEAR, "center": (0, 0)}),
    ("RandomPerspective", {}),
    ("RandomPerspective", {"distortion_scale": 0.9, "p": 1, "interpolation": 0, "fill": 12}),
    ("ElasticTransform", {"alpha": 20.0, "sigma": 0.0}),
    ("RandAugment", {}),
    ("RandAugment", {"num_ops": 4, "magnitude": 3, "num_magnitude_bins": 10, "fill": [4.0]}),
    ("TrivialAugmentWide", {}),
    ("AugMix", {}),
    ("AugMix", {"severity": 9, "mixture_width": 2, "chain_depth": 1, "alpha": 0.5, "all_ops": False}),
    ("AutoAugment", {}),
]
FIXED: list[tuple[str, dict[str, Any]]] = [
    ("Resize", {"size": 17}),
    ("Resize", {"size": (20, 9), "interpolation": BICUBIC}),
    ("Resize", {"size": [19], "max_size": 40, "interpolation": 0}),
    ("CenterCrop", {"size": 16}),
    ("CenterCrop", {"size": (60, 9)}),
    ("Pad", {"padding": 2, "fill": 8}),
    ("Pad", {"padding": (1, 2, 3, 4), "padding_mode": "edge"}),
    ("Grayscale", {}),
    ("Grayscale", {"num_output_channels": 3}),
]
# For images of at least so many pixels: reflection and kernels need them.
LARGE: list[tuple[str, dict[str, Any]]] = [
    ("RandomCrop", {"size": 20, "padding": (4, 3), "padding_mode": "reflect"}),
    ("RandomCrop", {"size": 33, "pad_if_needed": True, "padding_mode": "symmetric"}),
    ("GaussianBlur", {"kernel_size": (5, 9), "sigma": (0.3, 3.0)}),
    ("GaussianBlur", {"kernel_size": 3, "sigma": 1.5}),
    ("ElasticTransform", {"alpha": [30.0, 60.0], "sigma": [1.0, 2.0], "fill": 3}),
]
ON_TENSORS: list[tuple[str, dict[str, Any]]] = [
    ("RandomErasing", {"p": 0.8}),
    ("RandomErasing", {"value": "random", "scale": (0.1, 0.9), "ratio": (0.1, 9.0)}),
    ("RandomErasing", {"p": 1, "value": 2.5, "scale": (0.9, 1.0), "ratio": (5.0, 9.0)}),
    ("Normalize", {"mean": [0.4], "std": [0.2]}),
    ("ConvertImageDtype", {"dtype": torch.float64}),
]

SIZES = [(37, 53), (61, 25), (1, 1), (1, 40), (33, 3)]


def ident(case: tuple[str, dict[str, Any]]) -> str:
    """A test's name for a case."""
    name, arguments = case
    return f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"


def picture(height: int, width: int, channels: int = 3, seed: int = 0) -> NDArray[np.uint8]:
    """Smooth colours and some noise, ``(H, W, 3)`` or ``(H, W)``."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [128 + 90 * np.sin(y / (5 + 3 * c) + c) * np.cos(x / (7 + 2 * c)) for c in range(channels)]
    image = np.stack(waves, axis=-1) + generator.normal(0, 12, (height, width, channels))
    pixels = image.clip(0, 255).astype(np.uint8)
    return pixels if channels > 1 else pixels[..., 0]


def as_pil(array: NDArray[np.uint8]) -> Image.Image:
    return Image.fromarray(array)


def as_tensor(array: NDArray[np.uint8]) -> torch.Tensor:
    return torch.from_numpy(array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1)))


def values(image: Any) -> NDArray[Any]:
    """The values of a PIL image, a tensor or an ndarray."""
    return image.numpy() if isinstance(image, torch.Tensor) else np.asarray(image)


def apply_steps(steps: Any, image: Any) -> Any:
    for step in steps:
        image = step.apply(image)
    return image


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def same(one: torch.Generator, other: torch.Generator) -> bool:
    """The whole state: seed, position, words and the normal numbers that are kept."""
    return torch.equal(one.get_state(), other.get_state())
