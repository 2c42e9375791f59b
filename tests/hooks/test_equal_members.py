"""Transforms that are equal to others: one that takes another's place is called."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hooks.composed import T, v2
from PIL import Image

import fastpipe

pytestmark = pytest.mark.usefixtures("fresh_ledger")


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
