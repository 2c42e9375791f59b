"""Whole pipelines of albumentations that are drawn before an image is decoded: each held to albumentations itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interop.albumentations.pipelines import CASES, A, ToTensorV2, states
from PIL import Image
from recipe_conformance import flat

import fastpipe
from fastpipe import transforms as T
from fastpipe.interop.albumentations import pixel_calls
from fastpipe.interop.albumentations.drawing import is_drawn_ahead

pytestmark = pytest.mark.needs_core

NEED_BOXES = {A.AtLeastOneBBoxRandomCrop, A.BBoxSafeRandomCrop, A.RandomCropNearBBox, A.RandomSizedBBoxSafeCrop}
MOVES = [make for kind, makes in CASES.items() if kind not in NEED_BOXES for make in makes]
PIXELS: dict[str, list[Callable[[], Any]]] = {
    "Affine": [lambda: A.Affine(rotate=(-30, 30), shear=5, p=1), lambda: A.Affine(scale=0.7, fit_output=True, p=1)],
    "CoarseDropout": [lambda: A.CoarseDropout(p=1), lambda: A.CoarseDropout(fill="random", p=1)],
    "ColorJitter": [lambda: A.ColorJitter(), lambda: A.ColorJitter(0, 0.3, 0, 0.1, p=1)],
    "GaussianBlur": [lambda: A.GaussianBlur(p=1)],
    "HueSaturationValue": [lambda: A.HueSaturationValue(p=1)],
    "RandomBrightnessContrast": [lambda: A.RandomBrightnessContrast(), lambda: A.RandomBrightnessContrast(p=1)],
    "RandomGamma": [lambda: A.RandomGamma(p=1)],
    "Rotate": [lambda: A.Rotate(p=1), lambda: A.Rotate(15, border_mode=2, p=1)],
    "ShiftScaleRotate": [lambda: A.ShiftScaleRotate(p=1)],
}
MAKES = [*MOVES, *(make for makes in PIXELS.values() for make in makes)]


def loaded(path: Any) -> np.ndarray:
    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of odd sizes, in colour and gray, of one pixel, with EXIF's orientation, and of formats the core lacks."""
    folder = tmp_path_factory.mktemp("drawn") / "a"
    folder.mkdir()
    for number, (height, width) in enumerate([(61, 97), (96, 64), (1, 1), (2, 90)]):
        (folder / f"{number}.jpg").write_bytes(corpus.jpeg(height, width, seed=number))
    (folder / "gray.jpg").write_bytes(corpus.jpeg(70, 81, "gray"))
    (folder / "photo.png").write_bytes(corpus.save(corpus.photo(55, 83, 9), "PNG"))
    (folder / "photo.bmp").write_bytes(corpus.save(corpus.photo(45, 53, 2), "BMP"))
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(corpus.photo(40, 64, 3)).save(folder / "turned.jpg", exif=turned)
    return folder.parent


def outcome(call: Callable[[], Any]) -> Any:
    try:
        made = call()
    except Exception as error:
        return type(error)
    return tuple(made.shape), made.dtype, made.numpy().tobytes()


def assert_same(root: Path, make: Callable[[], Any], times: int = 1) -> None:
    ours, theirs = make(), make()
    dataset = fastpipe.ImageFolder(root, ours)
    assert is_drawn_ahead(ours)
    for index, (path, _) in [*enumerate(dataset.samples)] * times:
        found = outcome(lambda: dataset[index][0])  # noqa: B023
        expected = outcome(lambda: theirs(image=loaded(path))["image"])  # noqa: B023
        assert found == expected, (path, ours)
        assert states(ours) == states(theirs), (path, ours)


