"""Code of a user's that asks ``type`` of a tensor: it is found wherever a data set or a function leads."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from PIL.Image import Image as PILImage
from PIL.JpegImagePlugin import JpegImageFile
from plain_and_hooked import assert_as_plain
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, default_collate
from torchvision_here import torchvision

import fastpipe
from fastpipe import is_pending
from fastpipe.hooks.torch.type_calls import type_calls

T = torchvision.transforms


def asks(value: Any) -> bool:
    return type(value) is torch.Tensor


def has_type_attribute(value: Any) -> Any:
    return value.type, value.type(torch.float32), value.device.type


def asks_for_a_name(value: Any) -> bool:
    return type(value).__name__ == "Tensor" and type(value).__module__ == "torch"


def asks_for_a_name_and_more(value: Any) -> bool:
    return type(value).__name__ == "Tensor" and type(value) is torch.Tensor


def asks_for_the_class_of_a_result(value: Any) -> str:
    return type(str(value)).__name__


def compares_attribute(image: Any) -> bool:
    return type(image) == Image.Image  # noqa: E721


def is_one_of_pillows(image: Any) -> bool:
    return isinstance(image, PILImage) and type(image) is not PILImage


def looks_among(image: Any) -> bool:
    return type(image) in (str, PILImage)


def looks_among_files(image: Any) -> bool:
    kinds = (str, bytes)
    return type(image) in (*kinds, JpegImageFile)


def makes_an_image(array: Any) -> Any:
    kind = type(array)
    return Image.fromarray(array) if kind == np.ndarray else array


class Asking:
    def __call__(self, value: Any) -> Any:
        return self._doubled(value)

    def _doubled(self, value: Any) -> Any:
        return value * 2 if type(value) is torch.Tensor else value


class AskingProperty:
    def __call__(self, value: Any) -> Any:
        return value if self.is_last else None

    @property
    def is_last(self) -> bool:
        return type(self) is AskingProperty


class Layer(nn.Module):
    def forward(self, value: Any) -> Any:
        return value if type(value) is torch.Tensor else None


class Samples(Dataset[Any]):
    def __init__(self, *held: Any, **named: Any) -> None:
        self.held, self.named = held, named

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return index


class CallsFunction(Samples):
    def __getitem__(self, index: int) -> Any:
        return asks(index)


class CallsInherited(CallsFunction):
    pass


class CallsModule(Samples):
    def __getitem__(self, index: int) -> Any:
        return helpers.asks(index)


class CallsStatic(Samples):
    def __getitem__(self, index: int) -> Any:
        return [self._kind(one) for one in (index,)]

    @staticmethod
    def _kind(value: Any) -> Any:
        return type(value)


class HasAsMember(Samples):
    change = Asking()

    def __getitem__(self, index: int) -> Any:
        return self.change(index)


class MakesObject(Samples):
    def __getitem__(self, index: int) -> Any:
        return Asking()(index)


class Streamed(IterableDataset[Any]):
    def __iter__(self) -> Any:
        yield from map(asks, range(3))


class NamesItElsewhere(Samples):
    """Asks where no sample is made."""

    kinds: ClassVar[list[type]] = [type(len)]

    def __init__(self, *held: Any) -> None:
        super().__init__(*held)
        self.is_list = type(held) is list

    def unused(self) -> Any:
        return type(self)

    def __getitem__(self, index: int) -> Any:
        return has_type_attribute(index)


helpers: Any = types.ModuleType("helpers_of_a_user")
helpers.asks = asks


def closing_over(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: function(value)


@pytest.mark.parametrize(
    "thing",
    [
        asks,
        asks_for_a_name_and_more,
        asks_for_the_class_of_a_result,  # nobody looks through the call within
        closing_over(asks),
        functools.partial(asks),
        functools.partial(map, asks),
        Asking(),
        Asking().__call__,
        AskingProperty(),
        Layer(),
        nn.Sequential(nn.Identity(), Layer()),
        CallsFunction(),
        CallsInherited(),
        CallsModule(),
        CallsStatic(),
        HasAsMember(),
        MakesObject(),
        Streamed(),
        Samples(Asking()),
        Samples({"train": [T.Compose([T.ToTensor(), Asking()])]}),
        Samples(transform=asks),
        Subset(CallsFunction(), [0, 1]),
        ConcatDataset([Samples(), Subset(Subset(Samples(asks), [0]), [0])]),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_found(thing: Any) -> None:
    assert type_calls(thing) == (True, False)
    assert type_calls(default_collate, thing) == (True, False)


@pytest.mark.parametrize(
    "thing",
    [
        None,
        torch.stack,
        default_collate,
        has_type_attribute,
        asks_for_a_name,
        Samples(T.Compose([T.RandomResizedCrop(8), T.ToTensor()])),
        Samples(str, int, type, torch.Tensor, Image.Image),
        Samples(*map(str, range(100_000))),
        Samples(dict.fromkeys(range(100_000), "name")),
        NamesItElsewhere(),
        Subset(NamesItElsewhere(), [0]),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_not_found(thing: Any) -> None:
    assert type_calls(thing) == (False, False)


@pytest.mark.parametrize("function", [is_one_of_pillows, looks_among_files])
def test_comparisons_with_pillows_classes(function: Callable[[Any], Any]) -> None:
    assert type_calls(Samples(function)) == (True, True)
    assert type_calls(Samples(T.Lambda(function))) == (True, True)


@pytest.mark.parametrize("function", [compares_attribute, looks_among, makes_an_image])
def test_comparisons_that_hold_without_pixels(function: Callable[[Any], Any]) -> None:
    assert type_calls(Samples(function)) == (True, False)


def test_what_leads_to_itself() -> None:
    samples = Samples()
    samples.held = (samples, [samples])
    assert type_calls(samples) == (False, False)


def test_what_leads_too_far() -> None:
    samples = Samples(*([[nn.Identity() for _ in range(60)]] + [[nn.Identity() for _ in range(60)] for _ in range(60)]))
    assert type_calls(samples) == (True, False)


class Photos(Dataset[Any]):
    transform = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])
    doubled = Asking()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for number in range(2):
            pixels = np.random.default_rng(number).integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.jpg")

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        image = Image.open(self.folder / f"{index % 2}.jpg").convert("RGB")
        return self.doubled(self.transform(image)), index


class ComparesImages(Photos):
    kinds: ClassVar[list[type]] = []

    def __getitem__(self, index: int) -> Any:
        opened = Image.open(self.folder / f"{index % 2}.jpg")
        image = opened.convert("RGB")
        self.kinds += [type(opened), type(image), type(self.transform(image))]
        return self.transform(image) if type(image) is Image.Image and type(opened) is JpegImageFile else torch.zeros(1)


class EqualsImages(Photos):
    pending: ClassVar[list[bool]] = []
    sizes: ClassVar[dict[type, int]] = {Image.Image: 32, JpegImageFile: 16}

    def __getitem__(self, index: int) -> Any:
        image = Image.open(self.folder / f"{index % 2}.jpg").convert("RGB")
        assert type(image) == Image.Image  # noqa: E721
        assert type(image) in (bytes, PILImage)
        self.pending.append(is_pending(image))
        return self.transform(image.resize((self.sizes[type(image)], 20))), image.tobytes()


class StreamOfThem(IterableDataset[Any]):
    def __init__(self, photos: Photos) -> None:
        self.photos = photos

    def __iter__(self) -> Any:
        yield from map(self.photos.__getitem__, range(8))


def test_tensors_are_ordinary_where_somebody_asks(tmp_path: Path) -> None:
    assert_as_plain(Photos(tmp_path), batch_size=4)


def test_images_have_no_pixels_where_somebody_compares_their_class(tmp_path: Path) -> None:
    photos = EqualsImages(tmp_path)
    assert_as_plain(photos, batch_size=4)
    assert photos.pending == [False] * 8 + [True] * 8


@pytest.mark.parametrize("wrap", [lambda photos: photos, StreamOfThem])
@pytest.mark.parametrize("batch_size", [None, 1, 4])
def test_images_are_pillows_where_somebody_asks_whether_they_are_of_a_class(
    tmp_path: Path, wrap: Callable[[Photos], Dataset[Any]], batch_size: int | None
) -> None:
    photos = ComparesImages(tmp_path)
    assert_as_plain(wrap(photos), batch_size=batch_size, shuffle=False)
    photos.kinds.clear()
    with fastpipe.install(check=0):
        list(DataLoader(wrap(photos), batch_size=batch_size))
    assert photos.kinds == [JpegImageFile, PILImage, torch.Tensor] * 8
