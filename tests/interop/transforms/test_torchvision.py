"""torchvision's own objects are planned, and give what they give in torchvision's datasets: bytes and end states."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.transforms import torchvision_pipelines as pipelines
from interop.transforms.torchvision_pipelines import T, V
from PIL import Image
from recipe_conformance import assert_same, flat, in_process, run, seed_all, states
from torchvision_here import module, torchvision

import fastpipe
from fastpipe import explain
from fastpipe.interop.graph_breaks import diagnose
from fastpipe.transforms._base import drawable
from fastpipe.transforms.compose_plan import ComposePlan
from fastpipe.transforms.pipeline import compile_pipeline
from fastpipe.types import ImageShape

F = module("torchvision.transforms.functional")
TRAIN = [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.4], [0.2])]


@pytest.mark.parametrize("transform", pipelines.cases(), ids=lambda transform: str(transform)[:40])
def test_each_class_alone(photos: Path, transform: Any) -> None:
    assert_same(photos, transform)


@settings(max_examples=settings.default.max_examples // 2)
@given(st.integers(0, 2**32 - 1))
def test_random_pipelines_of_v1(photos: Path, seed: int) -> None:
    assert_same(photos, pipelines.v1(seed), seed)


@settings(max_examples=settings.default.max_examples // 2)
@given(st.integers(0, 2**32 - 1))
def test_random_pipelines_of_v2(photos: Path, seed: int) -> None:
    assert_same(photos, pipelines.v2(seed), seed, drawn=False)


@pytest.mark.slow
@pytest.mark.parametrize("core", ["off", "portable"])
def test_with_another_core(photos: Path, core: str) -> None:
    in_process("interop.transforms.torchvision_pipelines", photos, core)


@pytest.mark.parametrize("name", ["ToTensor", "PILToTensor"])
@pytest.mark.parametrize("library", [T, V])
def test_what_follows_a_conversion_is_drawn_once(
    photos: Path, library: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that fails would have its transforms called again, with all their work."""
    compose = library.Compose([getattr(library, name)(), library.ElasticTransform(fill=3.0), library.CenterCrop(20)])
    with Image.open(next(path for path in sorted(photos.rglob("*")) if path.is_file())) as file:
        image = file.convert("RGB")
    seed_all(3)
    expected, after = compose(image), states()
    drawn: list[torch.Tensor] = []
    rand = torch.rand

    def counted(*args: Any, **kwargs: Any) -> torch.Tensor:
        numbers = rand(*args, **kwargs)
        if numbers.numel() == image.width * image.height:
            drawn.append(numbers)
        return numbers

    monkeypatch.setattr(torch, "rand", counted)
    seed_all(3)
    result = ComposePlan(compose.transforms)(image)
    assert len(drawn) == 2  # in the two directions
    assert states() == after
    assert flat(result) == flat(expected)
    assert isinstance(result, torch.Tensor)
    assert result.stride() == expected.stride()


def test_v2_is_planned_to_the_end(photos: Path) -> None:
    members = [V.RandomChoice([V.RandomHorizontalFlip(), V.RandAugment()]), V.RandomApply([V.ColorJitter(0.3)], p=0.6)]
    order = V.RandomOrder([V.RandomVerticalFlip(), V.RandomAutocontrast()])
    ending = [V.ToImage(), V.ToDtype(torch.float32, scale=True), V.Normalize([0.5], [0.5])]
    assert_same(photos, V.Compose([V.RandomResizedCrop(30), *members, order, *ending]))


@pytest.mark.parametrize("ours", [fastpipe.transforms.Compose, fastpipe.transforms.RandomApply])
def test_our_containers_hold_theirs(photos: Path, ours: Any) -> None:
    assert_same(photos, ours([T.RandomCrop(20), T.RandomChoice([fastpipe.transforms.RandomRotation(9), T.Pad(2)])]))


def test_our_v2_containers_hold_theirs(photos: Path) -> None:
    from fastpipe.transforms import v2

    choice = v2.RandomChoice([V.RandomHorizontalFlip(), V.Compose([V.PILToTensor(), V.RandomCrop(9)]), v2.Pad(3)])
    assert_same(photos, v2.Compose([V.RandomCrop(30), choice, v2.RandomApply([V.RandomInvert()])]))


