"""Classes that torchvision scripts can be scripted, and give torchvision's results from torchvision's seeds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torchvision_here import torchvision
from transform_cases import BICUBIC, BILINEAR, as_tensor, ident, picture

import fastpipe.transforms as T

V = torchvision.transforms

# TorchScript has no unions of int and list: sizes and paddings are lists, as torchvision's documentation asks.
SCRIPTABLE: list[tuple[str, dict[str, Any]]] = [
    ("Resize", {"size": [13]}),
    ("Resize", {"size": [9, 20], "interpolation": BICUBIC, "antialias": False}),
    ("CenterCrop", {"size": 16}),
    ("Pad", {"padding": [2, 3], "padding_mode": "reflect"}),
    ("Pad", {"padding": (1, 2, 3, 4), "fill": 3.5}),
    ("RandomCrop", {"size": [9, 12], "padding": [2]}),
    ("RandomCrop", {"size": (50, 12), "pad_if_needed": True}),
    ("RandomResizedCrop", {"size": [9, 12]}),
    ("RandomResizedCrop", {"size": 9, "scale": [0.3, 0.4], "interpolation": BICUBIC}),
    ("RandomHorizontalFlip", {}),
    ("RandomVerticalFlip", {"p": 1}),
    ("FiveCrop", {"size": [5]}),
    ("TenCrop", {"size": (5, 6)}),
    ("RandomRotation", {"degrees": 30, "fill": 3}),
    ("RandomRotation", {"degrees": 30, "expand": True, "interpolation": BILINEAR}),
    (
        "RandomAffine",
        {"degrees": 30, "translate": (0.1, 0.2), "scale": [0.5, 2.0], "shear": (1, 2, 3, 4), "fill": (1, 2, 3)},
    ),
    ("RandomAffine", {"degrees": 0, "center": [1, 2]}),
    ("RandomPerspective", {"p": 1, "fill": [1.0, 2.0, 3.0]}),
    ("ElasticTransform", {"alpha": 9.0, "sigma": 1.0}),
    ("ColorJitter", {"brightness": 0.3, "hue": 0.1}),
    ("Grayscale", {}),
    ("RandomGrayscale", {"p": 0.6}),
    ("RandomInvert", {}),
    ("RandomPosterize", {"bits": 3}),
    ("RandomSolarize", {"threshold": 90.0}),
    ("RandomAdjustSharpness", {"sharpness_factor": 0.5}),
    ("RandomAutocontrast", {}),
    ("RandomEqualize", {}),
    ("GaussianBlur", {"kernel_size": 3}),
    ("RandomErasing", {"p": 1}),
    ("RandomErasing", {"value": "random"}),
    ("RandomErasing", {"p": 1, "value": (1, 2, 3)}),
    ("ConvertImageDtype", {"dtype": torch.float32}),
    ("RandAugment", {}),
    ("RandAugment", {"fill": 3}),
    ("TrivialAugmentWide", {"fill": (1, 2, 3)}),
    ("AutoAugment", {}),
    ("AugMix", {}),
]


def run(transform: Any, image: torch.Tensor) -> list[torch.Tensor]:
    outcomes = []
    for seed in range(5):
        torch.manual_seed(seed)
        result = transform(image)
        outcomes += [*(result if isinstance(result, tuple) else [result]), torch.get_rng_state()]
    return outcomes


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("case", SCRIPTABLE, ids=ident)
def test_scripted(case: tuple[str, dict[str, Any]]) -> None:
    name, arguments = case
    image = as_tensor(picture(37, 29))
    scripted = torch.jit.script(getattr(T, name)(**arguments))
    for actual, expected in zip(run(scripted, image), run(getattr(V, name)(**arguments), image), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_scripted_sequence() -> None:
    def sequence(library: Any) -> torch.nn.Module:
        return torch.nn.Sequential(
            library.RandomApply(torch.nn.ModuleList([library.ColorJitter(0.3)]), p=0.7),
            library.ConvertImageDtype(torch.float32),
            library.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        )

    image = as_tensor(picture(37, 29))
    for actual, expected in zip(run(torch.jit.script(sequence(T)), image), run(sequence(V), image), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("transform", [T.Compose([len]), T.ToTensor(), T.Lambda(len)], ids=str)
def test_not_scriptable(transform: Any) -> None:
    with pytest.raises((RuntimeError, OSError, TypeError, torch.jit.frontend.NotSupportedError)):
        torch.jit.script(transform)
