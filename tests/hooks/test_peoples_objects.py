"""Transforms and file objects of people's classes, which answer names as they like, raise for them, or lack them."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from hooks.composed import T, v2
from hooks.peoples_classes import ItsOwnDict, KeysAsAttributes, Small, WithSlots, small
from PIL import Image

import fastpipe

pytestmark = pytest.mark.usefixtures("fresh_ledger")


# -- transforms


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
