"""Transforms of a Compose that change between its calls: their attributes, the list, hooks and methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torchvision_here import torchvision
from transform_cases import as_pil, picture
from transforms.composed_calls import Blur, Outcome, assert_same, noise, recipe

import fastpipe
import fastpipe.transforms as T
import fastpipe.transforms.v2 as T2

V = torchvision.transforms
V2 = V.v2


def test_attributes_that_change(programs: list[Any]) -> None:
    image, ours, theirs = as_pil(picture(61, 83)), recipe(T), recipe(V)

    def change(transforms: list[Any], turn: int) -> None:
        if turn == 1:
            transforms[0].size = (20, 31)
        elif turn == 2:
            transforms[0].scale, transforms[1].p = (0.5, 0.6), 1.0
        elif turn == 3:
            transforms[2].brightness = None
            transforms[2].hue = (-0.1, 0.2)
        elif turn == 4:
            transforms[4].mean, transforms[4].std = [0.1, 0.2, 0.3], (0.5, 0.5, 0.5)
        elif turn == 5:
            transforms[4].std[0:0] = []  # nothing
            transforms[4].mean[0] = 0.9

    for turn in range(6):
        for one in (ours, theirs):
            if turn == 5:
                one.transforms[4].std = [0.5] * 3
            change(one.transforms, turn)
        Outcome(ours, image, turn).assert_equals(Outcome(theirs, image, turn))
    assert len(programs) == 6


def test_members_that_change(programs: list[Any]) -> None:
    image, ours, theirs = as_pil(picture(61, 83)), recipe(T), recipe(V)

    def change(library: Any, compose: Any, turn: int) -> None:
        members = compose.transforms
        if turn == 1:
            members.insert(0, library.RandomVerticalFlip())
        elif turn == 2:
            members[2] = library.RandomChoice([library.RandomRotation(20), library.Resize(30)])
        elif turn == 3:
            members[2].transforms.append(library.RandomInvert(1))
        elif turn == 4:
            members[2].transforms = [library.RandomSolarize(9, 1)]
        elif turn == 5:
            members.append(noise)
        elif turn == 6:
            members.insert(2, library.Compose([library.RandomHorizontalFlip()]))
        elif turn == 7:
            members[2].transforms.append(Blur())
        elif turn == 8:
            compose.transforms = (library.RandomCrop(9), library.RandomApply(torch.nn.ModuleList([]), 1))
        elif turn == 9:
            compose.transforms[1].transforms.append(library.RandomHorizontalFlip(1))
        elif turn == 10:
            del members

    for turn in range(11):
        change(T, ours, turn)
        change(V, theirs, turn)
        Outcome(ours, image, turn).assert_equals(Outcome(theirs, image, turn))
    assert len(programs) == 12  # two where something foreign stands in the middle


def test_hooks_and_methods_that_come_later(programs: list[Any]) -> None:
    image, transform = as_pil(picture(61, 83)), recipe(T)
    transform(image)
    assert len(programs) == 1
    seen: list[Any] = []
    handles = [
        transform.transforms[1].register_forward_hook(lambda module, given, result: seen.append(type(result))),
        transform.transforms[2].register_forward_pre_hook(lambda module, given: seen.append(type(given[0]))),
    ]
    transform(image)
    assert seen == [Image.Image, Image.Image]
    assert len(programs) == 3  # the crop; ToTensor and Normalize
    for handle in handles:
        handle.remove()
    transform(image)
    transform.transforms[2].forward = lambda given: seen.append("own") or given
    transform(image)
    assert seen == [Image.Image, Image.Image, "own"]
    del transform.transforms[2].forward
    with torch.nn.modules.module.register_module_forward_hook(lambda module, given, result: seen.append(module)):
        transform(image)
    assert seen[3:] == [one for one in transform.transforms if isinstance(one, torch.nn.Module)]
    inner = T.RandomApply([T.RandomHorizontalFlip(1)], 1)
    transform = T.Compose([inner])
    transform(image)
    with inner.transforms[0].register_forward_hook(lambda module, given, result: seen.append("inner")):
        transform(image)
    assert seen[-1] == "inner"


def _set_forward(compose: Any) -> None:
    compose.transforms[0].forward = lambda image: image


def _set_forward_of_class(compose: Any) -> None:
    type(compose.transforms[0]).forward = lambda self, image: image


def _set_call_of_class(compose: Any) -> None:
    type(compose.transforms[0]).__call__ = lambda self, image: image


def _set_parameters_of_class(compose: Any) -> None:
    type(compose.transforms[1]).get_params = staticmethod(lambda image, size: (3, 1, *size))


def _set_class(compose: Any) -> None:
    compose.transforms[0].__class__ = type(compose.transforms[0]).vertical


def _hook(compose: Any) -> None:
    compose.transforms[0].register_forward_hook(lambda module, given, result: given[0])


@pytest.mark.parametrize(
    "change",
    [_set_forward, _set_forward_of_class, _set_call_of_class, _set_parameters_of_class, _set_class, _hook],
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize("is_file", [False, True], ids=["call", "dataset"])
def test_what_is_set_on_transforms_and_their_classes_later(change: Any, is_file: bool, tmp_path: Any) -> None:
    picture_of_file = as_pil(picture(61, 83))
    path = str(tmp_path / "a.png")
    picture_of_file.save(path)

    def shown(module: Any, as_dataset: bool) -> list[Any]:
        class Flip(module.RandomHorizontalFlip):  # type: ignore[misc]
            vertical = module.RandomVerticalFlip

        class Crop(module.RandomCrop):  # type: ignore[misc]
            pass

        compose = module.Compose([Flip(1), Crop((20, 30)), module.ToTensor()])
        dataset = fastpipe.ImageList(([path], [0]), transform=compose) if as_dataset else None
        torch.manual_seed(3)
        results = []
        for turn in range(3):
            results.append(compose(picture_of_file) if dataset is None else dataset[0][0])
            if turn == 0:
                change(compose)
        return [*results, torch.get_rng_state()]

    assert_same(shown(T, is_file), shown(V, False))
    assert_same(shown(V, is_file), shown(V, False))  # torchvision's own objects in our dataset


def test_a_hook_of_all_modules_that_comes_later(tmp_path: Any) -> None:
    picture_of_file = as_pil(picture(61, 83))
    path = str(tmp_path / "a.png")
    picture_of_file.save(path)
    for module in (T, V):
        dataset = fastpipe.ImageList(
            ([path], [0]), transform=module.Compose([module.Resize((9, 8)), module.ToTensor()])
        )
        dataset[0]
        seen: list[Any] = []
        with torch.nn.modules.module.register_module_forward_hook(lambda one, given, result: seen.append(one)):  # noqa: B023
            dataset[0]
        assert seen == [dataset.transform.transforms[0]]  # type: ignore[union-attr]


def _flipped(method: Any) -> Any:
    """A method with the names of another, whose module it has, too."""

    @wraps(method)
    def flips(self: Any, image: Any) -> Any:
        return method(self, image).transpose(Image.Transpose.FLIP_TOP_BOTTOM)

    return flips


def _corner(self: Any, image: Any) -> Any:
    return image.crop((0, 0, 20, 20))


_BOX = {"needs_crop": True, "top": 1, "left": 2, "height": 20, "width": 20, "needs_pad": False, "padding": [0] * 4}
PATCHES: dict[str, Callable[[Any, Any], tuple[type, str, Any]]] = {
    "forward": lambda home, compose: (home.RandomCrop, "forward", _corner),
    "wrapped": lambda home, compose: (home.RandomCrop, "forward", _flipped(home.RandomCrop.forward)),
    "get_params": lambda home, compose: (home.RandomCrop, "get_params", staticmethod(lambda *given: (1, 2, 20, 20))),
    "make_params": lambda home, compose: (home.RandomCrop, "make_params", lambda *given: _BOX),
    "__call__": lambda home, compose: (home.RandomCrop, "__call__", _corner),
    "Compose": lambda home, compose: (home.Compose, "__call__", lambda self, image: image),
    "ToTensor": lambda home, compose: (home.ToTensor, "__call__", lambda self, image: torch.zeros(1, 9, 9)),
    "user's forward": lambda home, compose: (type(compose.transforms[1]), "forward", _corner),
    "user's call": lambda home, compose: (type(compose.transforms[2]), "__call__", _corner),
    "user's draw": lambda home, compose: (type(compose.transforms[3]), "get_params", lambda *given: (0, 1, 9, 9)),
}


@pytest.mark.filterwarnings("ignore:The transform `ToTensor:UserWarning")
@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
@pytest.mark.parametrize(("ours", "theirs"), [(T, V), (T2, V2)], ids=["v1", "v2"])
def test_a_method_that_is_replaced_for_a_while(patch: Any, ours: Any, theirs: Any, tmp_path: Path) -> None:
    image = as_pil(picture(61, 83))
    image.save(tmp_path / "a.png")

    def shown(home: Any, as_dataset: bool, early: bool) -> list[Any]:
        class Module(torch.nn.Module):
            def forward(self, image: Any) -> Any:
                return image

        class Plain:
            def __call__(self, image: Any) -> Any:
                return image

        class Drawing(home.RandomCrop):  # type: ignore[misc]
            @staticmethod
            def get_params(*given: Any) -> Any:
                return 0, 0, 9, 9

        compose = home.Compose([home.RandomCrop(20), Module(), Plain(), Drawing(9), home.ToTensor()])
        dataset = fastpipe.ImageList(([str(tmp_path / "a.png")], [0]), transform=compose) if as_dataset else None
        torch.manual_seed(3)
        results = []
        for turn in range(4):
            with pytest.MonkeyPatch.context() as patches:
                if turn == 1 or (early and turn == 0):
                    patches.setattr(*patch(home, compose), raising=False)
                results += [compose(image) if dataset is None else dataset[0][0] for _ in range(1 + turn % 2)]
        return [*results, torch.get_rng_state()]

    for early in (False, True):
        expected = shown(theirs, False, early)
        for home, as_dataset in ((ours, False), (ours, True), (theirs, True)):
            assert_same(shown(home, as_dataset, early), expected)


class _Raises(type):
    def __hash__(cls) -> int:
        raise RuntimeError("no hash")

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("no ==")

    def __instancecheck__(cls, thing: object) -> bool:
        raise RuntimeError("no isinstance")

    def __subclasscheck__(cls, kind: object) -> bool:
        raise RuntimeError("no issubclass")


@pytest.mark.filterwarnings("ignore:The transform `ToTensor:UserWarning")
@pytest.mark.parametrize(("ours", "theirs"), [(T, V), (T2, V2)], ids=["v1", "v2"])
def test_a_metaclass_that_raises_ends_nothing(ours: Any, theirs: Any, tmp_path: Path) -> None:
    image = as_pil(picture(61, 83))
    image.save(tmp_path / "a.png")

    def shown(home: Any, as_dataset: bool) -> list[Any]:
        class Plain(metaclass=_Raises):
            def __call__(self, image: Any) -> Any:
                return image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)

        class Module(torch.nn.Module, metaclass=_Raises):
            def forward(self, image: Any) -> Any:
                return image.transpose(Image.Transpose.ROTATE_90)

        class Crop(home.RandomCrop, metaclass=_Raises):  # type: ignore[misc]
            pass

        class Flipped(home.RandomCrop, metaclass=_Raises):  # type: ignore[misc]
            def forward(self, image: Any) -> Any:
                return super().forward(image).transpose(Image.Transpose.FLIP_TOP_BOTTOM)

        members = [Crop(30), Plain(), Module(), Flipped(20), home.ToTensor()]
        results = []
        for transform in (home.Compose(members), *(home.Compose([one, members[-1]]) for one in members[:-1])):
            torch.manual_seed(3)
            if as_dataset:
                assert fastpipe.explain(transform)
                dataset = fastpipe.ImageList(([str(tmp_path / "a.png")], [0]), transform=transform)
                results += [dataset[0][0], fastpipe.convert(transform)(image)]
            else:
                results += [transform(image), transform(image)]
        return [*results, torch.get_rng_state()]

    assert_same(shown(ours, False), shown(theirs, False))
    assert_same(shown(ours, True), shown(theirs, False))
    assert_same(shown(theirs, True), shown(theirs, False))
