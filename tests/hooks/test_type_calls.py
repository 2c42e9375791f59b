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
from plain_and_hooked import assert_as_plain
from torch import nn
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset, default_collate
from torchvision_here import torchvision

from fastpipe.hooks.type_calls import may_ask_for_types

T = torchvision.transforms


def asks(value: Any) -> bool:
    return type(value) is torch.Tensor


def has_type_attribute(value: Any) -> Any:
    return value.type, value.type(torch.float32), value.device.type


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
    assert may_ask_for_types(thing)
    assert may_ask_for_types(default_collate, thing)


@pytest.mark.parametrize(
    "thing",
    [
        None,
        torch.stack,
        default_collate,
        has_type_attribute,
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
    assert not may_ask_for_types(thing)


def test_what_leads_to_itself() -> None:
    samples = Samples()
    samples.held = (samples, [samples])
    assert not may_ask_for_types(samples)


def test_what_leads_too_far() -> None:
    samples = Samples(*([[nn.Identity() for _ in range(60)]] + [[nn.Identity() for _ in range(60)] for _ in range(60)]))
    assert may_ask_for_types(samples)


def test_what_it_gets_is_an_ordinary_tensor(tmp_path: Path) -> None:
    class Photos(Dataset[Any]):
        transform = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])
        doubled = Asking()

        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            image = Image.open(tmp_path / f"{index % 2}.jpg").convert("RGB")
            return self.doubled(self.transform(image)), index

    for number in range(2):
        pixels = np.random.default_rng(number).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.jpg")
    assert_as_plain(Photos(), batch_size=4)
