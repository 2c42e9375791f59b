"""Crops and flips that the core draws for many images together are those of transform by transform."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from transform_cases import same, seeded

import fastpipe.transforms as T
from fastpipe import core
from fastpipe.program import Pipeline, compile_pipeline
from fastpipe.rng import drawing, keyed_generators
from fastpipe.transforms.crops import CropsAndFlips
from fastpipe.types import Generators, ImageShape

pytestmark = pytest.mark.skipif(not core.available(), reason="there is no core")

USUAL = T.RandomResizedCrop(32)
CHAINS: dict[str, list[Any]] = {
    "training": [USUAL, T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5] * 3, [0.1] * 3)],
    "two flips": [
        T.RandomResizedCrop((8, 9), [0.3, 4.0], [0.2, 5.0]),
        T.RandomVerticalFlip(0.3),
        T.PILToTensor(),
        T.ConvertImageDtype(torch.float32),
        T.RandomHorizontalFlip(1),
    ],
    "never fits": [T.RandomResizedCrop(9, (2.0, 3.0), (1.0, 1.0)), T.RandomHorizontalFlip(0)],
    "one size": [T.RandomResizedCrop(9, (0.5, 0.5), (1.0, 1.0))],
    "crop alone": [T.RandomResizedCrop(9, (0.0, 1e-4))],
}


def shapes(count: int) -> list[ImageShape]:
    sizes = random.Random(3)
    return [ImageShape(sizes.choice([1, 7, 375, 500]), sizes.choice([1, 40, 333, 1000])) for _ in range(count)]


def alone(pipeline: Pipeline, shape: ImageShape, generator: torch.Generator) -> tuple[Any, ...]:
    """Drawn transform by transform, by torch's own calls."""
    given = Generators(generator)
    return tuple(step for one in pipeline.drawn for step in one.draw(shape, given))


@pytest.mark.parametrize("name", CHAINS)
def test_one_after_the_other(name: str) -> None:
    pipeline = compile_pipeline(T.Compose(CHAINS[name]))
    assert pipeline.at_once is not None
    ours, theirs = seeded(5), seeded(5)
    given = shapes(800)
    for start in range(0, len(given), 37):  # batches that begin at any word
        some = given[start : start + 37]
        with drawing(Generators(ours)) as held:
            recipes = list(pipeline.draw_each(some, held))
        for shape, recipe in zip(some, recipes, strict=True):
            assert recipe.shape == shape
            assert recipe.steps == alone(pipeline, shape, theirs)
        assert same(ours, theirs)
        torch.randn([start % 5], generator=ours), torch.randn([start % 5], generator=theirs)


@pytest.mark.parametrize("name", CHAINS)
def test_each_from_a_seed(name: str) -> None:
    pipeline = compile_pipeline(T.Compose(CHAINS[name]))
    given = shapes(200)
    keys = [random.Random(7).getrandbits(64) + number & 2**64 - 1 for number in range(len(given))]
    recipes = list(pipeline.draw_keyed(given, keys))
    for shape, key, recipe in zip(given, keys, recipes, strict=True):
        assert recipe.steps == alone(pipeline, shape, keyed_generators(key).torch)


def test_most_are_drawn_together() -> None:
    found = CropsAndFlips.of(CHAINS["training"])
    assert found is not None
    steps = found.draw_keyed([ImageShape(375, 500)] * 10_000, range(10_000))
    assert 0 < steps.count(None) < 50  # where a side is near the middle between two numbers


def test_what_changes_in_a_transform_takes_effect() -> None:
    crop, flip, normalize = T.RandomResizedCrop(32), T.RandomHorizontalFlip(0.0), T.Normalize([0.5], [0.5])
    pipeline = compile_pipeline(T.Compose([crop, flip, T.ToTensor(), normalize]))
    ours, theirs = seeded(2), seeded(2)
    for change in (
        lambda: None,
        lambda: setattr(crop, "scale", (0.9, 1.0)),
        lambda: setattr(crop, "ratio", [1.0, 2.0]),
        lambda: setattr(crop, "size", (3, 4)),
        lambda: setattr(flip, "p", 1.0),
        lambda: normalize.mean.append(0.1),
    ):
        change()
        shape = ImageShape(99, 120)
        assert pipeline.draw(shape, Generators(ours)).steps == alone(pipeline, shape, theirs)
        assert same(ours, theirs)


@pytest.mark.parametrize(
    "transforms",
    [
        [T.RandomHorizontalFlip(), USUAL],
        [USUAL, T.RandomErasing()],
        [USUAL, T.RandomHorizontalFlip(), T.RandAugment()],
        [USUAL, *[T.RandomHorizontalFlip()] * 5],
        [type("Own", (T.RandomResizedCrop,), {})(9)],
        [],
    ],
)
def test_others_are_left(transforms: list[Any]) -> None:
    assert CropsAndFlips.of(transforms) is None


def test_taking_turns_and_a_changed_default() -> None:
    """The words stay in step where the core's draws and others' take turns."""
    pipeline = compile_pipeline(T.Compose(CHAINS["training"]))
    shape, ours, theirs = ImageShape(300, 400), seeded(3), seeded(3)
    with drawing(Generators(ours)) as held:
        for number in range(60):
            if number % 3:
                assert pipeline.draw(shape, held).steps == alone(pipeline, shape, theirs)
            else:
                recipes = list(pipeline.draw_each([shape] * (number % 7), held))
                assert [one.steps for one in recipes] == [alone(pipeline, shape, theirs) for _ in recipes]
    assert same(ours, theirs)
    torch.set_default_dtype(torch.float64)
    try:
        assert pipeline.draw(shape, Generators(ours)).steps == alone(pipeline, shape, theirs)
    finally:
        torch.set_default_dtype(torch.float32)
    assert same(ours, theirs)
