"""`MultiView` with foreign members: what calling the transforms on Pillow's image gives, with as little decoded."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision_here
from PIL import Image, ImageDraw, ImageOps
from recipe_conformance import Blur, flat, seed_all, states, write_photos

import fastpipe
from fastpipe import transforms as T
from fastpipe.pillow.lazy_source import LazySource
from fastpipe.program import encoded_image
from fastpipe.program.core_job import Encoded

theirs = torchvision_here.module("torchvision")
V1, V2 = theirs.transforms, torchvision_here.module("torchvision.transforms.v2")
END = [V1.ToTensor(), V1.Normalize([0.5] * 3, [0.2] * 3)]


def solarize(image: Any) -> Any:
    return ImageOps.solarize(image) if torch.rand(1) < 0.5 else image


def scribble(image: Any) -> Any:
    """Changes the image that it is given, as no transform should."""
    ImageDraw.Draw(image).line((0, 0, 20, 20), fill=(255, 0, 0), width=3)
    return image


def view(module: Any, size: int, *behind: Any, end: Any = END, front: Any = ()) -> Any:
    jitter = module.RandomApply([module.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8)
    crop = module.RandomResizedCrop(size, interpolation=module.InterpolationMode.BICUBIC)
    return module.Compose([*front, crop, module.RandomHorizontalFlip(), jitter, *behind, *end])


V2_END = [V2.ToImage(), V2.ToDtype(torch.float32, scale=True)]
VIEWS: dict[str, tuple[list[Any], list[int]]] = {
    "DINO": ([view(V1, 40, Blur(1.0)), view(V1, 40, Blur(0.1), solarize), view(V1, 16, Blur(0.5))], [1, 1, 8]),
    "ours": ([view(T, 40, Blur(1.0)), view(T, 24)], [1, 2]),
    "v2": ([view(V2, 40, Blur(1.0), end=V2_END), view(V1, 40)], [1, 1]),
    "foreign in front": ([view(V1, 24), view(V1, 24, front=[Blur(1.0)]), view(V1, 24)], [1, 1, 1]),
    "changed in place": ([view(V1, 24), scribble, view(V1, 24)], [1, 1, 1]),
    "foreign alone": ([solarize, view(V1, 24), Blur(1.0)], [1, 1, 1]),
    "images": ([V1.Compose([V1.RandomCrop(20), solarize]), V1.Compose([V1.CenterCrop(30), Blur(1.0)])], [2, 2]),
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("views"))


def called(transforms: list[Any], counts: list[int]) -> Callable[[Any], list[Any]]:
    return lambda image: [one(image) for one, count in zip(transforms, counts, strict=True) for _ in range(count)]


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_those_of_the_calls(photos: Path, name: str):
    transforms, counts = VIEWS[name]
    results = []
    for kind, transform in (
        (theirs.datasets.ImageFolder, called(transforms, counts)),
        (fastpipe.ImageFolder, fastpipe.MultiView(transforms, counts)),
        (theirs.datasets.ImageFolder, fastpipe.MultiView(transforms, counts)),
    ):
        dataset = kind(str(photos), transform)
        seed_all(5)
        results.append(([flat(dataset[index]) for index in range(len(dataset))], states()))
    for other in results[1:]:
        for number, (one, expected) in enumerate(zip(other[0], results[0][0], strict=True)):
            assert one == expected, number
        assert other[1] == results[0][1]


def test_a_seed_repeats_and_changes_are_seen(photos: Path):
    transforms, counts = VIEWS["DINO"]
    views = fastpipe.MultiView(transforms, counts)
    dataset = fastpipe.ImageFolder(photos, views, seed=3)
    first = flat(dataset[1])
    assert flat(dataset[1]) == first
    views.transforms = [view(V1, 8, solarize)] * 3
    assert [tuple(one.shape) for one in dataset[1][0]] == [(3, 8, 8)] * 10
    assert set(vars(pickle.loads(pickle.dumps(fastpipe.MultiView(view(T, 8)))))) == set(vars(fastpipe.MultiView(abs)))
    assert "_composes" not in vars(copy.copy(views))


class Decoded:
    """Counts what is decoded of a file, in parts and as a whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts = self.whole = 0
        part, whole = encoded_image.decode_by_core, LazySource.decode

        def from_file(*given: Any, **options: Any) -> Any:
            self.parts += isinstance(options["encoded"], Encoded)
            return part(*given, **options)

        def decode_whole(source: LazySource) -> Any:
            self.whole += 1
            self.parts -= 1
            return whole(source)

        monkeypatch.setattr(encoded_image, "decode_by_core", from_file)
        monkeypatch.setattr(LazySource, "decode", decode_whole)


def crops(*boxes: tuple[int, int, int, int]) -> list[Any]:
    """Views of some boxes, each with a foreign member behind it."""
    return [V1.Compose([lambda image, box=box: V1.functional.crop(image, *box), *END]) for box in boxes]


@pytest.mark.needs_core
@pytest.mark.parametrize(
    ("boxes", "parts", "whole"),
    [
        ([(0, 0, 20, 20), (5, 5, 20, 20)], 2, 0),  # small ones: each alone
        ([(0, 0, 200, 200), (5, 5, 190, 190)], 0, 1),  # large ones: at once
        ([(100, 100, 60, 60)] * 10, 0, 1),  # many
        ([(0, 0, 20, 20), (0, 0, 180, 180)], 2, 0),  # the last one, when little was decoded before it
    ],
)
def test_the_least_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boxes: list[Any], parts: int, whole: int
):
    import corpus

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(corpus.jpeg(200, 200))
    decoded = Decoded(monkeypatch)
    views = fastpipe.ImageFolder(tmp_path, fastpipe.MultiView(crops(*boxes)))[0][0]
    assert (decoded.parts, decoded.whole) == (parts, whole)
    with Image.open(tmp_path / "a" / "1.jpg") as image:
        expected = [one(image.convert("RGB")) for one in crops(*boxes)]
    assert all(map(torch.equal, views, expected))


def test_explain_says_that_the_views_are_called(photos: Path):
    transforms, counts = VIEWS["DINO"]
    text = " ".join(str(fastpipe.explain(fastpipe.ImageFolder(photos, fastpipe.MultiView(transforms, counts)))).split())
    assert "the part that a transform looks at, when it does" in text
    assert "MultiView(…) is called with each image" in text
