"""The public names with torchvision's signatures, defaults, attributes, reprs, warnings and errors."""

from __future__ import annotations

import importlib
import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torchvision_here import torchvision
from transform_cases import FIXED, LARGE, ON_TENSORS, RANDOM, ident

import fastpipe.transforms as T

V = torchvision.transforms
CLASSES = sorted(n for n in dir(V) if inspect.isclass(getattr(V, n)))
EVERYTHING = RANDOM + FIXED + LARGE + ON_TENSORS
MORE: list[tuple[str, dict[str, Any]]] = [
    ("ToTensor", {}),
    ("PILToTensor", {}),
    ("ToPILImage", {}),
    ("ToPILImage", {"mode": "RGB"}),
    ("FiveCrop", {"size": 3}),
    ("TenCrop", {"size": [3], "vertical_flip": True}),
    ("Lambda", {"lambd": len}),
    ("RandomApply", {"transforms": [len, abs], "p": 0.2}),
    ("RandomOrder", {"transforms": [len, abs]}),
    ("RandomChoice", {"transforms": [len, abs], "p": [1, 2]}),
    ("Compose", {"transforms": [len, abs]}),
    ("LinearTransformation", {"transformation_matrix": torch.eye(2), "mean_vector": torch.zeros(2)}),
    ("RandomResizedCrop", {"size": 3, "antialias": None}),
    ("RandomRotation", {"degrees": 3, "expand": True, "center": (1, 2), "fill": None}),
    ("ElasticTransform", {"fill": (1, 2, 3)}),
    ("AugMix", {"fill": 3}),
]


# Helpers of torchvision's functional module that its users have no business with.
INTERNAL = {"_compute_resized_output_size", "_is_numpy", "_is_numpy_image", "_log_api_usage_once"}


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [(p.name, p.kind, plain(p.default)) for p in inspect.signature(function).parameters.values()]


def plain(value: Any) -> Any:
    """Enum members of the two libraries compare by their values."""
    return (
        value.value
        if isinstance(value, (V.InterpolationMode, T.InterpolationMode)) or "Policy" in type(value).__name__
        else value
    )


def test_every_public_name_is_there() -> None:
    assert len(CLASSES) == 41  # 39 classes and 2 enums
    assert set(CLASSES) <= set(T.__all__)
    assert set(T.__all__) - set(CLASSES) == {"Albumentations"}


@pytest.mark.parametrize("module", ["transforms", "autoaugment", "functional"])
def test_the_modules_have_torchvisions_names(module: str) -> None:
    theirs = importlib.import_module(f"torchvision.transforms.{module}")
    ours = importlib.import_module(f"fastpipe.transforms.{module}")
    assert getattr(T, module) is ours
    own = {
        name
        for name, value in vars(theirs).items()
        if getattr(value, "__module__", "").startswith("torchvision.transforms") and name != "PILImage"
    }
    missing = {name for name in own if not hasattr(ours, name)}
    assert not missing - INTERNAL
    assert set(getattr(theirs, "__all__", [])) <= set(getattr(ours, "__all__", [])) | set(vars(ours))


@pytest.mark.parametrize("name", CLASSES)
def test_signatures(name: str) -> None:
    theirs, ours = getattr(V, name), getattr(T, name)
    if name in ("InterpolationMode", "AutoAugmentPolicy"):
        assert {m.name: m.value for m in theirs} == {m.name: m.value for m in ours}
        return
    assert parameters(theirs.__init__) == parameters(ours.__init__)
    assert issubclass(theirs, torch.nn.Module) == issubclass(ours, torch.nn.Module)
    method = "forward" if issubclass(theirs, torch.nn.Module) else "__call__"
    assert parameters(getattr(theirs, method)) == parameters(getattr(ours, method))
    assert hasattr(theirs, "get_params") == hasattr(ours, "get_params")
    if hasattr(theirs, "get_params"):
        assert parameters(theirs.get_params) == parameters(ours.get_params)
        assert isinstance(inspect.getattr_static(ours, "get_params"), staticmethod)


@pytest.mark.parametrize("case", EVERYTHING + MORE, ids=ident)
def test_reprs_and_attributes(case: tuple[str, dict[str, Any]]) -> None:
    name, arguments = case
    theirs, ours = getattr(V, name)(**arguments), getattr(T, name)(**arguments)
    assert repr(theirs) == repr(ours)
    assert str(theirs) == str(ours)
    expected = {key: plain(value) for key, value in vars(theirs).items()}
    actual = {key: plain(value) for key, value in vars(ours).items()}
    assert expected.keys() == actual.keys()
    for key, value in expected.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, actual[key])
        else:
            assert value == actual[key], key
            assert type(value) is type(actual[key]), key


