"""v2 in a dataset of fastpipe: drawn before the image is decoded, and the same as torchvision to the bit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision.transforms.v2 as theirs
from PIL import Image
from torchvision import tv_tensors
from torchvision.datasets import ImageFolder as TheirFolder
from v2_pipelines import MEAN, STD, pipeline, same, write_photos

import fastpipe
from fastpipe import transforms as v1
from fastpipe.ops import TensorShape
from fastpipe.rng import drawing
from fastpipe.rng.torch_patch import torch_draws_from
from fastpipe.transforms import v2
from fastpipe.transforms._base import drawable
from fastpipe.transforms.v2._draws import QUICK
from fastpipe.transforms.v2._planned import steps_of
from fastpipe.types import Generators, ImageShape


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"), (101, 99, "420"))


def _sample(folder: Any, module: Any, root: Path, seed: int, **options: Any) -> Any:
    torch.manual_seed(seed)
    try:
        image, _ = folder(root, module.Compose(pipeline(module, seed, **options)))[seed % 6]
    except ValueError as error:
        return ValueError, str(error).splitlines()[0]
    return image, torch.get_rng_state()


@pytest.mark.parametrize("seed", range(60))
def test_random_pipelines(root: Path, seed: int) -> None:
    assert same(_sample(fastpipe.ImageFolder, v2, root, seed), _sample(TheirFolder, theirs, root, seed))


@pytest.mark.parametrize("seed", range(12))
def test_batches_equal_samples(root: Path, seed: int) -> None:
    """With a seed, in one tensor, on two threads, and deferred."""
    transform = v2.Compose(pipeline(v2, seed, exact=True))
    whole = fastpipe.ImageFolder(root, transform, seed=seed)
    expected = torch.stack([torch.as_tensor(image) for image, _ in (whole[index] for index in range(6))])
    for options in ({}, {"threads": 2}, {"device": "cpu"}):
        dataset = fastpipe.ImageFolder(root, transform, seed=seed)
        images, _ = next(iter(fastpipe.DataLoader(dataset, batch_size=6, **options)))
        assert type(images) is torch.Tensor
        assert torch.equal(images, expected)


def test_keyed_draws_leave_the_global_generators_alone(root: Path) -> None:
    for seed in range(25):
        dataset = fastpipe.ImageFolder(root, v2.Compose(pipeline(v2, seed)), seed=3)
        state = torch.get_rng_state()
        try:
            first = dataset[1][0]
        except ValueError:
            continue
        if not dataset.pipeline.unplanned:
            assert torch.equal(torch.get_rng_state(), state)
        assert same(first, dataset[1][0])


def _quick() -> Iterator[tuple[Any, str]]:
    yield v2.CenterCrop(20), "pil"
    yield v2.ColorJitter(0.3, 0.2, 0.1, 0.4), "pil"
    yield v2.ColorJitter(), "pil"
    yield v2.Normalize(MEAN, STD), "float"
    yield v2.PILToTensor(), "pil"
    yield v2.RandAugment(3, 12), "pil"
    yield v2.RandAugment(2, 30, 31, v2.InterpolationMode.BILINEAR, (1, 2, 3)), "pil"
    yield v2.RandomCrop((20, 31)), "pil"
    yield v2.RandomCrop((20, 31), padding=3), "pil"
    yield v2.RandomErasing(p=0.8), "float"
    yield v2.RandomErasing(p=0.8, value=(1, 2, 3)), "tensor"
    yield v2.RandomHorizontalFlip(), "pil"
    yield v2.RandomHorizontalFlip(0.2), "tensor"
    yield v2.RandomVerticalFlip(), "pil"
    yield v2.RandomResizedCrop((20, 30)), "pil"
    yield v2.RandomResizedCrop(20, (0.5, 0.9), (0.2, 0.3), v2.InterpolationMode.BICUBIC), "pil"
    yield v2.Resize(17), "pil"
    yield v2.Resize((40, 50)), "pil"
    yield v2.ToDtype(torch.float32, scale=True), "tensor"
    yield v2.ToDtype(torch.float32, scale=True), "float"
    yield v2.ToImage(), "pil"
    yield v2.ToPureTensor(), "tensor"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield v2.ToTensor(), "pil"
    yield v2.TrivialAugmentWide(), "pil"
    yield v2.TrivialAugmentWide(20, v2.InterpolationMode.BILINEAR, 7), "pil"


@pytest.mark.parametrize(("transform", "stage"), list(_quick()), ids=lambda value: type(value).__name__)
def test_quick_draws_are_torchvisions(transform: Any, stage: str) -> None:
    """The same steps and the same state behind as torchvision's own code."""
    assert type(transform).__mro__[2] in QUICK
    for seed in range(30):
        shape = ImageShape(40 + seed, 50)
        if stage != "pil":
            dtype = torch.uint8 if stage == "tensor" else torch.float32
            shape = TensorShape.of(shape, dtype, pure=False)
        ours, traced = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
        with drawing(Generators(ours)) as held:
            drawn = transform.draw(shape, held)
        assert drawn == steps_of(transform, shape, Generators(traced))
        assert torch.equal(ours.get_state(), traced.get_state())


