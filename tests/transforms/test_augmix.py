"""AugMix with weights of its own, and on batches: torchvision's bytes and end states."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from PIL import Image
from torchvision_here import torchvision
from transform_cases import as_tensor, picture

import fastpipe.transforms as T
from fastpipe.transforms._base import drawable

V = torchvision.transforms


def even(params: torch.Tensor) -> torch.Tensor:
    return params.softmax(dim=-1)


def of_each_image(params: torch.Tensor) -> torch.Tensor:
    return torch.arange(1, params.numel() + 1).view(params.shape).to(params).softmax(dim=-1)


def beyond(params: torch.Tensor) -> torch.Tensor:
    return params * 0.7


def double(params: torch.Tensor) -> torch.Tensor:
    return params.double().softmax(dim=-1)


def augmix(library: Any, weights: Any, **arguments: Any) -> Any:
    if weights is None:
        return library.AugMix(**arguments)
    own = type("Own", (library.AugMix,), {"_sample_dirichlet": lambda self, params: weights(params)})
    return own(**arguments)


@pytest.mark.parametrize("weights", [None, even, of_each_image, beyond, double])
@pytest.mark.parametrize("arguments", [{}, {"fill": [10, 0, 3], "mixture_width": 2}], ids=str)
def test_weights_of_its_own(weights: Any, arguments: dict[str, Any]) -> None:
    ours, theirs = augmix(T, weights, **arguments), augmix(V, weights, **arguments)
    tensor = as_tensor(picture(37, 29))
    batch = torch.stack([tensor, tensor.flip(-1), 255 - tensor])
    for image in (tensor, batch, batch[:1], Image.fromarray(picture(37, 29))):
        for seed in range(4):
            torch.manual_seed(seed)
            expected = theirs(image)
            end = torch.get_rng_state()
            torch.manual_seed(seed)
            found = ours(image)
            assert torch.equal(torch.get_rng_state(), end)
            if isinstance(found, Image.Image):
                assert found.tobytes() == expected.tobytes()
            else:
                torch.testing.assert_close(found, expected, rtol=0, atol=0)


class Scripted(T.AugMix):
    def _sample_dirichlet(self, params: torch.Tensor) -> torch.Tensor:
        return params.softmax(dim=-1)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_scripted_with_weights_of_its_own() -> None:
    tensor = as_tensor(picture(37, 29))
    batch = torch.stack([tensor, tensor.flip(-1)])
    scripted = torch.jit.script(Scripted())
    for seed in range(4):
        torch.manual_seed(seed)
        expected = augmix(V, even)(batch)
        torch.manual_seed(seed)
        assert torch.equal(scripted(batch), expected)


def test_weights_of_its_own_are_no_part_of_a_plan() -> None:
    assert drawable(T.AugMix())
    assert not drawable(Scripted())