@pytest.mark.parametrize("case", [case for case in EVERYTHING + MORE if case[0] != "LinearTransformation"], ids=ident)
def test_pickle(case: tuple[str, dict[str, Any]]) -> None:
    name, arguments = case
    ours = getattr(T, name)(**arguments)
    assert repr(pickle.loads(pickle.dumps(ours))) == repr(ours)


@pytest.mark.parametrize("policy", ["IMAGENET", "CIFAR10", "SVHN"])
def test_policies(policy: str) -> None:
    assert T.AutoAugment(T.AutoAugmentPolicy[policy]).policies == V.AutoAugment(V.AutoAugmentPolicy[policy]).policies


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("AutoAugment", (10, (30, 50))),
        ("RandAugment", (31, (30, 50))),
        ("TrivialAugmentWide", (7,)),
        ("AugMix", (10, (9, 5))),
    ],
)
def test_augmentation_spaces(name: str, arguments: Any) -> None:
    theirs = getattr(V, name)()._augmentation_space(*arguments)
    ours = getattr(T, name)()._augmentation_space(*arguments)
    assert list(theirs) == list(ours)  # in order: operations are drawn by their index
    for operation, (magnitudes, signed) in theirs.items():
        assert torch.equal(magnitudes, ours[operation][0])
        assert magnitudes.dtype == ours[operation][0].dtype
        assert signed == ours[operation][1]


BAD: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Resize", ({3},), {}),
    ("Resize", ((1, 2, 3),), {}),
    ("Resize", ((),), {}),
    ("Resize", (3.5,), {}),
    ("Resize", (3,), {"interpolation": 17}),
    ("CenterCrop", ((1, 2, 3),), {}),
    ("CenterCrop", (None,), {}),
    ("Pad", ("2",), {}),
    ("Pad", (2,), {"fill": "red"}),
    ("Pad", (2,), {"padding_mode": "wrap"}),
    ("Pad", ((1, 2, 3),), {}),
    ("Pad", ([],), {}),
    ("Lambda", (3,), {}),
    ("RandomOrder", (3,), {}),
    ("RandomChoice", (3,), {}),
    ("RandomChoice", ([len],), {"p": 3}),
    ("RandomCrop", ((1, 2, 3),), {}),
    ("RandomCrop", (None,), {}),
    ("FiveCrop", ((1, 2, 3),), {}),
    ("TenCrop", ((1, 2, 3),), {}),
    ("RandomResizedCrop", ((1, 2, 3),), {}),
    ("RandomResizedCrop", (3,), {"scale": 0.5}),
    ("RandomResizedCrop", (3,), {"ratio": 0.5}),
    ("RandomResizedCrop", (3,), {"interpolation": 9}),
    ("RandomPerspective", (), {"fill": {"red"}}),
    ("RandomRotation", (-3,), {}),
    ("RandomRotation", ((1, 2, 3),), {}),
    ("RandomRotation", (None,), {}),
    ("RandomRotation", (3,), {"center": (1,)}),
    ("RandomRotation", (3,), {"center": 1}),
    ("RandomRotation", (3,), {"fill": {"red"}}),
    ("RandomAffine", (-3,), {}),
    ("RandomAffine", (3,), {"translate": 2}),
    ("RandomAffine", (3,), {"translate": (2, 0)}),
    ("RandomAffine", (3,), {"translate": (0.1, 0.2, 0.3)}),
    ("RandomAffine", (3,), {"scale": (0, 1)}),
    ("RandomAffine", (3,), {"scale": 1}),
    ("RandomAffine", (3,), {"shear": -1}),
    ("RandomAffine", (3,), {"shear": (1, 2, 3)}),
    ("RandomAffine", (3,), {"center": (1, 2, 3)}),
    ("RandomAffine", (3,), {"fill": {"red"}}),
    ("ColorJitter", (-1,), {}),
    ("ColorJitter", ("1",), {}),
    ("ColorJitter", ((1, 2, 3),), {}),
    ("ColorJitter", ((2, 1),), {}),
    ("ColorJitter", (), {"hue": 0.6}),
    ("ColorJitter", (), {"hue": (-0.6, 0)}),
    ("GaussianBlur", (2,), {}),
    ("GaussianBlur", (0,), {}),
    ("GaussianBlur", ((3, 3, 3),), {}),
    ("GaussianBlur", (3,), {"sigma": 0}),
    ("GaussianBlur", (3,), {"sigma": (2, 1)}),
    ("GaussianBlur", (3,), {"sigma": "1"}),
    ("GaussianBlur", (3,), {"sigma": (1, 2, 3)}),
    ("RandomErasing", (), {"value": None}),
    ("RandomErasing", (), {"value": "noise"}),
    ("RandomErasing", (), {"scale": 1}),
    ("RandomErasing", (), {"ratio": 1}),
    ("RandomErasing", (), {"scale": (-1, 1)}),
    ("RandomErasing", (), {"scale": (0, 2)}),
    ("RandomErasing", (), {"p": 2}),
    ("ElasticTransform", (3,), {}),
    ("ElasticTransform", ((1.0,),), {}),
    ("ElasticTransform", ((1, 2),), {}),
    ("ElasticTransform", (), {"sigma": 3}),
    ("ElasticTransform", (), {"sigma": (1.0, 2.0, 3.0)}),
    ("ElasticTransform", (), {"sigma": ("a", "b")}),
    ("ElasticTransform", (), {"fill": "red"}),
    ("AutoAugment", ("imagenet",), {}),
    ("AugMix", (), {"severity": 0}),
    ("AugMix", (), {"severity": 11}),
    ("LinearTransformation", (torch.ones(2, 3), torch.ones(2)), {}),
    ("LinearTransformation", (torch.ones(2, 2), torch.ones(3)), {}),
    ("LinearTransformation", (torch.ones(2, 2), torch.ones(2).double()), {}),
    ("LinearTransformation", (torch.ones(2, 2), torch.ones(2, device="meta")), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), BAD, ids=[f"{n}{a}{k}"[:70] for n, a, k in BAD])
