"""Batches, collate functions and datasets of people's classes, which raise for what they are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hooks.composed import T
from hooks.peoples_classes import (
    AnswersEverything,
    ComparesByElement,
    RaisesForAnyName,
    RaisesForPrivateNames,
    RaisesWhenCompared,
)
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import fastpipe
from fastpipe.hooks.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh_ledger")


class Batch:
    def __init__(self, samples: Any) -> None:
        self.samples = samples


class ShapeIsADict(Batch):
    """As the NestedTensor of DETR and its children."""

    shape = property(lambda self: {"tensors": self.samples[0].shape})


class ShapeRaises(Batch):
    shape = property(lambda self: 1 / 0)
    ndim = property(lambda self: 1 / 0)


class LengthRaises(Batch):
    def __len__(self) -> int:
        raise NotImplementedError("ask for .samples")


class WordlessError(Exception):
    def __str__(self) -> str:
        raise ValueError


class LengthRaisesWithoutWords(Batch):
    def __len__(self) -> int:
        raise WordlessError


class LengthExits(Batch):
    def __len__(self) -> int:
        raise SystemExit("asked")


class LengthAsksItself(Batch):
    def __len__(self) -> int:
        return len(self)


class LengthIsNegative(Batch):
    def __len__(self) -> int:
        return -1


class LengthIsAText(Batch):
    def __len__(self) -> Any:
        return "8"


class ClassRaises(Batch):
    @property
    def __class__(self) -> Any:
        raise ZeroDivisionError


class ClassIsTensor(Batch):
    @property
    def __class__(self) -> Any:
        return torch.Tensor


class AnyNameRaises(Batch):
    def __getattribute__(self, name: str) -> Any:
        raise OSError(name)


class ListThatRaises(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise OSError

    def __len__(self) -> int:
        raise OSError

    def __getitem__(self, index: Any) -> Any:
        raise OSError


class TupleThatRaises(tuple):  # type: ignore[type-arg]
    __slots__ = ()
    shape = property(lambda self: 1 / 0)

    def __len__(self) -> int:
        raise RuntimeError

    def size(self) -> int:
        raise OSError


class DictThatRaises(dict):  # type: ignore[type-arg]
    __getattr__ = dict.__getitem__

    def values(self) -> Any:
        raise OSError

    def items(self) -> Any:
        raise OSError


class MappingThatRaises(Mapping):  # type: ignore[type-arg]
    def __getitem__(self, key: Any) -> Any:
        raise OSError

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Any:
        raise OSError


def holds_itself(samples: Any) -> Any:
    batch: list[Any] = []
    batch.append(batch)
    return batch


COLLATES: dict[str, Callable[[Any], Any]] = {
    **{kind.__name__: kind for kind in Batch.__subclasses__()},
    "a list": ListThatRaises,
    "a tuple": TupleThatRaises,
    "a dict": lambda samples: DictThatRaises(images=samples),
    "a mapping": lambda samples: MappingThatRaises(),
    "holds itself": holds_itself,
    "within a tuple": lambda samples: (ShapeIsADict(samples), 1),
    "within a list": lambda samples: [AnyNameRaises(samples)] * 2,
    "within a dict": lambda samples: {"a": LengthIsNegative(samples)},
    "a generator": lambda samples: (one for one in samples),
    "None": lambda samples: None,
    "a class": lambda samples: LengthRaises,
}


class Photos(Dataset):  # type: ignore[type-arg]
    def __init__(self, path: str) -> None:
        self.path, self.transform = path, T.Compose([T.Resize((8, 8)), T.ToTensor()])

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(self.path).convert("RGB"))


@pytest.mark.parametrize("name", COLLATES)
def test_a_batch_of_any_class_is_handed_out(name: str, photo: str) -> None:
    for data in ([torch.zeros(3, 8, 8)] * 4, Photos(photo)):
        with fastpipe.install(check=1):
            batches = [*DataLoader(data, 2, collate_fn=COLLATES[name])]  # type: ignore[arg-type]
        assert [*map(type, batches)] == [type(COLLATES[name]([torch.zeros(3, 8, 8)] * 2))] * 2


@pytest.mark.parametrize("name", COLLATES)
def test_our_loader_hands_out_a_batch_of_any_class(name: str, photo: str) -> None:
    batches = [*fastpipe.DataLoader(Photos(photo), 2, collate_fn=COLLATES[name])]
    assert [*map(type, batches)] == [type(COLLATES[name]([torch.zeros(3, 8, 8)] * 2))] * 2


class KeysOf(dict):  # type: ignore[type-arg]
    __getattr__ = dict.__getitem__

    def __call__(self, samples: Any) -> Any:
        return torch.stack(samples)


class PrivateRaises(RaisesForPrivateNames):
    def __call__(self, samples: Any) -> Any:
        return torch.stack(samples)


class EqualElements(ComparesByElement):
    def __call__(self, samples: Any) -> Any:
        return torch.stack(samples)


class AnyRaises(RaisesForAnyName):
    def __call__(self, samples: Any) -> Any:
        return torch.stack(samples)


@pytest.mark.parametrize("kind", [KeysOf, PrivateRaises, EqualElements, AnyRaises])
def test_a_collate_fn_of_any_class_is_called(kind: Any, photo: str) -> None:
    expected = [*DataLoader(Photos(photo), 2, collate_fn=kind())]
    with fastpipe.install(check=1):
        batches = [*DataLoader(Photos(photo), 2, collate_fn=kind())]
    assert all(map(torch.equal, batches, expected))


@pytest.mark.parametrize("kind", [RaisesForPrivateNames, ComparesByElement, RaisesWhenCompared, AnswersEverything])
def test_a_dataset_of_any_class_is_asked_for_samples_alone(kind: Any, photo: str) -> None:
    both = type("Both", (Photos, kind), {"__call__": None, "__getitems__": None})
    expected = [*DataLoader(both(photo), 2)]
    with fastpipe.install(check=1):
        batches = [*DataLoader(both(photo), 2)]
    assert all(map(torch.equal, batches, expected))


def test_what_accounting_could_not_count_is_noted_once(photo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def samples_in(batch: object) -> int:
        raise WordlessError

    monkeypatch.setattr("fastpipe.hooks.torch.loader_times.samples_in", samples_in)
    with fastpipe.install(check=0):
        assert len([*DataLoader(Photos(photo), 1)]) == 4
    notes = [note for note in LEDGER.notes if "went on without" in note]
    assert notes == ["fastpipe failed (WordlessError): the script went on without a loader's times."]