def test_every_quick_draw_is_tested() -> None:
    assert {type(transform).__mro__[2] for transform, _ in _quick()} == set(QUICK)


def _some() -> tuple[torch.Tensor, ...]:
    numbers = torch.rand(1), torch.randint(9, ()), torch.randperm(5), torch.multinomial(torch.ones(4), 1)
    return *numbers, torch.empty(2).uniform_(), torch.empty(2).normal_()


def test_torchvision_draws_from_the_generator_that_it_is_given() -> None:
    state = torch.get_rng_state()
    own = torch.Generator().manual_seed(5)
    with torch_draws_from(Generators(own)):
        drawn = (
            torch.rand(1),
            torch.randint(9, ()),
            torch.randperm(5),
            torch.empty(2).uniform_(),
            torch.empty(2).normal_(),
        )
        torch.multinomial(torch.ones(4), 1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(5)
    expected = (
        torch.rand(1),
        torch.randint(9, ()),
        torch.randperm(5),
        torch.empty(2).uniform_(),
        torch.empty(2).normal_(),
    )
    assert all(map(torch.equal, drawn, expected))


def test_a_crop_of_a_tensor_decodes_its_region(root: Path) -> None:
    """torchvision's recommended order, image to tensor first, is decoded by region as well."""
    transform = v2.Compose(
        [v2.ToImage(), v2.RandomHorizontalFlip(1), v2.CenterCrop(16), v2.ToDtype(torch.float32, True)]
    )
    dataset = fastpipe.ImageFolder(root, transform)
    assert "decode  rows" in str(fastpipe.explain(dataset))
    image = dataset[0][0]
    assert isinstance(image, tv_tensors.Image)
    assert same(image, TheirFolder(root, transform)[0][0])


def test_views_of_v2(root: Path) -> None:
    view = v2.Compose([v2.RandomResizedCrop(32), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    torch.manual_seed(0)
    planned = fastpipe.ImageFolder(root, fastpipe.MultiView(view, 3))[0][0]
    torch.manual_seed(0)
    plain = TheirFolder(root, fastpipe.MultiView(view, 3))[0][0]
    assert same(planned, plain)


def test_what_cannot_be_planned_runs_behind_the_plan(root: Path) -> None:
    def noisy(module: Any) -> Any:
        to_float = module.ToDtype(torch.float32, scale=True)
        return module.Compose([module.RandomResizedCrop(40), module.ToImage(), to_float, module.GaussianNoise()])

    for build in (noisy, lambda module: module.Compose([module.RandomCrop(30), module.AugMix(), module.ToImage()])):
        ours, expected = fastpipe.ImageFolder(root, build(v2)), TheirFolder(root, build(theirs))
        assert ours.pipeline.unplanned
        torch.manual_seed(2)
        first = [ours[index][0] for index in range(3)]
        torch.manual_seed(2)
        assert same(first, [expected[index][0] for index in range(3)])


@pytest.mark.parametrize(
    "names", [("PILToTensor", "ToImage"), ("ToTensor", "ToImage"), ("ToImage", "ToPureTensor", "ToImage", "ToImage")]
)
@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
def test_an_image_becomes_a_tensor_more_than_once(root: Path, names: tuple[str, ...]) -> None:
    def chain(module: Any) -> Any:
        return module.Compose([module.CenterCrop(30), *(getattr(module, name)() for name in names), module.Resize(20)])

    assert same(fastpipe.ImageFolder(root, chain(v2))[0][0], TheirFolder(root, chain(theirs))[0][0])
    array = corpus.photo(40, 51)
    assert same(chain(v2)(array), chain(theirs)(Image.fromarray(array)))


_FLOAT = [("ToDtype", torch.float32, True)]


@pytest.mark.parametrize(
    "members",
    [
        [("PILToTensor",), *_FLOAT],
        [("RandomResizedCrop", 24), ("PILToTensor",), *_FLOAT],
        [("PILToTensor",), ("RandomCrop", 30), ("RandomHorizontalFlip", 1.0), *_FLOAT],
        [("ToImage",), ("ToPureTensor",), *_FLOAT],
        [("ToImage",), ("RandomZoomOut", 0, (1.0, 4.0), 1.0), *_FLOAT],
        [("ToImage",), ("CenterCrop", 75), *_FLOAT],
        [("ToImage",), ("RandomChannelPermutation",), *_FLOAT],
        [("ToTensor",), ("ToImage",)],
    ],
    ids=lambda members: " ".join(name for name, *_ in members),
)
@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
def test_noise_falls_on_the_same_pixels(root: Path, members: list[Any]) -> None:
    """It's drawn in memory's order, and torchvision's tensors lie row by row, or plane by plane behind a padding."""

    def chain(module: Any) -> Any:
        chosen = (getattr(module, name)(*given) for name, *given in members)
        return module.Compose([*chosen, module.GaussianNoise()])

    expected = TheirFolder(root, chain(theirs))
    for reader in (None, "pil"):
        ours = fastpipe.ImageFolder(root, chain(v2), reader=reader)
        for index in range(6):
            torch.manual_seed(index)
            found = ours[index][0]
            torch.manual_seed(index)
            assert same(found, expected[index][0])


def test_errors_name_the_classes_that_are_stood_for(root: Path) -> None:
    photo = str(root / "a" / "0.jpg")
    Image.open(photo).convert("L").save(root / "mask.png")
    samples = fastpipe.SampleDataset(lambda _: (photo, fastpipe.MaskFile(root / "mask.png")), 1, v2.AutoAugment())
    with pytest.raises(TypeError, match=r"Inputs of type Mask are not supported by AutoAugment\(\)"):
        samples[0]


class Doubled(v2.RandomHorizontalFlip):
    """A user's own, which calls the library's."""

    def transform(self, inpt: Any, params: Any) -> Any:
        return super().transform(super().transform(inpt, params), params)


class Inverted(v2.RandomHorizontalFlip):
    """A user's own, which takes pixels."""

    def transform(self, inpt: Any, params: Any) -> Any:
        return Image.fromarray(255 - np.asarray(inpt))


def test_subclasses_hooks_and_mixtures(root: Path) -> None:
    doubled = v2.Compose([v2.RandomCrop(20), Doubled(1.0), v2.ToImage()])
    assert not any(map(drawable, (doubled, Doubled(1.0), Inverted(1.0))))
    torch.manual_seed(1)
    expected = TheirFolder(root, doubled)[0][0]
    torch.manual_seed(1)
    assert same(fastpipe.ImageFolder(root, doubled)[0][0], expected)
    hooked = v2.RandomHorizontalFlip(1.0)
    hooked.register_forward_hook(lambda *args: None)
    assert not drawable(hooked)
    assert not drawable(v2.RandomApply([v2.Lambda(lambda image: image)]))
    assert not drawable(v2.RandomApply([v1.RandomHorizontalFlip(1.0)]))
    mixed = fastpipe.ImageFolder(root, v1.Compose([v1.CenterCrop(30), v2.ToImage(), v2.Resize(20)]))
    assert len(mixed.pipeline.drawn) == 1
    assert same(mixed[0][0], TheirFolder(root, mixed.transform)[0][0])


def test_a_threshold_just_above_a_value(root: Path) -> None:
    """torch compares with a float32, Pillow with a double."""
    for first in ("ToImage", "Identity"):
        both = []
        for folder, module in ((fastpipe.ImageFolder, v2), (TheirFolder, theirs)):
            chain = [getattr(module, first)(), module.RandomSolarize(100.000001, p=1), module.ToImage()]
            both.append(folder(root, module.Compose(chain))[0][0])
        assert same(*both)


def test_crops_and_flips_of_pixels_and_of_tensors(root: Path) -> None:
    def chain(module: Any, flip_late: bool = False) -> Any:
        ends = [module.ToImage(), module.ToDtype(torch.float32, scale=True), module.Normalize(MEAN, STD)]
        flips = [module.RandomHorizontalFlip(), module.RandomVerticalFlip(0.3)]
        members = [*ends, *flips] if flip_late else [*flips, *ends]
        return module.Compose([module.RandomResizedCrop((24, 31)), *members])

    for late in (False, True):
        ours, expected = fastpipe.ImageFolder(root, chain(v2, late)), TheirFolder(root, chain(theirs, late))
        for seed in range(20):
            found = []
            for dataset in (ours, expected):
                torch.manual_seed(seed)
                found.append((dataset[seed % 6][0], torch.get_rng_state()))
            assert same(*found)