def test_errors_at_construction(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        getattr(V, name)(*args, **kwargs)
    with pytest.raises(theirs.type) as ours:
        getattr(T, name)(*args, **kwargs)
    if theirs.type in (TypeError, ValueError) and "fastpipe" not in str(ours.value):
        assert str(ours.value).replace(" ", "")[:30] == str(theirs.value).replace(" ", "")[:30]


@pytest.mark.parametrize("name", ["RandomResizedCrop", "RandomErasing"])
@pytest.mark.parametrize("key", ["scale", "ratio"])
def test_warnings(name: str, key: str) -> None:
    required = {"size": 3} if name == "RandomResizedCrop" else {}
    for library in (V, T):
        with pytest.warns(UserWarning, match=r"Scale and ratio should be of kind \(min, max\)"):
            getattr(library, name)(**required, **{key: (0.9, 0.2)})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            getattr(library, name)(**required)


@pytest.mark.parametrize(
    ("name", "kwargs", "shape"),
    [
        ("RandomCrop", {"size": 20}, (3, 10, 30)),
        ("FiveCrop", {"size": 20}, (3, 10, 30)),
        ("TenCrop", {"size": 20}, (3, 10, 30)),
        ("RandomErasing", {"p": 1, "value": (1, 2)}, (3, 10, 30)),
        ("LinearTransformation", {"transformation_matrix": torch.eye(4), "mean_vector": torch.zeros(4)}, (3, 10, 30)),
        ("Normalize", {"mean": [0.0], "std": [0.0]}, (3, 10, 30)),
    ],
)
def test_errors_when_called(name: str, kwargs: dict[str, Any], shape: tuple[int, ...]) -> None:
    image = torch.rand(shape)
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        getattr(V, name)(**kwargs)(image)
    with pytest.raises(theirs.type, match=r".") as ours:
        getattr(T, name)(**kwargs)(image)
    assert str(ours.value).split()[:3] == str(theirs.value).split()[:3]


def test_linear_transformation() -> None:
    generator = torch.Generator().manual_seed(0)
    matrix, mean = torch.rand(24, 24, generator=generator), torch.rand(24, generator=generator)
    for image in (torch.rand(2, 3, 4), torch.rand(5, 2, 3, 4)):
        expected = V.LinearTransformation(matrix, mean)(image)
        torch.testing.assert_close(T.LinearTransformation(matrix, mean)(image), expected, rtol=0, atol=0)


def test_interpolation_takes_pillows_integers() -> None:
    for value, mode in enumerate(["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]):
        assert T.Resize(3, interpolation=value).interpolation is T.InterpolationMode(mode)
    image = np.zeros((4, 5, 3), np.uint8)
    assert T.Resize((2, 2), interpolation=0)(image).shape == (2, 2, 3)
