"""Code of one's own that a dataset calls gets lazy images; samples, errors and bad files are as with decoded ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from torch.utils.data import ConcatDataset, Subset
from torchvision_here import torchvision

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import DecodeError
from fastpipe.pillow.lazy_image import LazyImage

TV = torchvision.transforms
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
BAD = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lazy")
    files = corpus.files()
    names = ["jpeg-420", "jpeg-gray", "png-rgb", "png-palette", "jpeg-cmyk", "jpeg-progressive", "gif", "jpeg-exif-6"]
    for number, name in enumerate(names):
        path = root / "ab"[number % 2] / f"{number}.{name.partition('-')[0]}".replace("jpeg", "jpg")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(files[name])
    return root


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, one of which is cut off: its header doesn't tell."""
    root = tmp_path_factory.mktemp("spoiled")
    for number in range(8):
        data = corpus.jpeg(97, 131, "420", seed=number)
        path = root / "c" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data[: len(data) // 2] if number == BAD else data)
    return root


class Wrapper:
    """A preset of one's own, as vision's references have them."""

    def __init__(self, T: Any) -> None:
        self.seen: list[type] = []
        self.inner = T.Compose(
            [T.RandomResizedCrop(40), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
        )

    def __call__(self, image: Any) -> Any:
        self.seen.append(type(image))
        return self.inner(image)


class ManyCrops:
    """Two large crops and four small ones, blurred by Pillow, as DINO has them."""

    def __init__(self, T: Any) -> None:
        self.large = T.Compose(
            [T.RandomResizedCrop(48, (0.4, 1), interpolation=Image.BICUBIC), T.RandomHorizontalFlip()]
        )
        self.small = T.Compose(
            [T.RandomResizedCrop(24, (0.05, 0.4), interpolation=Image.BICUBIC), T.RandomGrayscale(0.3)]
        )
        self.tensor = T.Compose([T.ColorJitter(0.4, 0.4, 0.2, 0.1), T.ToTensor()])

    def __call__(self, image: Any) -> list[Any]:
        large = [self.large(image).filter(ImageFilter.GaussianBlur(radius)) for radius in (0.4, 1.3)]
        return [self.tensor(one) for one in (*large, *(self.small(image) for _ in range(4)))]


def seeded(action: Any) -> Any:
    import random

    torch.manual_seed(7)
    random.seed(7)
    return action()


def same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if isinstance(ours, torch.Tensor):
        assert torch.equal(ours, theirs)
    elif isinstance(ours, Image.Image):
        assert (ours.mode, ours.size, ours.tobytes()) == (theirs.mode, theirs.size, theirs.tobytes())
    elif isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif isinstance(ours, dict):
        same([*ours.items()], [*theirs.items()])
    else:
        assert ours == theirs


@pytest.mark.parametrize("make", [Wrapper, ManyCrops])
@pytest.mark.needs_core
def test_wrappers_get_lazy_images_and_give_torchvisions_samples(folder: Path, make: Any) -> None:
    theirs = torchvision.datasets.ImageFolder(folder, make(TV))
    ours = fastpipe.ImageFolder(folder, make(T))
    samples = seeded(lambda: [ours[index] for index in range(len(ours))])
    same(samples, seeded(lambda: [theirs[index] for index in range(len(theirs))]))
    if make is Wrapper:
        assert sum(kind is LazyImage for kind in ours.transform.seen) == 6  # but the CMYK, and the GIF


def test_torchvisions_own_transforms_get_them_too(folder: Path) -> None:
    theirs = torchvision.datasets.ImageFolder(folder, Wrapper(TV))
    ours = fastpipe.ImageFolder(folder, Wrapper(TV))
    samples = seeded(lambda: [ours[index] for index in range(len(ours))])
    same(samples, seeded(lambda: [theirs[index] for index in range(len(theirs))]))


def cropped(image: Any) -> Any:
    return image.crop((3, 4, 30, 35)).transpose(0)


def test_no_sample_leaves_with_a_lazy_image(folder: Path) -> None:
    theirs = torchvision.datasets.ImageFolder(folder, cropped)
    ours = fastpipe.ImageFolder(folder, cropped)
    made = [ours[index] for index in range(len(ours))]
    assert {type(image) for image, _ in made} == {Image.Image}
    same(made, [theirs[index] for index in range(len(theirs))])
    for loader in (fastpipe.DataLoader, torch.utils.data.DataLoader):
        (batch,) = loader(ours, batch_size=len(ours), collate_fn=list)
        assert {type(image) for image, _ in batch} == {Image.Image}
        same(batch, made)
    assert type(fastpipe.ImageFolder(folder)[0][0]) is Image.Image


def pair(image: Any, target: Any) -> Any:
    """A function on image and target, as detection's references have it."""
    image = T.functional.resize(image, [50])
    image = T.functional.hflip(T.functional.crop(image, 2, 3, 40, 40))
    return {"image": image, "list": [image]}, target


def derived(base: Any) -> Any:
    class Own(base):
        def __getitem__(self, index: int) -> Any:
            image, target = super().__getitem__(index)
            self.seen.append(type(image))
            return pair(image, target)

    Own.seen = []
    return Own


@pytest.mark.needs_core
def test_a_derived_class_gets_lazy_images(folder: Path) -> None:
    theirs = derived(torchvision.datasets.ImageFolder)(folder)
    ours = derived(fastpipe.ImageFolder)(folder)
    assert ours.__getitem__.__name__ == "__getitem__"
    made = [ours[index] for index in range(len(ours))]
    assert sum(kind is LazyImage for kind in ours.seen) == 6
    same(made, [theirs[index] for index in range(len(theirs))])
    assert {type(part["image"]) for part, _ in made} == {Image.Image}
    expected = [theirs[index] for index in range(4)]
    for wrapped in (Subset(ours, range(4)), ConcatDataset([ours])):
        for loader in (fastpipe.DataLoader, torch.utils.data.DataLoader):
            batch = next(iter(loader(wrapped, batch_size=4, collate_fn=list)))
            same(batch, expected)
            assert {type(part["list"][0]) for part, _ in batch} == {Image.Image}


@pytest.mark.needs_core
def test_a_class_derived_from_a_derived_one_and_a_mixin(folder: Path) -> None:
    class Mixed:
        def __getitem__(self, index: int) -> Any:
            image, target = super().__getitem__(index)
            return type(image), image, target

    class Own(Mixed, fastpipe.ImageFolder):
        pass

    class Further(Own):
        def __getitem__(self, index: int) -> Any:
            kind, image, target = super().__getitem__(index)
            return kind, type(image), image, target

    assert [*map(type, Own(folder)[0][1:])] == [Image.Image, int]
    kind, behind, image, _ = Further(folder)[0]
    assert [one is LazyImage for one in (kind, behind, type(image))] == [True, True, False]
    assert type(super(Own, Own(folder)).__getitem__) is not None
    assert type(fastpipe.ImageFolder.__getitem__(Own(folder), 0)[0]) is Image.Image


@pytest.mark.needs_core
def test_other_readers_and_orientation(folder: Path) -> None:
    for options in ({"reader": "pil"}, {"apply_exif": True}, {"seed": 3}, {"threads": 2}):
        given = []

        def keep(image: Any, given: Any = given) -> Any:
            given.append(type(image))
            return image.resize((20, 30))

        plain = fastpipe.ImageFolder(folder, **options)
        ours = fastpipe.ImageFolder(folder, keep, **options)
        for index in range(len(ours)):
            same(ours[index], (plain[index][0].resize((20, 30)), plain[index][1]))
        assert any(kind is LazyImage for kind in given) is ("reader" not in options)


class Sized:
    def __call__(self, image: Any) -> Any:
        return np.array(image.resize((20, 20)))


def test_a_bad_file_is_told_as_ever(spoiled: Path) -> None:
    for ours in (fastpipe.ImageFolder(spoiled, Sized()), derived(fastpipe.ImageFolder)(spoiled)):
        with pytest.raises(DecodeError, match=rf"{BAD}\.jpg") as found:
            ours[BAD]
        assert found.value.index == BAD
        assert ours[BAD + 1] is not None
    with pytest.raises(DecodeError, match=rf"{BAD}\.jpg"):
        fastpipe.ImageFolder(spoiled, Sized()).__getitems__(list(range(8)))


@pytest.mark.parametrize("on_error", ["skip", "replace"])
@pytest.mark.parametrize("seed", [None, 5])
def test_a_bad_file_is_dealt_with_by_the_policy(spoiled: Path, on_error: Any, seed: Any, tmp_path: Path) -> None:
    log = tmp_path / "bad.csv"
    options = {"on_error": on_error, "seed": seed, "bad_files_log": log, "max_bad_fraction": 1.0}
    ours = fastpipe.ImageFolder(spoiled, Sized(), **options)
    whole = fastpipe.ImageFolder(spoiled, **{**options, "bad_files_log": None})
    with pytest.warns(UserWarning, match=rf"{BAD}\.jpg"):
        samples = ours.__getitems__(list(range(8)))
    with pytest.warns(UserWarning, match=rf"{BAD}\.jpg"):
        expected = [(Sized()(image), target) for image, target in whole.__getitems__(list(range(8)))]
    assert len(samples) == (7 if on_error == "skip" else 8)
    for one, other in zip(samples, expected, strict=True):
        assert np.array_equal(one[0], other[0])
    counts = ours.bad_files
    assert (counts.skipped, counts.replaced) == ((1, 0) if on_error == "skip" else (0, 1))
    assert log.read_text().count(f"{BAD}.jpg") == 1
    if on_error == "skip":
        assert ours[BAD] is None
    with pytest.warns(UserWarning, match="1 of the 8 samples"):
        batches = list(fastpipe.DataLoader(ours, batch_size=4))
    assert sum(len(images) for images, _ in batches) == len(samples)


def test_an_error_of_the_users_names_the_sample(folder: Path) -> None:
    def fails(image: Any) -> Any:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fastpipe.ImageFolder(folder, fails, on_error="skip")[0]


def test_seeded_samples_repeat(folder: Path) -> None:
    ours = fastpipe.ImageFolder(folder, Wrapper(T), seed=4)
    first = [ours[index] for index in range(len(ours))]
    same([ours[index] for index in reversed(range(len(ours)))][::-1], first)
    loaded = list(fastpipe.DataLoader(ours, batch_size=None, num_workers=2))
    for one, other in zip(loaded, first, strict=True):
        assert torch.equal(one[0], other[0])


@pytest.mark.needs_core
def test_a_sample_dataset_with_a_function(folder: Path) -> None:
    paths = sorted(map(str, folder.rglob("*.*")))
    given = []

    def together(image: Any, target: Any) -> Any:
        given.append(type(image))
        return pair(image, target)

    ours = fastpipe.SampleDataset(lambda index: (paths[index], index), len(paths), together)
    for index, path in enumerate(paths):
        same(ours[index], pair(Image.open(path).convert("RGB"), index))
    assert any(kind is LazyImage for kind in given)
