"""Callables of the user's among torchvision's transforms: called with an image without pixels; the rest is planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from interop.transforms.torchvision_pipelines import T, V
from PIL import Image
from recipe_conformance import assert_same, flat, run, seed_all, states
from torchvision_here import torchvision

import fastpipe
from fastpipe import core
from fastpipe.rng import keyed_globals, sample_key
from fastpipe.transforms._base import drawable

TRAIN = [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.4], [0.2])]


class MaybeConvertMode:
    """open_clip's."""

    def __init__(self, mode: str = "RGB") -> None:
        self.mode = mode

    def __call__(self, image: Any) -> Any:
        return image if image.mode == self.mode else image.convert(self.mode)


def _convert_to_rgb(image: Any) -> Any:
    if isinstance(image, Image.Image):
        image = image.convert("RGB")
    return image


class Counting:
    count = 0

    def __call__(self, image: Any) -> Any:
        self.count += 1
        return image.convert("RGB")


CONVERTS = [MaybeConvertMode(), _convert_to_rgb, lambda image: image.convert("RGB"), T.Lambda(_convert_to_rgb)]
CHANGES = [MaybeConvertMode("L"), Counting(), lambda image: image.convert("L"), lambda image: image.rotate(3)]


@pytest.mark.parametrize("number", range(len(CONVERTS + CHANGES)))
def test_what_nobody_knows_is_called_and_the_rest_is_planned(photos: Path, number: int) -> None:
    unknown = (CONVERTS + CHANGES)[number]
    assert not drawable(unknown)
    assert getattr(unknown, "count", 0) == 0
    for seed in range(3):
        assert_same(photos, T.Compose([unknown, TRAIN[0], TRAIN[2]]), seed, drawn=False)
        assert_same(photos, T.Compose([TRAIN[0], unknown, *TRAIN[1:3]]), seed, drawn=False)
        assert_same(photos, V.Compose([unknown, V.RandomCrop(20), unknown, V.ToImage()]), seed, drawn=False)
    gray = Image.open(photos / "b" / "gray.jpg")
    transform = T.Compose([T.RandomCrop(20), unknown, T.ToTensor()])
    seed_all(1)
    expected = flat(transform(gray)), states()
    seed_all(1)
    assert (flat(fastpipe.transforms.Compose([transform])(gray)), states()) == expected


def test_what_nobody_knows_gets_an_image_without_pixels(photos: Path) -> None:
    seen: list[Any] = []

    def note(image: Any) -> Any:
        seen.append((fastpipe.is_pending(image), image.size))
        return image

    transform = T.Compose([T.Resize(30), note, T.RandomCrop(20), note, T.ToTensor(), note])
    path = str(photos / "a" / "0.jpg")
    with Image.open(path) as image:
        resized = T.Resize(30)(image).size
    made = fastpipe.ImageList(([path], [0]), transform=transform)[0]
    assert [size for _, size in seen[:2]] == [resized, (20, 20)]
    if core.available():
        assert [pending for pending, _ in seen] == [True, True, False]
    assert isinstance(made[0], torch.Tensor)


def test_the_key_s_numbers_go_on_where_what_is_planned_ends(photos: Path) -> None:
    transform = T.Compose([T.RandomCrop(20), lambda image: image, T.RandomHorizontalFlip(), T.ToTensor()])
    dataset = fastpipe.ImageFolder(photos, transform, seed=5)
    theirs = torchvision.datasets.ImageFolder(str(photos), transform)
    before = states()
    for index in range(len(dataset)):
        with keyed_globals(sample_key(5, 0, index)):
            expected = flat(theirs[index])
        assert flat(dataset[index]) == expected
    assert flat(dataset.batch(range(len(dataset)))) == flat([dataset[index] for index in range(len(dataset))])
    recipe = dataset.recipe(2)
    assert flat(dataset.replay(recipe)) == flat(dataset[2])
    assert states() == before


def test_a_mode_that_changes_is_seen(photos: Path) -> None:
    converts = MaybeConvertMode()
    transform = T.Compose([T.RandomCrop(20), converts, T.ToTensor()])
    dataset = fastpipe.ImageFolder(photos, transform)
    before = run(dataset, 1)
    converts.mode = "L"
    after = run(dataset, 1)
    assert after == run(torchvision.datasets.ImageFolder(str(photos), transform), 1)
    assert after != before