@pytest.mark.parametrize("tail", ["floats", "bytes"])
@pytest.mark.parametrize("name", PIXELS)
def test_each_class_that_changes_pixels(files: Path, name: str, tail: str) -> None:
    assert pixel_calls.is_known(getattr(A, name))
    end = [A.Normalize()] if tail == "floats" else []
    for make in PIXELS[name]:
        assert_same(files, lambda: A.Compose([make(), *end, ToTensorV2()], seed=3))  # noqa: B023
        around = (lambda: A.Resize(30, 24), A.HorizontalFlip, make, A.VerticalFlip)
        assert_same(files, lambda: A.Compose([*(one() for one in around), *end, ToTensorV2()], seed=4))  # noqa: B023


def test_each_known_class_has_a_case() -> None:
    assert PIXELS.keys() == pixel_calls.CLASSES


@st.composite
def pipelines(draw: Any) -> Any:
    """Makers of a `Compose` of a few members, some of them in containers."""
    made = []
    for _ in range(draw(st.integers(0, 4))):
        makers = draw(st.lists(st.sampled_from(MAKES), min_size=1, max_size=3))
        made.append((draw(st.sampled_from(["", "", "", "OneOf", "Sequential", "SomeOf", "Compose"])), makers))
    mean, std = draw(st.tuples(*[st.floats(0.125, 2, width=32)] * 6).map(lambda six: (six[:3], six[3:])))
    ends = st.sampled_from([[], [lambda: A.Normalize()], [lambda: A.Normalize(mean, std, 1.0)]])
    end, seed = draw(ends), draw(st.integers(0, 99))

    def make() -> Any:
        members = []
        for container, makers in made:
            inner = [one() for one in makers]
            members += [getattr(A, container)(inner, p=0.7)] if container else inner[:1]
        return A.Compose([*members, *(one() for one in end), ToTensorV2()], seed=seed)

    return make


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pipelines())
def test_any_pipeline(files: Path, make: Callable[[], Any]) -> None:
    assert_same(files, make)


def test_batches_and_workers(photos: Path) -> None:
    """One tensor for a batch: of the same values, in torch's loader and in fastpipe's, also in a worker."""

    def make() -> Any:
        members = [A.RandomResizedCrop((24, 20)), A.HorizontalFlip(), A.ColorJitter(), A.Normalize(), ToTensorV2()]
        return A.Compose(members, seed=7)

    for loader, options in [
        (torch.utils.data.DataLoader, {}),
        (fastpipe.DataLoader, {}),
        (fastpipe.DataLoader, {"dtype": torch.float16, "memory_format": torch.channels_last}),
    ]:
        dataset, theirs = fastpipe.ImageFolder(photos, make()), make()
        expected = [theirs(image=loaded(path))["image"] for path, _ in dataset.samples]
        found = torch.cat([images for images, _ in loader(dataset, batch_size=3, **options)])
        assert torch.equal(found, torch.stack(expected).to(found.dtype))


def test_the_orientation_is_applied_first(files: Path) -> None:
    def make() -> Any:
        return A.Compose([A.Crop(3, 5, 30, 33), A.Transpose(p=1), A.Normalize(), ToTensorV2()])

    dataset = fastpipe.ImageFolder(files, make(), apply_exif=True)
    index = next(number for number, (path, _) in enumerate(dataset.samples) if path.endswith("turned.jpg"))
    whole = np.asarray(fastpipe.ImageFolder(files, apply_exif=True)[index][0])
    assert torch.equal(dataset[index][0], make()(image=whole)["image"])


def test_a_datasets_seed_decides(photos: Path) -> None:
    def make() -> Any:
        return A.Compose([A.RandomResizedCrop((24, 20)), A.ColorJitter(), A.Normalize(), ToTensorV2()])

    dataset = fastpipe.ImageFolder(photos, make(), seed=3)
    wrapped = fastpipe.ImageFolder(photos, T.Albumentations(make()), seed=3)
    for index in (2, 0, 3, 0):
        assert torch.equal(dataset[index][0], wrapped[index][0])
    batch, _ = next(iter(fastpipe.DataLoader(dataset, batch_size=4)))
    for index in range(4):
        assert torch.equal(batch[index], wrapped[index][0])
        recipe = dataset.recipe(index)
        assert torch.equal(dataset.replay(recipe, index)[0], wrapped[index][0])


