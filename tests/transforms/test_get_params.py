"""The static ``get_params`` methods: torchvision's values for torchvision's seeds, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torchvision_here import torchvision
from transform_cases import as_pil, picture

import fastpipe.transforms as T

V = torchvision.transforms
IMAGE = as_pil(picture(233, 410))

CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("RandomResizedCrop", (IMAGE, (0.08, 1.0), (3 / 4, 4 / 3))),
    ("RandomResizedCrop", (IMAGE, [0.5, 2.0], [1, 8])),
    ("RandomResizedCrop", (torch.zeros(2, 3, 9, 5), (4.0, 5.0), (0.1, 0.2))),
    ("RandomCrop", (IMAGE, (200, 410))),
    ("RandomCrop", (IMAGE, (233, 410))),
    ("RandomCrop", (torch.zeros(3, 50, 60), (1, 2))),
    ("RandomRotation", ([-33.3, 12.1],)),
    ("RandomAffine", ([-10.0, 10.0], None, None, None, [410, 233])),
    ("RandomAffine", ([-10, 10], (0.3, 0.1), (0.7, 1.9), [-3.0, 4.0], [410, 233])),
    ("RandomAffine", ([0, 0], (0.0, 1.0), None, [-3.0, 4.0, 1.0, 2.0], [410, 233])),
    ("RandomPerspective", (410, 233, 0.5)),
    ("RandomPerspective", (7, 5, 1.0)),
    ("ColorJitter", ((0.6, 1.4), None, (0.0, 2.0), (-0.1, 0.1))),
    ("ColorJitter", (None, None, None, None)),
    ("GaussianBlur", (0.1, 2.0)),
    ("RandomErasing", (torch.zeros(3, 50, 60), (0.02, 0.33), (0.3, 3.3), None)),
    ("RandomErasing", (torch.zeros(3, 50, 60), (0.02, 0.33), (0.3, 3.3), [1.0, 2.0, 3.0])),
    ("RandomErasing", (torch.zeros(3, 50, 60), (0.9, 0.99), (4.0, 5.0), [0.0])),
    ("AutoAugment", (25,)),
    ("ElasticTransform", ([20.0, 30.0], [1.0, 0.5], [24, 31])),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[f"{i}-{name}" for i, (name, _) in enumerate(CALLS)])
def test_get_params(name: str, arguments: tuple[Any, ...]) -> None:
    theirs, ours = getattr(V, name).get_params, getattr(T, name).get_params
    for seed in range(200):
        torch.manual_seed(seed)
        expected = theirs(*arguments)
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        actual = ours(*arguments)
        assert torch.equal(torch.get_rng_state(), state)
        assert same(actual, expected), (seed, actual, expected)


def same(one: Any, other: Any) -> bool:
    """Equal values of equal types, tensors among them."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


def test_a_crop_that_is_too_large() -> None:
    for library in (V, T):
        with pytest.raises(
            ValueError, match=r"Required crop size \(300, 2\) is larger than input image size \(233, 410\)"
        ):
            library.RandomCrop.get_params(IMAGE, (300, 2))