def test_attributes_changed_later_are_seen(photos: Path) -> None:
    flip, crop, apply = T.RandomHorizontalFlip(0.0), T.RandomCrop(20), T.RandomApply([T.Pad(1)], p=0.0)
    jitter, mirrored = V.ColorJitter(brightness=(1.0, 1.0)), V.RandomHorizontalFlip(0.0)
    compositions = T.Compose([crop, flip, apply]), V.Compose([jitter, mirrored])
    datasets = [fastpipe.ImageFolder(photos, transform) for transform in compositions]
    before = [run(dataset, 3) for dataset in datasets]
    flip.p, crop.size, apply.p, apply.transforms[0].padding = 1.0, (9, 30), 1.0, (2, 5)
    jitter.brightness, mirrored.p = (0.2, 0.4), 1.0
    for transform, dataset, earlier in zip(compositions, datasets, before, strict=True):
        after = run(dataset, 3)
        assert after == run(torchvision.datasets.ImageFolder(str(photos), transform), 3)
        assert after != earlier


WARPS = [T.RandAugment(), T.AutoAugment(), T.TrivialAugmentWide(), T.RandomAffine(9), T.RandomRotation(9)]


@pytest.mark.parametrize("transform", WARPS, ids=lambda transform: type(transform).__name__)
def test_the_core_has_their_warps(transform: Any) -> None:
    modes = []
    for seed in range(20):
        torch.manual_seed(seed)
        drawn = compile_pipeline(transform).draw(ImageShape(40, 50)).steps
        modes += [type(step.interpolation) for step in drawn if hasattr(step, "interpolation")]
    assert set(modes) == {fastpipe.transforms.InterpolationMode}


def test_members_changed_later_are_seen(photos: Path) -> None:
    transform = T.Compose([T.CenterCrop(20), T.Compose([T.RandomHorizontalFlip()])])
    dataset = fastpipe.ImageFolder(photos, transform)
    run(dataset, 0)
    transform.transforms.append(T.ToTensor())
    transform.transforms[1].transforms[0] = T.RandomRotation(40)
    assert run(dataset, 0) == run(torchvision.datasets.ImageFolder(str(photos), transform), 0)
    assert dataset.pipeline.unplanned == ()


def test_a_user_that_draws_shares_nothing_with_the_transform() -> None:
    transform = T.RandomResizedCrop(9)
    before = dict(vars(transform))
    fastpipe.transforms.Compose([transform])(Image.new("RGB", (30, 30)))
    explain(transform)
    assert vars(transform) == before


# -- what isn't planned


class Corner(T.RandomCrop):
    @staticmethod
    def get_params(img: Any, output_size: Any) -> Any:
        return 0, 0, *output_size


class Loud(T.RandomHorizontalFlip):
    def forward(self, img: Any) -> Any:
        return super().forward(super().forward(img))


class Slow(V.RandomHorizontalFlip):
    def transform(self, inpt: Any, params: Any) -> Any:
        return Image.fromarray(255 - np.asarray(inpt))


class Seven(T.CenterCrop):
    size = property(lambda self: (7, 7), lambda self, value: None)


class Sized(T.RandomCrop):
    """Nothing of its own but a constructor, a repr and a helper."""

    def __init__(self) -> None:
        super().__init__(self.side())

    def side(self) -> int:
        return 12

    def __repr__(self) -> str:
        return "Sized()"


class Sharp(V.RandomAdjustSharpness):
    def __init__(self) -> None:
        super().__init__(2.0, 0.5)


@pytest.mark.parametrize(
    "foreign", [Corner(9), Loud(), Slow(), Seven(3), T.Lambda(lambda image: image.rotate(0))], ids=repr
)
def test_a_subclass_with_methods_of_its_own_is_foreign(photos: Path, foreign: Any) -> None:
    assert not drawable(foreign)
    assert_same(photos, T.Compose([T.CenterCrop(20), foreign, T.ToTensor()]), drawn=False)


@pytest.mark.parametrize("known", [Sized(), Sharp()], ids=["v1", "v2"])
def test_a_subclass_with_a_constructor_alone_is_planned(photos: Path, known: Any) -> None:
    assert_same(photos, known)


@pytest.mark.parametrize("name", ["__annotate_func__", "__firstlineno__", "__static_attributes__", "__type_params__"])
@pytest.mark.parametrize("base", [T.CenterCrop, V.CenterCrop], ids=["v1", "v2"])
def test_names_that_newer_pythons_give_a_class_change_nothing(photos: Path, base: type, name: str) -> None:
    assert_same(photos, type("Own", (base,), {name: ()})(20))


