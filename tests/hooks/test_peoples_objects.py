"""Objects of people's classes, which answer names as they like, raise for them, or are equal to others."""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import corpus
import numpy as np
import pytest
import torch
from hooks.composed import T, v2
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import fastpipe
from fastpipe.hooks.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh_ledger")


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("photo") / "a.jpg"
    path.write_bytes(corpus.jpeg(60, 80))
    return str(path)


# -- transforms


def small(image: Any) -> Any:
    return image.resize((24, 20))


class Small:
    def __call__(self, image: Any) -> Any:
        return small(image)


class KeysAsAttributes(dict):  # type: ignore[type-arg]
    """As EasyDict and addict: a missing name is a missing key."""

    __getattr__ = dict.__getitem__
    __call__ = Small.__call__


class ItsOwnDict(dict):  # type: ignore[type-arg]
    def __init__(self) -> None:
        self.__dict__ = self

    __call__ = Small.__call__


class RaisesForPrivateNames(Small):
    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") and not name.startswith("__"):
            raise RuntimeError("don't ask")
        return object.__getattribute__(self, name)


class RaisesForAnyName(Small):
    def __getattribute__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


class RaisesForItsClass(Small):
    @property
    def __class__(self) -> Any:
        raise ZeroDivisionError


class ClaimsToBeAnother(Small):
    @property
    def __class__(self) -> Any:
        return T.Compose


class AnswersEverything(Small):
    def __getattr__(self, name: str) -> Any:
        return lambda *args: True


class AnswersByItsMetaclass(type):
    def __getattr__(cls, name: str) -> Any:
        return lambda *args: True


class OfThatMetaclass(Small, metaclass=AnswersByItsMetaclass):
    pass


