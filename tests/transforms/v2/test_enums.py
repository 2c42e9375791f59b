"""InterpolationMode and AutoAugmentPolicy: one of each for v1 and v2, and torchvision's taken wherever ours are."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as V
import torchvision.transforms.v2 as V2
from PIL import Image

import fastpipe.transforms as T
from fastpipe.transforms import v2

MEMBERS = [(T.InterpolationMode[mode.name], mode) for mode in V.InterpolationMode]
MEMBERS += [(T.AutoAugmentPolicy[policy.name], policy) for policy in V.AutoAugmentPolicy]
BICUBIC = [T.InterpolationMode.BICUBIC, V.InterpolationMode.BICUBIC]
IDS = ["ours", "torchvision's"]


def picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(3).integers(0, 256, (23, 31, 3), dtype=np.uint8))


def test_v1_and_v2_have_the_same() -> None:
    assert v2.InterpolationMode is v2.functional.InterpolationMode is T.InterpolationMode
    assert T.functional.InterpolationMode is T.transforms.InterpolationMode is T.InterpolationMode
    assert v2.AutoAugmentPolicy is T.autoaugment.AutoAugmentPolicy is T.AutoAugmentPolicy


@pytest.mark.parametrize(("ours", "theirs"), MEMBERS)
def test_members_are_equal_to_torchvisions(ours: Any, theirs: Any) -> None:
    assert ours == theirs
    assert theirs == ours
    assert {ours: 1}[theirs] == {theirs: 1}[ours] == 1
    assert isinstance(ours, type(theirs))
    assert type(ours)(theirs) is ours
    assert repr(ours) == repr(theirs)
    assert pickle.loads(pickle.dumps(ours)) is copy.deepcopy(ours) is ours
    assert [ours == other for _, other in MEMBERS].count(True) == 1
    assert ours != theirs.value


@pytest.mark.parametrize("mode", [T.InterpolationMode.BILINEAR, V.InterpolationMode.BILINEAR], ids=IDS)
@pytest.mark.parametrize(
    "make",
    [
        lambda m, mode: m.Resize([9, 12], interpolation=mode),
        lambda m, mode: m.RandomResizedCrop(8, interpolation=mode),
        lambda m, mode: m.RandomPerspective(0.5, 1.0, interpolation=mode),
        lambda m, mode: m.RandomRotation(30, interpolation=mode),
        lambda m, mode: m.RandomAffine(20, interpolation=mode),
        lambda m, mode: m.ElasticTransform(interpolation=mode),
        lambda m, mode: m.RandAugment(interpolation=mode),
        lambda m, mode: m.TrivialAugmentWide(interpolation=mode),
        lambda m, mode: m.AutoAugment(m.AutoAugmentPolicy.SVHN, mode),
        lambda m, mode: m.AugMix(interpolation=mode),
    ],
)
def test_v1_and_v2_take_both(make: Any, mode: Any) -> None:
    for module, theirs in ((T, V), (v2, V2)):
        transform, expected = make(module, mode), make(theirs, V.InterpolationMode.BILINEAR)
        again = pickle.loads(pickle.dumps(transform))
        assert repr(transform) == repr(again) == repr(expected)
        assert transform.interpolation is again.interpolation is T.InterpolationMode.BILINEAR
        outputs = []
        for one in (transform, again, expected):
            torch.manual_seed(5)
            outputs.append(np.asarray(one(picture())))
        assert np.array_equal(outputs[0], outputs[2])
        assert np.array_equal(outputs[1], outputs[2])


@pytest.mark.parametrize("mode", BICUBIC, ids=IDS)
def test_both_give_pillows_pixels(mode: Any) -> None:
    expected = picture().resize((12, 9), Image.Resampling.BICUBIC)
    array = np.asarray(picture())
    for resized in (
        T.Resize([9, 12], interpolation=mode)(picture()),
        T.functional.resize(picture(), [9, 12], mode),
        T.functional.resize(array, [9, 12], mode),
        v2.Resize([9, 12], interpolation=mode)(picture()),
        v2.Resize([9, 12], interpolation=mode)(array),
        v2.functional.resize(picture(), [9, 12], mode),
        T.Compose([T.Resize([9, 12], interpolation=mode)])(array),
    ):
        assert np.array_equal(np.asarray(resized), np.asarray(expected))


@pytest.mark.parametrize("policy", [T.AutoAugmentPolicy.SVHN, V.AutoAugmentPolicy.SVHN], ids=IDS)
def test_both_policies_are_taken(policy: Any) -> None:
    expected = V.AutoAugment(V.AutoAugmentPolicy.SVHN).policies
    assert T.AutoAugment(policy).policies == expected
    assert T.AutoAugment(policy).policy is v2.AutoAugment(policy).policy is T.AutoAugmentPolicy.SVHN
    torch.manual_seed(2)
    one = np.asarray(v2.AutoAugment(policy)(picture()))
    torch.manual_seed(2)
    assert np.array_equal(one, np.asarray(V2.AutoAugment(V.AutoAugmentPolicy.SVHN)(picture())))


@pytest.mark.parametrize("function", ["rotate", "affine", "perspective", "elastic_transform"])
@pytest.mark.parametrize("form", [lambda: np.asarray(picture()), picture, lambda: V.PILToTensor()(picture())])
def test_functions_take_both(function: str, form: Any) -> None:
    points = [[0, 0], [30, 0], [30, 22], [0, 22]], [[2, 3], [28, 1], [29, 20], [1, 21]]
    arguments: dict[str, Any] = {
        "rotate": (17.0,),
        "affine": (7.0, [2, -1], 1.1, [3.0, 0.0]),
        "perspective": points,
        "elastic_transform": (torch.full((1, 23, 31, 2), 0.03),),
    }[function]
    for module in (T.functional, v2.functional):
        if module is v2.functional and isinstance(form(), np.ndarray):
            continue
        call = getattr(module, function)
        ours = call(form(), *arguments, interpolation=T.InterpolationMode.BILINEAR)
        theirs = call(form(), *arguments, interpolation=V.InterpolationMode.BILINEAR)
        assert np.array_equal(np.asarray(ours), np.asarray(theirs))


def test_torchscript_takes_both() -> None:
    image = V.PILToTensor()(picture())
    for module, theirs in ((T, V), (v2, V2)):
        expected = theirs.functional.resize(image, [9, 12], V.InterpolationMode.BICUBIC)
        function = torch.jit.script(module.functional.resize)
        for mode in BICUBIC:
            transform = torch.jit.script(module.Resize([9, 12], interpolation=mode))
            assert torch.equal(function(image, [9, 12], mode), expected)
            assert torch.equal(transform(image), V.functional.resize(image, [9, 12], V.InterpolationMode.BICUBIC))


def test_others_are_refused_as_before() -> None:
    with pytest.raises(TypeError, match="Argument interpolation should be a InterpolationMode"):
        T.functional.resize(picture(), [9, 12], "bicubic")
    with pytest.raises(ValueError, match="The provided policy imagenet is not recognized"):
        T.AutoAugment("imagenet")


WITHOUT = """
import pickle, sys
import fastpipe.transforms as T
mode, policy = T.InterpolationMode.BICUBIC, T.AutoAugmentPolicy.CIFAR10
assert pickle.loads(pickle.dumps((mode, policy))) == (mode, policy) and mode != policy
assert mode.__class__ is T.InterpolationMode and T.Resize(8, mode).interpolation is mode
assert "torchvision" not in sys.modules
"""


@pytest.mark.slow
def test_v1_imports_no_torchvision() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)