def test_hooks_and_methods_of_the_instance_are_seen(photos: Path) -> None:
    seen: list[Any] = []
    for base in (T.CenterCrop, V.CenterCrop):
        hooked, changed, held = base(4), base(4), base(4)
        hooked.register_forward_hook(lambda *_: seen.append(1))
        held.register_forward_pre_hook(lambda *_: seen.append(2))
        changed.forward = lambda image: image
        for transform in (hooked, changed, held):
            assert not drawable(transform)
            assert_same(photos, transform, drawn=False)
        assert "a hook is registered" in diagnose(hooked).reason
    compose = V.Compose([V.CenterCrop(9)])
    compose.register_forward_hook(lambda *_: seen.append(3))
    assert fastpipe.ImageFolder(photos, compose).pipeline.drawn == ()
    assert set(seen) == {1, 2}


# -- subclasses of repositories


class MaybeToTensor(T.ToTensor):
    """DINOv2's."""

    def __call__(self, pic: Any) -> Any:
        """Leaves tensors."""
        if isinstance(pic, torch.Tensor):
            return pic
        return super().__call__(pic)


class MaybeToTensorByFunction(T.ToTensor):
    """open_clip's."""

    def __call__(self, pic: Any) -> torch.Tensor:
        if isinstance(pic, torch.Tensor):
            return pic
        return F.to_tensor(pic)


class Halved(T.ToTensor):
    def __call__(self, pic: Any) -> Any:
        return super().__call__(pic.resize((4, 4)))


class OfMAE(T.RandomResizedCrop):
    """MAE's, as in its util/crop.py."""

    @staticmethod
    def get_params(img: Any, scale: Any, ratio: Any) -> Any:
        width, height = F.get_image_size(img)
        area = height * width
        target_area = area * torch.empty(1).uniform_(scale[0], scale[1]).item()
        log_ratio = torch.log(torch.tensor(ratio))
        aspect_ratio = torch.exp(torch.empty(1).uniform_(log_ratio[0], log_ratio[1])).item()
        w = int(round(math.sqrt(target_area * aspect_ratio)))  # noqa: RUF046
        h = int(round(math.sqrt(target_area / aspect_ratio)))  # noqa: RUF046
        w = min(w, width)
        h = min(h, height)
        i = torch.randint(0, height - h + 1, size=(1,)).item()
        j = torch.randint(0, width - w + 1, size=(1,)).item()
        return i, j, h, w


class ByNumpy(T.RandomResizedCrop):
    @staticmethod
    def get_params(img: Any, scale: Any, ratio: Any) -> Any:
        return 0, 0, int(np.random.randint(1, 9)), 9


class ByPixels(T.RandomResizedCrop):
    @staticmethod
    def get_params(img: Any, scale: Any, ratio: Any) -> Any:
        return 0, 0, 5, 1 + F.pil_to_tensor(img).sum() % 7


REPLACED = [MaybeToTensor(), MaybeToTensorByFunction(), Halved(), OfMAE(24, scale=(0.2, 1.0), interpolation=3)]


@pytest.mark.parametrize("foreign", [*REPLACED, ByNumpy(9), ByPixels(9)], ids=lambda one: type(one).__name__)
def test_a_subclass_that_replaces_a_method_is_called(photos: Path, foreign: Any) -> None:
    assert not drawable(foreign)
    assert_same(photos, foreign, drawn=False)
    assert_same(photos, T.Compose([TRAIN[0], foreign, *TRAIN[1:2]]), drawn=False)
    assert_same(photos, T.Compose([foreign, *TRAIN]), drawn=False)


# -- everywhere


def test_many_views(photos: Path) -> None:
    small = T.Compose([T.RandomResizedCrop(12), T.RandomApply([T.GaussianBlur(3)]), T.ToTensor()])
    views = fastpipe.MultiView([T.Compose(TRAIN), small], [2, 3])
    assert_same(photos, views)


def test_a_loader_of_ones_own_gets_the_transforms_themselves(photos: Path) -> None:
    def loader(path: str) -> Any:
        return np.asarray(Image.open(path))

    dataset = fastpipe.ImageFolder(photos, T.CenterCrop(9), loader=loader)
    with pytest.raises(TypeError, match="Unexpected type"):  # torchvision takes no arrays
        dataset[0]


def test_batches_and_a_seed(photos: Path) -> None:
    theirs = torchvision.datasets.ImageFolder(str(photos), T.Compose(TRAIN))
    dataset = fastpipe.ImageFolder(photos, T.Compose(TRAIN))
    seed_all(5)
    expected = torch.stack([theirs[index][0] for index in range(len(theirs))])
    end = states()
    seed_all(5)
    found = dataset.batch(list(range(len(dataset))))
    assert torch.equal(torch.stack([image for image, _ in found]), expected)
    assert states() == end
    seed_all(5)
    assert torch.equal(fastpipe.load_batch([path for path, _ in theirs.samples], T.Compose(TRAIN)), expected)
    own = fastpipe.ImageFolder(photos, fastpipe.transforms.Compose(TRAIN), seed=7)
    assert flat(fastpipe.ImageFolder(photos, T.Compose(TRAIN), seed=7)[2]) == flat(own[2])


