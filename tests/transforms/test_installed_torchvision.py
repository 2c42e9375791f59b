"""Every class of v1 gives what the installed torchvision's class gives, whatever its version: for a swapped import."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torchvision_here import torchvision
from transform_cases import FIXED, LARGE, ON_TENSORS, RANDOM, as_pil, as_tensor, ident, picture, values

from fastpipe import transforms as ours

theirs = torchvision.transforms


def as_floats(image: Any) -> torch.Tensor:
    """A tensor in float32, of a PIL image or a tensor."""
    return torch.from_numpy(values(image) / np.float32(255))


BY_ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    *FIXED,
    *LARGE,
    *RANDOM,
    ("FiveCrop", {"size": 20}),
    ("TenCrop", {"size": (9, 20), "vertical_flip": True}),
    ("PILToTensor", {}),
    ("ToTensor", {}),
]
WITHIN: dict[str, Callable[[Any], Any]] = {
    "Compose": lambda T: T.Compose([T.RandomCrop(30), T.RandomHorizontalFlip()]),
    "Lambda": lambda T: T.Lambda(lambda image: image),
    "LinearTransformation": lambda T: T.Compose(
        [T.CenterCrop(4), as_floats, T.LinearTransformation(torch.eye(48).cumsum(0), torch.arange(48.0))]
    ),
    "RandomApply": lambda T: T.RandomApply([T.Pad(3), T.ColorJitter(0.3)], 0.6),
    "RandomChoice": lambda T: T.RandomChoice([T.Pad(3), T.ColorJitter(0.3), T.Grayscale()], p=[0.2, 0.3, 0.5]),
    "RandomOrder": lambda T: T.RandomOrder([T.Pad(3), T.ColorJitter(0.3), T.RandomCrop(20)]),
    "ToPILImage": lambda T: T.Compose([np.asarray, T.ToPILImage()]),
}


def outcome(make: Callable[[Any], Any], library: Any, image: Any) -> tuple[Any, ...]:
    """A class's results for an image and some seeds, with the generators' states after them."""
    results: list[Any] = []
    transform = make(library)
    for seed in range(8):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            made = transform(image)
        except Exception as error:  # both have to raise it
            results.append(type(error))
        else:
            parts = made if isinstance(made, tuple) else (made,)
            results.append([(type(part), values(part).dtype.str, values(part).tolist()) for part in parts])
        results += [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()]
    return (*results,)


def image_of(kind: str) -> Any:
    array = picture(37, 53)
    return as_pil(array) if kind == "PIL" else as_tensor(array) if kind == "tensor" else as_tensor(array) / 255


@pytest.mark.parametrize("kind", ["PIL", "tensor"])
@pytest.mark.parametrize("case", BY_ARGUMENTS, ids=ident)
def test_a_class(case: tuple[str, dict[str, Any]], kind: str) -> None:
    name, arguments = case
    if not hasattr(theirs, name):
        pytest.skip(f"torchvision {torchvision.__version__} has no {name}")
    image = image_of(kind)
    assert outcome(lambda T: getattr(T, name)(**arguments), ours, image) == outcome(
        lambda T: getattr(T, name)(**arguments), theirs, image
    )


@pytest.mark.parametrize("case", ON_TENSORS, ids=ident)
def test_a_class_for_tensors(case: tuple[str, dict[str, Any]]) -> None:
    name, arguments = case
    image = image_of("float tensor")
    assert outcome(lambda T: getattr(T, name)(**arguments), ours, image) == outcome(
        lambda T: getattr(T, name)(**arguments), theirs, image
    )


@pytest.mark.parametrize("kind", ["PIL", "tensor"])
@pytest.mark.parametrize("name", WITHIN)
def test_a_class_that_calls_others(name: str, kind: str) -> None:
    image = image_of(kind)
    assert outcome(WITHIN[name], ours, image) == outcome(WITHIN[name], theirs, image)


def test_no_class_is_left_out() -> None:
    classes = {name for name, one in vars(theirs).items() if {"__call__", "forward"} & {*getattr(one, "__dict__", ())}}
    tried = {name for name, _ in (*BY_ARGUMENTS, *ON_TENSORS)} | WITHIN.keys()
    assert classes <= tried
    assert classes <= set(ours.__all__)
