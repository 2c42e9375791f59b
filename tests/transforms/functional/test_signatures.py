"""The names, signatures and TorchScript-ability are torchvision's."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any

import pytest
import torch
from torchvision_here import torchvision

import fastpipe.transforms._functional_pil
import fastpipe.transforms._functional_tensor
from fastpipe.transforms import functional as F

R = torchvision.transforms.functional

NAMES = sorted(
    name
    for name, value in vars(R).items()
    if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == R.__name__
)
NOT_FOR_TORCHSCRIPT = {"pil_to_tensor", "to_grayscale", "to_pil_image", "to_tensor"}


def test_every_public_name() -> None:
    assert len(NAMES) == 36
    assert set(F.__all__) == {*NAMES, "InterpolationMode", "pil_modes_mapping"}


@pytest.mark.parametrize("name", NAMES)
def test_signature(name: str) -> None:
    mine, theirs = (inspect.signature(getattr(module, name)) for module in (F, R))
    assert list(mine.parameters) == list(theirs.parameters)
    my_types, their_types = (typing.get_type_hints(getattr(module, name)) for module in (F, R))
    for parameter in theirs.parameters.values():
        own = mine.parameters[parameter.name]
        assert own.kind == parameter.kind
        if isinstance(parameter.default, R.InterpolationMode):
            assert own.default is F.InterpolationMode(parameter.default.value)
        else:
            assert own.default == parameter.default
            assert type(own.default) is type(parameter.default)
    for parameter_name, annotation in their_types.items():
        if annotation is R.InterpolationMode:
            assert my_types[parameter_name] is F.InterpolationMode
        else:
            assert meaning(my_types[parameter_name]) == meaning(annotation), parameter_name


def meaning(annotation: Any) -> Any:
    """An annotation in a form that is the same for ``List[int]`` and ``list[int]``, for ``Optional`` and ``| None``."""
    origin, inner = typing.get_origin(annotation), [*map(meaning, typing.get_args(annotation))]
    if origin in (typing.Union, types.UnionType):
        return frozenset(inner)
    return annotation if origin is None else (origin, *inner)


def test_interpolation_modes() -> None:
    assert {mode.name: mode.value for mode in F.InterpolationMode} == {
        mode.name: mode.value for mode in R.InterpolationMode
    }
    assert {mode.name: number for mode, number in F.pil_modes_mapping.items()} == {
        mode.name: number for mode, number in R.pil_modes_mapping.items()
    }
    for number in range(6):
        assert F._interpolation_modes_from_int(number).name == R._interpolation_modes_from_int(number).name


@pytest.mark.filterwarnings("ignore:`torch.jit.script")
@pytest.mark.parametrize("name", sorted(set(NAMES) - NOT_FOR_TORCHSCRIPT))
def test_torchscript_compiles(name: str) -> None:
    torch.jit.script(getattr(F, name))


@pytest.mark.filterwarnings("ignore:`torch.jit.script")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("resize", {"size": [5, 9]}),
        ("resize", {"size": [5], "max_size": 8}),
        ("center_crop", {"output_size": [3, 20]}),
        ("pad", {"padding": [1, 2, 0, 3], "fill": 4}),
        ("pad", {"padding": [2], "padding_mode": "symmetric"}),
        ("adjust_contrast", {"contrast_factor": 1.4}),
        ("adjust_hue", {"hue_factor": -0.2}),
        ("rotate", {"angle": 31.0, "expand": True, "fill": [3.0]}),
        ("affine", {"angle": 9.0, "translate": [1, 2], "scale": 0.9, "shear": [3.0, 1.0], "center": [2, 3]}),
        ("gaussian_blur", {"kernel_size": [3, 3], "sigma": [0.8]}),
        ("gaussian_blur", {"kernel_size": [3, 5]}),
        ("ten_crop", {"size": [2, 3]}),
    ],
)
def test_torchscript_gives_the_eager_result(name: str, arguments: dict[str, Any]) -> None:
    function = getattr(F, name)
    image = torch.randint(0, 256, (3, 11, 14), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(torch.jit.script(function)(image, **arguments), function(image, **arguments))


@pytest.mark.parametrize("module", ["_functional_tensor", "_functional_pil"])
def test_backends_under_torchvisions_paths(module: str) -> None:
    mine = getattr(fastpipe.transforms, module)
    theirs = getattr(torchvision.transforms, module)
    public = {
        name
        for name, value in vars(theirs).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == theirs.__name__
    }
    missing = {name for name in public if not callable(getattr(mine, name, None))}
    assert not missing