def test_boxes_and_their_transforms(photos: Path) -> None:
    tv_tensors = module("torchvision.tv_tensors")
    path = str(photos / "a" / "0.jpg")
    boxes = torch.tensor([[3.0, 4.0, 60.0, 50.0]])
    members = [V.RandomIoUCrop(), V.RandomChoice([V.RandomHorizontalFlip(), V.Compose([V.ToImage(), V.Pad(3)])])]
    ending = [V.SanitizeBoundingBoxes(labels_getter=None), V.ToImage(), V.ToDtype(torch.float32)]
    transforms = V.Compose([*members, *ending])
    dataset = fastpipe.SampleDataset(lambda index: (path, fastpipe.Boxes(boxes)), 1, transforms)
    image = Image.open(path).convert("RGB")
    for seed in range(6):
        seed_all(seed)
        expected = transforms(image, tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(64, 96)))
        end = states()
        seed_all(seed)
        assert flat(dataset[0]) == flat(expected)
        assert states() == end
    assert dataset.pipeline.unplanned == ()


def test_a_standard_transform_is_its_two_halves(photos: Path) -> None:
    path = str(photos / "a" / "0.jpg")
    both = module("torchvision.datasets.vision").StandardTransform(T.Compose(TRAIN), lambda target: target + 1)
    dataset = fastpipe.SampleDataset(lambda index: (path, 4), 1, both)
    assert len(dataset.pipeline.drawn) == 4
    assert repr(dataset.transforms) == repr(both)


def test_explain_says_whose_it_is() -> None:
    found = explain(T.Compose([*TRAIN, T.Lambda(len)]), shape=ImageShape(40, 50))
    assert found.drawn[1] == "torchvision's RandomHorizontalFlip(p=0.5), planned"
    assert found.broken_by is not None
    assert found.broken_by.transform == "Lambda()"
    assert "torchvision's RandomCrop" in explain(V.RandomCrop(9)).drawn[0]
    held = explain(T.RandomApply([T.CenterCrop(3), Corner(4)])).broken_by
    assert held is not None
    assert "changes get_params of RandomCrop" in held.reason


def test_enums_of_both_are_taken_by_both() -> None:
    ours, theirs = fastpipe.transforms, T
    for taking, v2, giving in ((ours, fastpipe.transforms.v2, theirs), (theirs, V, ours)):
        mode, policy = giving.InterpolationMode.BICUBIC, giving.AutoAugmentPolicy.CIFAR10
        for library in (taking, v2):
            image = Image.effect_noise((40, 30), 60).convert("RGB")
            expected = image.resize((13, 9), Image.Resampling.BICUBIC)
            assert library.Resize((9, 13), interpolation=mode)(image).tobytes() == expected.tobytes()
            assert library.AutoAugment(policy)(image).size == (40, 30)


@pytest.mark.slow
def test_nothing_is_imported_for_it() -> None:
    code = (
        "import sys, fastpipe, fastpipe.transforms as T; T.Compose([T.CenterCrop(3), len]).draw; "
        "fastpipe.explain(T.Compose([T.CenterCrop(3), len])); "
        "assert not {'torchvision', 'timm', 'fastpipe.interop.transforms'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- what weights.transforms() gives

P = module("torchvision.transforms._presets")
PRESETS = [
    P.ImageClassification(crop_size=22, resize_size=26),
    P.ImageClassification(crop_size=40, resize_size=33, interpolation=T.InterpolationMode.BICUBIC, antialias=True),
    P.ObjectDetection(),
    P.SemanticSegmentation(resize_size=31),
    P.SemanticSegmentation(resize_size=None, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6)),
]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: type(preset).__name__)
def test_presets_of_weights(photos: Path, preset: Any) -> None:
    assert_same(photos, preset)
    assert_same(photos, T.Compose([T.RandomCrop(30), T.PILToTensor(), preset]))
    preset.resize_size, before = [17], getattr(preset, "resize_size", None)
    assert_same(photos, preset)
    preset.resize_size = before


def test_presets_whose_code_is_another_one_are_foreign() -> None:
    from fastpipe.interop.transforms import torchvision_presets
    from fastpipe.interop.transforms.known_code import by_code

    known, others = by_code(entry._replace(fingerprint="other") for entry in torchvision_presets.ENTRIES)
    assert not known
    assert P.ObjectDetection in others
    assert not drawable(P.VideoClassification(crop_size=(9, 9), resize_size=(12, 12)))
