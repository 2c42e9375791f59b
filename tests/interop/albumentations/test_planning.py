"""albumentations' transforms, drawn from a shape before there are pixels: each held to itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interop.albumentations.pipelines import (
    CASES,
    A,
    ToTensorV2,
    assert_same,
    compose,
    in_windows,
    sample,
    states,
)
from recipe_conformance import flat

from fastpipe.interop.albumentations import motions
from fastpipe.interop.albumentations import planning as recipe
from fastpipe.transforms.named_arrays import Pixels, named_arrays_of
from fastpipe.types import Box

SIZES = ((37, 53), (48, 31), (1, 1), (2, 90))


def test_each_class_has_a_case() -> None:
    assert CASES.keys() == motions.ENTRIES.keys()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_each_class_is_what_it_is(kind: Any, size: tuple[int, int]) -> None:
    """Pixels of images and masks, boxes, points, generators and parameters: as on an image that is there."""
    assert recipe.is_known(kind)
    for make in CASES[kind]:
        for seed in range(3):
            assert_same(lambda: compose(make(), seed=seed), sample(*size, seed=seed))  # noqa: B023
        assert_same(lambda: compose(make()), sample(*size, boxes=0))  # noqa: B023
        alone = {name: value for name, value in sample(*size).items() if name in ("image", "mask", "near")}
        if not kind.__name__.endswith(("BBoxRandomCrop", "SafeCrop", "SafeRandomCrop")):
            assert_same(make, alone)


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_parameters_depend_on_the_shape_alone(kind: Any) -> None:
    """No pixel is loaded while anything is drawn."""
    for make in CASES[kind]:
        transform, data = compose(make()), sample(50, 64)
        drawn: list[Any] = []

        def load(box: Box) -> Any:
            drawn.append(states(transform))  # noqa: B023
            return data["image"][box.top : box.bottom, box.left : box.right]  # noqa: B023

        recipe.run(transform, {**data, "image": Pixels(data["image"].shape, load)})
        assert drawn[0] == states(transform)


CHAINS = {
    "a crop behind flips": lambda: [A.HorizontalFlip(p=1), A.Transpose(p=1), A.RandomCrop(11, 9), A.VerticalFlip()],
    "two crops": lambda: [A.RandomCrop(30, 25), A.D4(), A.CenterCrop(9, 9), A.RandomRotate90()],
    "a resize in between": lambda: [A.RandomCrop(30, 25), A.Resize(40, 20), A.HorizontalFlip(p=1), A.CenterCrop(13, 5)],
    "a crop of a resized one": lambda: [A.SmallestMaxSize(40), A.RandomCrop(32, 32), A.HorizontalFlip()],
    "pixels behind it": lambda: [A.RandomResizedCrop((16, 16)), A.GaussNoise(p=1), A.HorizontalFlip(), A.Affine(p=1)],
    "one of": lambda: [
        A.OneOf([A.HorizontalFlip(), A.Transpose()]),
        A.OneOf([A.RandomCrop(9, 9), A.Resize(9, 9)], p=1),
    ],
    "sequential": lambda: [A.Sequential([A.HorizontalFlip(), A.RandomCrop(9, 8)], p=0.7), A.RandomBrightnessContrast()],
    "some of": lambda: [A.SomeOf([A.HorizontalFlip(), A.VerticalFlip(), A.D4()], n=2), A.CenterCrop(9, 9)],
    "random order": lambda: [A.RandomOrder([A.HorizontalFlip(), A.RandomCrop(20, 20)], n=2), A.CenterCrop(9, 9)],
    "one or other": lambda: [A.OneOrOther(A.RandomCrop(9, 9), A.D4()), A.CenterCrop(9, 9)],
    "a compose": lambda: [A.Compose([A.RandomCrop(20, 20), A.D4()], p=0.8), A.CenterCrop(9, 9)],
    "a member that isn't planned": lambda: [A.OneOf([A.RandomCrop(9, 9), A.Affine()], p=1)],
    "a mask is looked at": lambda: [A.HorizontalFlip(), A.CropNonEmptyMaskIfExists(9, 9)],
    "tensors": lambda: [A.RandomCrop(20, 20), A.Normalize(), ToTensorV2()],
    "tensors alone": lambda: [A.RandomCrop(20, 20), ToTensorV2(transpose_mask=True)],
    "another normalization": lambda: [A.RandomCrop(20, 20), A.Normalize(normalization="image")],
    "numbers for all channels": lambda: [A.RandomCrop(20, 20), A.Normalize(mean=0.4, std=0.3)],
}


@pytest.mark.parametrize("options", [{}, {"p": 0.5}, {"save_applied_params": True}], ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_chains(name: str, options: dict[str, Any]) -> None:
    for seed in range(3):
        assert_same(lambda: compose(*CHAINS[name](), seed=seed, **options), sample(41, 52, seed))  # noqa: B023


def test_additional_targets_and_strict() -> None:
    data = sample(41, 52)
    data = {**data, "second": data["image"][::-1].copy(), "classes": data["mask"][:, ::-1].copy()}
    del data["near"], data["number"]
    targets = {"second": "image", "classes": "mask"}

    def members() -> Any:
        return [A.RandomResizedCrop((9, 13)), A.HorizontalFlip(), A.Normalize()]

    assert_same(lambda: compose(*members(), additional_targets=targets, strict=True), data)
    assert_same(lambda: compose(*members(), additional_targets=targets, strict=True), {**data, "unknown": 1})
    assert_same(lambda: compose(*members(), mask_interpolation=1), sample(41, 52))


def test_unusual_data() -> None:
    data, members = sample(41, 52), lambda: A.Compose([A.RandomCrop(9, 13), A.HorizontalFlip()])
    plain = {"image": data["image"]}
    for other in (
        {"mask": data["mask"][:20]},  # of another size
        {"mask": np.dstack([data["mask"]] * 5)},
        {"mask": None},
        {"masks": []},
        {"masks": np.stack(data["masks"])},
        {"masks": [data["mask"], data["mask"][:9]]},
        {"images": np.stack([data["image"]] * 2)},
        {"volume": np.stack([data["image"]] * 2)},
        {"mask": "mask.png"},
    ):
        assert_same(members, {**plain, **other})
    assert_same(members, {"mask": data["mask"]})
    assert_same(members, {"image": data["image"][..., 0].copy()})
    assert_same(members, {"image": data["image"].astype(np.float32)})


MEMBERS = st.sampled_from([make for cases in CASES.values() for make in cases])


@st.composite
def chains(draw: Any) -> Any:
    """Makers of a few members, some of them in containers."""
    made = []
    for _ in range(draw(st.integers(1, 4))):
        makers = draw(st.lists(MEMBERS, min_size=1, max_size=3))
        container = draw(st.sampled_from(["", "", "", "OneOf", "Sequential", "SomeOf", "Compose"]))
        chance = draw(st.sampled_from([0.3, 1.0]))
        made.append((container, makers, chance))

    def members() -> list[Any]:
        found = []
        for container, makers, chance in made:
            inner = [make() for make in makers]
            found += [getattr(A, container)(inner, p=chance)] if container else inner[:1]
        return found

    return members


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(chains(), st.integers(1, 60), st.integers(1, 60), st.integers(0, 99), st.integers(0, 3))
def test_any_chain(members: Any, height: int, width: int, seed: int, boxes: int) -> None:
    assert_same(lambda: compose(*members(), seed=seed), sample(height, width, seed, boxes=boxes), times=2)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(chains(), st.integers(1, 90), st.integers(1, 90), st.integers(0, 999), st.integers(0, 5))
def test_any_chain_at_length(members: Any, height: int, width: int, seed: int, boxes: int) -> None:
    assert_same(lambda: compose(*members(), seed=seed), sample(height, width, seed, boxes=boxes), times=3)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-2, 2, width=32), min_size=3, max_size=3),
    st.lists(st.floats(0.125, 3, width=32), min_size=3, max_size=3),
    st.sampled_from([1.0, 255.0]),
)
def test_normalize_gives_the_same_floats(mean: list[float], std: list[float], largest: float) -> None:
    levels = np.arange(256, dtype=np.uint8)
    image = np.stack([levels, levels[::-1], np.roll(levels, 99)], axis=-1).reshape(16, 16, 3)

    def make() -> Any:
        return A.Compose([A.NoOp(), A.Normalize(tuple(mean), tuple(std), largest)])

    assert_same(make, {"image": image}, times=1)


def what_is_loaded(transform: Any, data: dict[str, Any]) -> list[Box]:
    loaded: list[Box] = []

    def pixels(array: Any) -> Pixels:
        def load(box: Box) -> Any:
            loaded.append(box)
            return array[box.top : box.bottom, box.left : box.right]

        return Pixels(array.shape, load)

    recipe.run(transform, {**data, "image": pixels(data["image"]), "mask": pixels(data["mask"])})
    return loaded


def test_a_crop_is_loaded_alone() -> None:
    data = sample(60, 80)
    del data["masks"]
    boxes = what_is_loaded(compose(A.HorizontalFlip(p=1), A.Crop(10, 20, 30, 50)), data)
    assert boxes == [Box(20, 50, 30, 20)] * 2
    boxes = what_is_loaded(compose(A.Crop(10, 20, 30, 50), A.Transpose(p=1), A.Crop(5, 3, 9, 8), A.Normalize()), data)
    assert boxes == [Box(25, 13, 4, 5)] * 2
    boxes = what_is_loaded(compose(A.Resize(30, 30), A.Crop(10, 20, 30, 30)), data)
    assert boxes == [Box(0, 0, 60, 80)] * 2


def test_the_memory_of_a_load_may_be_used_again() -> None:
    """A mask's load overwrites the image's memory, as decoders do."""
    data, memory = sample(40, 50), np.empty(40 * 50 * 3, np.uint8)
    del data["masks"]

    def pixels(array: Any) -> Pixels:
        def load(box: Box) -> Any:
            part = array[box.top : box.bottom, box.left : box.right]
            into = memory[: part.size].reshape(part.shape)
            into[:] = part
            return into

        return Pixels(array.shape, load)

    for members in ([A.CenterCrop(20, 20)], [A.NoOp()], [A.Affine(p=1)], [A.HorizontalFlip(p=0)]):
        ours, theirs = compose(*members), compose(*members)
        made = recipe.run(ours, {**data, "image": pixels(data["image"]), "mask": pixels(data["mask"])})
        memory[:] = 0
        expected = theirs(**{**data, "bboxes": data["bboxes"].copy()})
        if not isinstance(members[0], A.Affine):
            assert flat(made["image"]) == flat(expected["image"])
            assert flat(made["mask"]) == flat(expected["mask"])


# -- what isn't planned


class OwnCrop(A.RandomCrop):
    def apply(self, img: Any, crop_coords: Any, **params: Any) -> Any:
        return 255 - super().apply(img, crop_coords, **params)


def test_other_code_is_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = A.RandomCrop(9, 9)
    changed.apply = lambda img, **params: img[:5, :5]
    for make in (lambda: OwnCrop(9, 9), lambda: changed, lambda: A.Affine(), lambda: A.ReplayCompose([A.D4()])):
        assert recipe.planned_members(make()) == ()
    assert len(recipe.planned_members(A.Compose([A.D4(), A.RandomCrop(5, 5), A.GaussNoise(), A.D4()]))) == 2
    assert_same(lambda: compose(OwnCrop(9, 9)), sample(20, 30))
    replayed = recipe.run(A.ReplayCompose([A.RandomCrop(9, 9)]), in_windows({"image": sample(20, 30)["image"]}))
    assert replayed["replay"]["applied"]

    monkeypatch.setattr(recipe, "_CORE", "0123456789abcdef")
    recipe.core_is_known.cache_clear()
    try:
        assert recipe.planned_members(A.RandomCrop(9, 9)) == ()
        assert "other code" in recipe.why_not(A.RandomCrop)
        assert_same(lambda: compose(A.RandomCrop(9, 9), A.D4()), sample(20, 30))
    finally:
        recipe.core_is_known.cache_clear()


def test_each_class_is_told_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(motions.ENTRIES, A.D4, motions.ENTRIES[A.D4]._replace(fingerprint="0123456789abcdef"))
    recipe.is_known.cache_clear()
    try:
        assert recipe.planned_members(A.D4()) == ()
        assert recipe.planned_members(A.HorizontalFlip())
    finally:
        recipe.is_known.cache_clear()
    monkeypatch.setitem(motions.ENTRIES, A.Pad, motions.ENTRIES[A.Pad]._replace(functions=(None,)))  # another version
    assert not recipe.is_known(A.Pad)
    recipe.is_known.cache_clear()
    assert named_arrays_of(A.D4()).run is recipe.run
    assert named_arrays_of(len) is None