class _OwnFlip(A.HorizontalFlip):
    def apply(self, img: Any, **params: Any) -> Any:
        return 255 - super().apply(img, **params)


class _OwnCompose(A.Compose):
    pass


def _patched() -> Any:
    flip = A.HorizontalFlip(p=1)
    flip._key2func["image"] = lambda image, **params: image * 0
    return flip


@pytest.mark.parametrize(
    "make",
    [
        lambda: A.Compose([A.HorizontalFlip(), A.Normalize()]),
        lambda: A.Compose([A.Normalize(p=0.5), ToTensorV2()]),
        lambda: A.Compose([A.Normalize(), ToTensorV2(p=0.5)]),
        lambda: A.Compose([A.Normalize(), ToTensorV2()], p=0.5),
        lambda: A.Compose([A.Normalize(normalization="image"), ToTensorV2()]),
        lambda: A.Compose([A.Normalize(0.5, 0.5), ToTensorV2()]),
        lambda: A.Compose([A.Normalize(), A.HorizontalFlip(), ToTensorV2()]),
        lambda: A.Compose([A.RandomBrightnessContrast(brightness_by_max=False), ToTensorV2()]),
        lambda: A.Compose([A.ToGray(1), ToTensorV2()]),
        lambda: A.Compose([A.GaussNoise(), ToTensorV2()]),
        lambda: A.Compose([A.OneOf([A.HorizontalFlip(), A.CLAHE()]), ToTensorV2()]),
        lambda: A.Compose([_OwnFlip(p=1), ToTensorV2()]),
        lambda: A.Compose([_patched(), ToTensorV2()]),
        lambda: _OwnCompose([A.HorizontalFlip(), ToTensorV2()]),
        lambda: A.ReplayCompose([A.HorizontalFlip(), ToTensorV2()]),
        lambda: A.Compose([A.HorizontalFlip(), ToTensorV2()], A.BboxParams("coco", label_fields=["labels"])),
    ],
)
def test_what_needs_pixels_is_called_on_them(photos: Path, make: Any) -> None:
    ours, theirs = make(), make()
    assert not is_drawn_ahead(ours)
    for one in (ours, theirs):
        one.set_random_seed(1)
    dataset = fastpipe.ImageFolder(photos, ours)
    for index in range(3):
        found, expected = (
            outcome_of(call)
            for call in (lambda: dataset[index][0], lambda: theirs(image=loaded(dataset.samples[index][0]))["image"])  # noqa: B023
        )
        assert found == expected


def outcome_of(call: Callable[[], Any]) -> Any:
    try:
        return flat(call())
    except Exception as error:
        return type(error)


def test_members_may_change(photos: Path) -> None:
    """The next sample is made with the members that there are then."""
    ours, theirs = (A.Compose([A.CenterCrop(20, 20), A.Normalize(), ToTensorV2()], seed=1) for _ in range(2))
    dataset = fastpipe.ImageFolder(photos, ours)
    path = dataset.samples[0][0]
    for change in (
        lambda one: None,
        lambda one: one.transforms.insert(1, A.HorizontalFlip(p=1)),
        lambda one: one.transforms.insert(1, A.CLAHE(p=1)),
        lambda one: one.transforms.pop(1),
        lambda one: setattr(one.transforms[0], "height", 11),
    ):
        for one in (ours, theirs):
            change(one)
        assert torch.equal(dataset[0][0], theirs(image=loaded(path))["image"])


def test_for_a_device_samples_are_floats(photos: Path) -> None:
    """A conversion that the receiver can't compute isn't left to it."""
    transform = A.Compose([A.CenterCrop(20, 20), A.Normalize(), ToTensorV2()])
    dataset = fastpipe.ImageFolder(photos, transform)
    made = dataset.batch([0, 1], fastpipe.executor.BatchSpec(defer=True))
    assert isinstance(made, list)
    for index, (image, _) in enumerate(made):
        assert torch.equal(image, transform(image=loaded(dataset.samples[index][0]))["image"])
