"""Compose and the transforms that choose among members; which transforms are drawable; random pipelines."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st
from torchvision_here import torchvision
from transform_cases import FIXED, LARGE, RANDOM, apply_steps, as_pil, as_tensor, picture, values

import fastpipe.transforms as T
from fastpipe.transforms._base import drawable
from fastpipe.types import Generators, ImageShape

V = torchvision.transforms


def members(library: Any) -> list[Any]:
    return [
        library.RandomCrop(20, padding=2),
        library.RandomHorizontalFlip(),
        library.ColorJitter(0.3),
        library.Compose([library.Resize(15), library.RandomRotation(20)]),
    ]


def composites(library: Any) -> list[Any]:
    return [
        library.Compose(members(library)),
        library.RandomApply(members(library), p=0.6),
        library.RandomApply(torch.nn.ModuleList(members(library)[:3])),
        library.RandomOrder(members(library)[:3]),
        library.RandomChoice(members(library)),
        library.RandomChoice(members(library), p=[1, 0, 3, 0.5]),
        library.RandomOrder([library.RandomApply(members(library)[:2]), library.RandomChoice(members(library)[1:3])]),
        library.Compose([]),
    ]


@pytest.mark.parametrize("index", range(8))
@pytest.mark.parametrize("kind", ["pil", "tensor"])
def test_composites_draw_torchvisions_numbers(index: int, kind: str) -> None:
    theirs, ours = composites(V)[index], composites(T)[index]
    assert drawable(ours)
    image = (as_pil if kind == "pil" else as_tensor)(picture(37, 53))
    for seed in range(60):
        torch.manual_seed(seed)
        random.seed(seed)
        expected = values(theirs(image))
        states = torch.get_rng_state(), random.getstate()

        torch.manual_seed(seed)
        random.seed(seed)
        np.testing.assert_array_equal(values(ours(image)), expected)
        assert torch.equal(torch.get_rng_state(), states[0])
        assert random.getstate() == states[1]

        own = Generators(torch.Generator().manual_seed(seed), random.Random(seed))
        steps = ours.draw(ImageShape(37, 53), own)
        assert torch.equal(own.torch.get_state(), states[0])
        assert own.python.getstate() == states[1]
        assert torch.equal(torch.get_rng_state(), states[0])
        assert random.getstate() == states[1]
        np.testing.assert_array_equal(values(apply_steps(steps, image)), expected)


def test_random_transforms_is_abstract() -> None:
    with pytest.raises(NotImplementedError):
        T.transforms.RandomTransforms([])(1)


def test_random_choice_passes_all_arguments_on() -> None:
    assert T.RandomChoice([max])(3, 4) == 4


@st.composite
def pipelines(draw: st.DrawFn) -> list[tuple[str, dict[str, Any]]]:
    return draw(st.lists(st.sampled_from(RANDOM + FIXED + LARGE[:3]), min_size=1, max_size=8))


@given(
    cases=pipelines(),
    height=st.integers(30, 70),
    width=st.integers(30, 70),
    channels=st.sampled_from([1, 3]),
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(["pil", "tensor", "array"]),
)
@settings(max_examples=2 * settings.default.max_examples)
def test_random_pipelines(cases: Any, height: int, width: int, channels: int, seed: int, kind: str) -> None:
    theirs = V.Compose([getattr(V, name)(**arguments) for name, arguments in cases])
    ours = T.Compose([getattr(T, name)(**arguments) for name, arguments in cases])
    assert drawable(ours)
    array = picture(height, width, channels)
    image = {"pil": as_pil, "tensor": as_tensor, "array": np.ascontiguousarray}[kind](array)
    torch.manual_seed(seed)
    try:
        expected = theirs(as_pil(array) if kind == "array" else image)
    except Exception as error:  # a crop larger than what was left of the image, three channels from one, …
        event(type(error).__name__)
        torch.manual_seed(seed)
        with pytest.raises(type(error)):
            ours(image)
        return
    state = torch.get_rng_state()

    torch.manual_seed(seed)
    actual = ours(image)
    assert torch.equal(torch.get_rng_state(), state)

    torch.manual_seed(seed)
    steps = ours.draw(ImageShape(height, width, channels), Generators())
    assert torch.equal(torch.get_rng_state(), state)
    drawn = apply_steps(steps, image)

    for made in map(values, (drawn, actual)):
        if kind == "array":  # gray ones come as (H, W, 1) or (H, W)
            made = made.reshape(values(expected).shape)
        np.testing.assert_array_equal(made, values(expected))


def test_what_is_drawable() -> None:
    assert all(drawable(getattr(T, name)(**arguments)) for name, arguments in RANDOM + FIXED + LARGE)
    assert drawable(T.ToTensor())
    assert drawable(T.Normalize([0.5], [0.5]))
    assert drawable(T.RandomErasing())
    for transform in (T.Lambda(len), T.FiveCrop(3), T.TenCrop(3), T.ToPILImage(), len, None, V.FiveCrop(3)):
        assert not drawable(transform)
    assert not drawable(T.Compose([T.CenterCrop(3), T.Lambda(len)]))
    assert not drawable(T.RandomApply([T.Lambda(len)]))
    assert not drawable(torch.jit.script(T.CenterCrop(3)))


def test_a_subclass_that_changes_the_outcome_is_not_drawn_by_its_base() -> None:
    class Plain(T.RandomResizedCrop):
        """Changes only what an image's result doesn't depend on."""

        def __init__(self) -> None:
            super().__init__(3)
            self.something = 1

        def __repr__(self) -> str:
            return "Plain()"

        def helper(self) -> None: ...

    class OwnParameters(T.RandomResizedCrop):
        @staticmethod
        def get_params(img: Any, scale: Any, ratio: Any) -> Any:
            return 0, 0, 1, 1

    class OwnForward(Plain):
        def forward(self, img: Any) -> Any:
            return img

    class OwnCall(T.Compose):
        def __call__(self, img: Any) -> Any:
            return img

    class OwnSpace(T.RandAugment):
        def _augmentation_space(self, num_bins: int, image_size: Any) -> Any:
            return {"Identity": (torch.tensor(0.0), False)}

    class OwnDraw(OwnParameters):
        def draw(self, shape: Any, generators: Any) -> Any:
            return ()

    class ForeignDraw(torch.nn.Module):
        def draw(self, canvas: Any) -> None: ...

    assert drawable(Plain())
    assert drawable(OwnDraw(3))
    for transform in (OwnParameters(3), OwnForward(), OwnCall([]), OwnSpace(), ForeignDraw()):
        assert not drawable(transform)

    patched = T.RandomResizedCrop(3)
    patched.get_params = OwnParameters.get_params
    assert not drawable(patched)

    hooked = T.RandomHorizontalFlip()
    handle = hooked.register_forward_hook(lambda module, inputs, output: output)
    assert not drawable(hooked)
    handle.remove()
    assert drawable(hooked)


def test_a_subclass_changes_what_its_base_calls() -> None:
    class Corner(T.RandomResizedCrop):
        @staticmethod
        def get_params(img: Any, scale: Any, ratio: Any) -> Any:
            return 0, 0, 2, 3

    image = picture(10, 12)
    np.testing.assert_array_equal(Corner((2, 3))(image), image[:2, :3])