class RaisesByItsMetaclass(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__mro__", "__module__", "__dict__", "draw"):
            raise OSError(name)
        return type.__getattribute__(cls, name)


class OfAnAngryMetaclass(Small, metaclass=RaisesByItsMetaclass):
    pass


class WithSlots:
    __slots__ = ()
    __call__ = Small.__call__


class HasNoModule(Small):
    __module__ = None  # type: ignore[assignment]


class ModuleIsAProperty(Small):
    __module__ = property(lambda self: 1 / 0)  # type: ignore[assignment]


class HasOurNames(Small):
    draw = 5
    transforms = 7
    _plans_itself = 3
    _can_draw = 1
    _is_compose = "x"
    _forward_hooks = 9


class RaisesWhenRead(Small):
    @property
    def transforms(self) -> Any:
        raise LookupError("not yet")

    @property
    def draw(self) -> Any:
        raise LookupError("not yet")


class RaisesWhenCompared(Small):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no ==")


class ComparesByElement(Small):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return torch.tensor([True, False])


class ComparesAsArray(Small):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return np.array([True, True])


class HasNoTruth(Small):
    def __bool__(self) -> bool:
        raise TypeError

    def __len__(self) -> int:
        raise TypeError

    def __iter__(self) -> Any:
        raise TypeError


class ToTensorWithoutNames(T.ToTensor):  # type: ignore[misc, name-defined]
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def proxy() -> Any:
    wrapt = pytest.importorskip("wrapt")
    return wrapt.ObjectProxy(T.Resize((20, 24)))


MAKERS: dict[str, Callable[[], Any]] = {
    **{kind.__name__: kind for kind in (*Small.__subclasses__(), KeysAsAttributes, ItsOwnDict, WithSlots)},
    "a mock": lambda: MagicMock(side_effect=small),
    "a mock of a class": lambda: MagicMock(spec=T.Resize, side_effect=small),
    "a mock of a Compose": lambda: MagicMock(spec=T.Compose([]), side_effect=small),
    "a partial": lambda: functools.partial(small),
    "a proxy": proxy,
    "a derived ToTensor": lambda: T.Compose([small, ToTensorWithoutNames(), T.ToPILImage()]),
}

AROUND: dict[str, Callable[[Any], Any]] = {
    "Compose": lambda one: T.Compose([one, T.ToTensor()]),
    "between": lambda one: T.Compose([T.Resize((50, 50)), one, T.ToTensor()]),
    "RandomApply": lambda one: T.Compose([T.RandomApply([one], 1.0), T.ToTensor()]),
    "RandomChoice": lambda one: T.Compose([T.RandomChoice([one]), T.ToTensor()]),
    "RandomOrder": lambda one: T.Compose([T.RandomOrder([one]), T.ToTensor()]),
    "nested": lambda one: T.Compose([T.Compose([one]), T.ToTensor()]),
    "Lambda": lambda one: T.Compose([T.Lambda(one), T.ToTensor()]),
    "used up": lambda one: T.Compose(iter([one, T.ToTensor()])),
    "v2": lambda one: v2.Compose([one, v2.PILToTensor()]),
    "v2.RandomApply": lambda one: v2.Compose([v2.RandomApply([one], 1.0), v2.ToImage()]),
    "v2.RandomChoice": lambda one: v2.Compose([v2.RandomChoice([one]), v2.ToImage()]),
}


def outcome(make: Callable[[], Any], photo: str) -> list[Any]:
    """The results of two calls, or the error."""
    try:
        transform = make()
        return [np.asarray(transform(Image.open(photo).convert("RGB"))).tolist() for _ in range(2)]
    except Exception as error:
        return [type(error), str(error)]


@pytest.mark.parametrize(
    "around",
    [name if name in ("Compose", "v2.RandomApply") else pytest.param(name, marks=pytest.mark.slow) for name in AROUND],
)
@pytest.mark.parametrize("name", MAKERS)
def test_a_transform_is_called_as_without_us(name: str, around: str, photo: str) -> None:
    def make() -> Any:
        return AROUND[around](MAKERS[name]())

    expected = outcome(make, photo)
    with fastpipe.install(check=1):
        assert outcome(make, photo) == expected


@pytest.mark.parametrize("name", MAKERS)
def test_a_transform_is_called_by_our_compose(name: str, photo: str) -> None:
    def made_by(module: Any) -> list[Any]:
        return outcome(lambda: module.Compose([module.Resize((30, 30)), MAKERS[name](), module.ToTensor()]), photo)

    assert made_by(fastpipe.transforms) == made_by(T)


# -- equal members


@dataclass
class Add:
    n: int = field(compare=False)

    def __call__(self, image: Any) -> Any:
        return image.point(lambda value: value + self.n)


class EqualToAll(Add):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def _set(transforms: Any, place: int, value: object) -> None:
    transforms[place] = value


CHANGED: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], object]]] = {
    "a member": (
        lambda M, one: M.Compose([M.Resize(20), one, M.ToTensor()]),
        lambda c, other: _set(c.transforms, 1, other),
    ),
    "the list": (
        lambda M, one: M.Compose([M.Resize(20), one, M.ToTensor()]),
        lambda c, other: setattr(c, "transforms", [c.transforms[0], other, c.transforms[2]]),
    ),
    "of a nested Compose": (
        lambda M, one: M.Compose([M.Compose([M.Resize(20), one]), M.ToTensor()]),
        lambda c, other: _set(c.transforms[0].transforms, 1, other),
    ),
    **{
        f"of {name}": (
            lambda M, one, name=name: M.Compose([M.Resize(20), getattr(M, name)([one]), M.ToTensor()]),
            lambda c, other: _set(c.transforms[1].transforms, 0, other),
        )
        for name in ("RandomOrder", "RandomChoice")
    },
    "of RandomApply": (
        lambda M, one: M.Compose([M.Resize(20), M.RandomApply([one], 1.0), M.ToTensor()]),
        lambda c, other: _set(c.transforms[1].transforms, 0, other),
    ),
}


@pytest.mark.parametrize("kind", [Add, EqualToAll])
@pytest.mark.parametrize("way", ["swap", "run", "swap v2", "run v2"])
@pytest.mark.parametrize("change", CHANGED)
def test_an_equal_member_takes_the_place_of_another(change: str, way: str, kind: Any) -> None:
    ours: Any = fastpipe.transforms if "v2" not in way else pytest.importorskip("fastpipe.transforms.v2")
    theirs = v2 if "v2" in way else T
    make, exchange = CHANGED[change]
    image = Image.new("RGB", (40, 40), (10, 10, 10))

    def brightest() -> list[int]:
        random.seed(0)
        compose = make(ours if "swap" in way else theirs, kind(1))
        found = [compose(image)]
        exchange(compose, kind(50))
        found.append(compose(image))
        return [round(float(one.max()) * 255) for one in found]

    with fastpipe.install(check=0):
        assert brightest() == [11, 60]


def test_an_equal_view_takes_the_place_of_another() -> None:
    views = fastpipe.MultiView([Add(1), Add(2)], 1)
    image = Image.new("L", (4, 4), 10)
    assert [one.getpixel((0, 0)) for one in views(image)] == [11, 12]
    views.transforms[1] = Add(50)
    assert [one.getpixel((0, 0)) for one in views(image)] == [11, 60]


def test_a_function_replaced_by_an_equal_one_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrapper:
        def __init__(self, wrapped: Any) -> None:
            self.wrapped, self.calls = wrapped, 0

        def __eq__(self, other: object) -> bool:
            return other in (self, self.wrapped)

        def __hash__(self) -> int:
            return hash(self.wrapped)

        def __call__(self, *args: Any, **options: Any) -> Any:
            self.calls += 1
            return self.wrapped(*args, **options)

    from torchvision_here import module

    functional = module("torchvision.transforms.functional")
    compose, image = T.Compose([T.Resize((20, 20)), T.ToTensor()]), Image.new("RGB", (40, 40))
    with fastpipe.install(check=0):
        compose(image)
        wrapper = Wrapper(functional.resize)
        monkeypatch.setattr(functional, "resize", wrapper)
        compose(image)
    assert wrapper.calls == 1


def test_a_dataset_of_arrays_takes_an_equal_transform(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((1, 2, 2), np.float32))

    class Times:
        def __init__(self, by: int) -> None:
            self.by = by

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

        def __call__(self, array: Any) -> Any:
            return array * self.by

    arrays = fastpipe.ArrayList(([str(tmp_path / "a.npy")], [0]), transform=Times(2))
    first, _ = arrays[0]
    arrays.transform = Times(5)
    second, _ = arrays[0]
    assert (float(first.max()), float(second.max())) == (2, 5)


# -- file objects


class MinimalFile:
    """A file object with the methods that Pillow needs, of which it asks a position from the beginning alone."""

    def __init__(self, data: bytes) -> None:
        self.file = io.BytesIO(data)

    def read(self, length: int = -1) -> Any:
        return self.file.read(length)

    def seek(self, position: int, whence: int = 0) -> int:
        return self.file.seek(position, whence)

    def tell(self) -> int:
        return self.file.tell()


class SeeksByPositionOnly(MinimalFile):
    def seek(self, position: int) -> int:  # type: ignore[override]
        return self.file.seek(position)


class HasNoEnd(MinimalFile):
    """As a stream from a server."""

    def seek(self, position: int, whence: int = 0) -> int:
        if whence:
            raise io.UnsupportedOperation("seek from the end")
        return self.file.seek(position)


class ReadsByLengthOnly(MinimalFile):
    def read(self, length: int) -> Any:  # type: ignore[override]
        return self.file.read(length)


class HasNoPosition(MinimalFile):
    def tell(self) -> int:
        raise OSError("no position")


class ReadsBytearrays(MinimalFile):
    def read(self, length: int = -1) -> Any:
        return bytearray(self.file.read(length))


class RaisesKeyErrors(MinimalFile):
    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class RaisesForClosed(MinimalFile):
    closed = property(lambda self: 1 / 0)


@pytest.mark.parametrize("kind", [MinimalFile, *MinimalFile.__subclasses__()])
@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_a_file_object_that_can_do_less_than_a_file(kind: Any, form: str, photo: str) -> None:
    stored = io.BytesIO()
    Image.open(photo).save(stored, form)

    def outcomes() -> list[Any]:
        found = []
        for look in (lambda image: image.size, lambda image: image.convert("RGB").resize((9, 8)), np.asarray):
            file = kind(stored.getvalue())
            try:
                found.append(np.asarray(look(Image.open(file))).tolist())
            except Exception as error:  # HasNoPosition, of a PNG
                found.append([type(error), str(error)])
            found.append(file.file.tell())
        return found

    expected = outcomes()
    with fastpipe.install(check=1):
        assert outcomes() == expected


# -- batches, collate functions and datasets


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
