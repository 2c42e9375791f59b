"""Every class draws torchvision's numbers from a generator's stream, whoever else draws from it meanwhile."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision_here import torchvision
from transform_cases import (
    LARGE,
    ON_TENSORS,
    RANDOM,
    SIZES,
    apply_steps,
    as_pil,
    as_tensor,
    ident,
    picture,
    same,
    seeded,
    values,
)

import fastpipe
import fastpipe.transforms as T
from fastpipe import ops
from fastpipe.rng import StreamGenerators, drawing, keyed_generators
from fastpipe.rng import generators as generators_module
from fastpipe.rng import mt19937 as mt19937_module
from fastpipe.rng.mt19937 import MT19937Stream, matches_torch
from fastpipe.transforms.multi_view import MultiView
from fastpipe.transforms.pipeline import compile_pipeline
from fastpipe.types import Generators, ImageShape

V = torchvision.transforms
SEEDS = [0, 1, 7, 2**31, 2**32 - 1, 2**32, 2**32 + 7, 2**53 + 1, 2**63 - 1]
CASES = RANDOM + LARGE + ON_TENSORS[:3]


# Every class, against torchvision itself.


def outcome(transform: Any, image: Any) -> Any:
    try:
        return values(transform(image))
    except Exception as error:
        return type(error)


def drawn(ours: Any, shape: ImageShape, generators: Any, image: Any) -> Any:
    pipeline = compile_pipeline(ours)
    assert not pipeline.unplanned
    try:
        return values(apply_steps(pipeline.draw(shape, generators).steps, image))
    except Exception as error:
        return type(error)


def assert_same_outcome(actual: Any, expected: Any) -> None:
    if isinstance(expected, type) or isinstance(actual, type):
        assert actual is expected
    else:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("size", [(37, 53), *SIZES[1:]])
@pytest.mark.parametrize("case", CASES, ids=ident)
def test_every_class(case: tuple[str, dict[str, Any]], size: tuple[int, int]) -> None:
    name, arguments = case
    theirs, ours = getattr(V, name)(**arguments), getattr(T, name)(**arguments)
    array = picture(*size)
    image = as_tensor(array) / 255 if name == "RandomErasing" else as_pil(array)
    shape = ImageShape(*size)
    torch.manual_seed(11)
    random.seed(11)
    own = Generators(seeded(11), random.Random(11))
    seeds = range(30 if size == (37, 53) else 10)
    for seed in seeds:  # one after the other: all positions of a block, normal numbers kept in between
        start = torch.get_rng_state()
        expected = outcome(theirs, image)
        end = torch.get_rng_state()

        torch.set_rng_state(start)
        assert_same_outcome(drawn(ours, shape, None, image), expected)
        assert torch.equal(torch.get_rng_state(), end)

        assert_same_outcome(drawn(ours, shape, own, image), expected)
        assert torch.equal(own.torch.get_state(), end)
        assert torch.equal(torch.get_rng_state(), end)

        with drawing(Generators(copied(start))) as held:
            assert isinstance(held, StreamGenerators)
            assert_same_outcome(drawn(ours, shape, held, image), expected)

        key = SEEDS[seed % len(SEEDS)] + seed if seed % 2 else seed
        key &= 2**63 - 1
        with kept_state():
            torch.manual_seed(key)
            expected = outcome(theirs, image)
            end = torch.get_rng_state()
        generators = keyed_generators(key)
        assert_same_outcome(drawn(ours, shape, generators, image), expected)
        assert torch.equal(generators.torch.get_state(), end)
        if seed % 4 == 0:
            for generator in (torch.default_generator, own.torch):
                torch.randn([seed % 7], generator=generator)


def copied(state: torch.Tensor) -> torch.Generator:
    generator = torch.Generator()
    generator.set_state(state)
    return generator


class kept_state:
    def __enter__(self) -> None:
        self.state = torch.get_rng_state()

    def __exit__(self, *_: Any) -> None:
        torch.set_rng_state(self.state)


@pytest.mark.parametrize("seeds", [False, True], ids=["a stream", "seeds of a batch"])
@pytest.mark.parametrize(
    ("scale", "ratio"), [((0.08, 1.0), (3 / 4, 4 / 3)), ([0.3, 4.0], [0.2, 5.0]), ((2.0, 3.0), (1.0, 1.0))]
)
def test_random_resized_crops(scale: Any, ratio: Any, seeds: bool) -> None:
    """A stream's crops and the state behind are torch's; crops that rarely or never fit among them."""
    transform = T.RandomResizedCrop(32, scale, ratio)
    sizes = random.Random(3)
    shapes = [ImageShape(sizes.choice([1, 7, 375, 500]), sizes.choice([1, 40, 333, 1000])) for _ in range(1500)]
    theirs, stream = seeded(5), MT19937Stream(seeded(5))
    for number, shape in enumerate(shapes):
        if seeds:
            stream, theirs = MT19937Stream.seeded(number), seeded(number)
        assert transform.draw(shape, StreamGenerators(stream)) == transform.draw(shape, Generators(theirs))
        if seeds:
            assert same(stream.generator(), theirs)
    assert same(stream.generator(), theirs)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=ident)
def test_hundreds_of_draws_equal_the_plain_path(case: tuple[str, dict[str, Any]]) -> None:
    name, arguments = case
    ours = getattr(T, name)(**arguments)
    pipeline = compile_pipeline(T.Compose([ours, T.RandomHorizontalFlip()]))
    plain, streamed = seeded(5), Generators(seeded(5))
    sizes = [(int(height), int(width)) for height, width in np.random.default_rng(0).integers(34, 900, (300, 2))]
    if name == "ElasticTransform":
        sizes = [(height // 9 + 30, width // 9 + 30) for height, width in sizes[:40]]
    for height, width in sizes:
        shape = ImageShape(height, width)
        steps = [*ours.draw(shape, Generators(plain))]
        steps += T.RandomHorizontalFlip().draw(shape, Generators(plain))
        assert pipeline.draw(shape, streamed).steps == tuple(steps)
    assert same(streamed.torch, plain)
    with drawing(Generators(seeded(5))) as held:
        again = [pipeline.draw(ImageShape(*size), held) for size in sizes]
        assert same(held.torch, plain)
    plain = seeded(5)
    for size, recipe in zip(sizes, again, strict=True):
        assert recipe.steps[: len(recipe.steps)] == pipeline.draw(ImageShape(*size), Generators(plain)).steps


@pytest.mark.parametrize(
    "composite",
    [
        lambda lib, members: lib.RandomOrder(members),
        lambda lib, members: lib.RandomChoice(members, p=[1, 0, 3, 0.5]),
        lambda lib, members: lib.RandomApply(members, p=0.5),
        lambda lib, members: lib.Compose([lib.RandomChoice(members), lib.RandomApply([lib.RandomOrder(members)])]),
    ],
)
def test_composites(composite: Any) -> None:
    def members(lib: Any) -> list[Any]:
        return [lib.RandomResizedCrop(20), lib.AugMix(), lib.RandomRotation(20), lib.ElasticTransform(9.0, 1.0)]

    theirs, ours = composite(V, members(V)), composite(T, members(T))
    image = as_pil(picture(37, 53))
    torch.manual_seed(3)
    random.seed(3)
    for _ in range(60):
        start = torch.get_rng_state(), random.getstate()
        expected = values(theirs(image))
        end = torch.get_rng_state(), random.getstate()
        torch.set_rng_state(start[0])
        random.setstate(start[1])
        np.testing.assert_array_equal(drawn(ours, ImageShape(37, 53), None, image), expected)
        assert torch.equal(torch.get_rng_state(), end[0])
        assert random.getstate() == end[1]
    for key in SEEDS:
        torch.manual_seed(key)
        random.seed(key)
        expected = values(theirs(image))
        generators = keyed_generators(key)
        np.testing.assert_array_equal(drawn(ours, ImageShape(37, 53), generators, image), expected)
        assert generators.python.getstate() == random.getstate()
        assert torch.equal(generators.torch.get_state(), torch.get_rng_state())


# Who else draws from the generators.


class Foreign:
    """A class of somebody else's, whose draw uses torch's functions, and built-in members in between."""

    def __init__(self, globally: bool = False) -> None:
        self.crop = T.RandomResizedCrop(9)
        self.globally = globally

    def draw(self, shape: ImageShape, generators: Generators) -> Any:
        assert generators.torch is None or type(generators.torch) is torch.Generator
        generator = None if self.globally else generators.torch
        first = torch.randn([1], generator=generator).item()
        crop = self.crop.draw(shape, generators)
        last = torch.rand([3], generator=generator).tolist()
        return (*crop, ops.AdjustGamma([first, *last, generators.python.random()]))

    def __call__(self, image: Any) -> Any:
        raise NotImplementedError


class Shouting(T.RandomRotation):
    """A subclass with a draw of its own that uses its base's."""

    def draw(self, shape: ImageShape, generators: Generators) -> Any:
        kept = generators.torch
        steps = super().draw(shape, generators)
        torch.rand(2, generator=kept)
        return steps


@pytest.mark.parametrize("kind", ["global", "own", "keyed", "held"])
@pytest.mark.parametrize("nested", [False, True])
def test_foreign_draws_take_their_turn(kind: str, nested: bool) -> None:
    members: list[Any] = [T.RandomResizedCrop(20), Foreign(kind == "global"), T.ColorJitter(0.4), Shouting(9)]
    transform: Any = T.Compose(members)
    if nested:
        transform = MultiView(T.RandomOrder([T.RandomApply(members, p=0.9), T.RandomChoice(members)]), 2)
    pipeline = compile_pipeline(transform)
    assert not pipeline.unplanned
    shape = ImageShape(300, 400)
    for key in range(30):
        torch.manual_seed(key)
        random.seed(key)
        with torch_alone():
            expected = [pipeline.draw(shape), pipeline.draw(shape)]
        end = torch.get_rng_state(), random.getstate()
        torch.manual_seed(key)
        random.seed(key)
        if kind == "global":
            given: Any = Generators()
            actual = [pipeline.draw(shape), pipeline.draw(shape)]
        elif kind == "held":
            with drawing() as given:
                assert isinstance(given, StreamGenerators)
                actual = [pipeline.draw(shape, given), pipeline.draw(shape, given)]
        else:
            given = Generators(seeded(key), random.Random(key)) if kind == "own" else keyed_generators(key)
            actual = [pipeline.draw(shape, given), pipeline.draw(shape, given)]
        assert actual == expected
        python = given.python.getstate()
        state = torch.get_rng_state() if kind in ("global", "held") else given.torch.get_state()
        assert torch.equal(state, end[0])
        assert python == end[1]


class torch_alone:
    """Draws without stream."""

    def __enter__(self) -> None:
        self.usable = generators_module.usable
        generators_module.usable = lambda: False

    def __exit__(self, *_: Any) -> None:
        generators_module.usable = self.usable


def test_generators_that_were_handed_out_stay_in_step() -> None:
    generators, theirs = keyed_generators(77), seeded(77)
    T.RandomResizedCrop(9).draw(ImageShape(30, 40), generators)
    T.RandomResizedCrop(9).draw(ImageShape(30, 40), Generators(theirs))
    taken = generators.torch
    assert same(taken, theirs)
    for _ in range(3):
        assert torch.equal(torch.rand(2, generator=taken), torch.rand(2, generator=theirs))
        one = T.RandomResizedCrop(9).draw(ImageShape(30, 40), generators)
        assert one == T.RandomResizedCrop(9).draw(ImageShape(30, 40), Generators(theirs))
    assert generators.torch is taken
    assert generators.python.random() == random.Random(77).random()
    assert type(pickle.loads(pickle.dumps(generators))) is Generators
    assert same(copy.deepcopy(generators).torch, theirs)
    assert generators == generators
    assert "StreamGenerators" in repr(generators)


def test_an_error_leaves_what_was_drawn_used_up() -> None:
    pipeline = compile_pipeline(T.Compose([T.RandomHorizontalFlip(), T.RandomCrop(50)]))
    for own in (None, Generators(seeded(4))):
        torch.manual_seed(4)
        with pytest.raises(ValueError, match="Required crop size"):
            pipeline.draw(ImageShape(20, 20), own)
        theirs = seeded(4)
        torch.rand(1, generator=theirs)
        state = torch.get_rng_state() if own is None else own.torch.get_state()
        assert torch.equal(state, theirs.get_state())


def test_one_draw_within_another() -> None:
    torch.manual_seed(9)
    theirs = seeded(9)
    with drawing() as outer:
        first = T.RandomRotation(9).draw(ImageShape(9, 9), outer)
        with drawing() as inner:
            second = T.RandomRotation(9).draw(ImageShape(9, 9), inner)
        third = T.RandomRotation(9).draw(ImageShape(9, 9), outer)
    assert (first, second, third) == tuple(
        T.RandomRotation(9).draw(ImageShape(9, 9), Generators(theirs)) for _ in "123"
    )
    assert torch.equal(torch.get_rng_state(), theirs.get_state())


def test_threads_never_draw_the_same_numbers() -> None:
    pipeline = compile_pipeline(T.RandomRotation(180))
    torch.manual_seed(2)
    angles: list[float] = []

    def work() -> None:
        for _ in range(500):
            angles.append(pipeline.draw(ImageShape(9, 9)).steps[0]["angle"])  # noqa: PERF401

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sorted(angles) == sorted(torch.empty(2000).uniform_(-180, 180, generator=seeded(2)).tolist())


@pytest.mark.needs_fork
def test_a_fork_while_another_thread_draws() -> None:
    code = """
import os, threading, torch
import fastpipe.transforms as T
from fastpipe.transforms.pipeline import compile_pipeline
from fastpipe.rng import drawing
from fastpipe.types import ImageShape
pipeline = compile_pipeline(T.RandomRotation(9))
pipeline.draw(ImageShape(9, 9))
holds, done = threading.Event(), threading.Event()
def hold():
    with drawing():
        holds.set(); done.wait()
thread = threading.Thread(target=hold); thread.start(); holds.wait()
child = os.fork()
if not child:
    pipeline.draw(ImageShape(9, 9)); os._exit(7)
status = os.waitpid(child, 0)[1]; done.set(); thread.join()
assert os.waitstatus_to_exitcode(status) == 7
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("targets_draw", [False, True])
def test_datasets(tmp_path: Path, threads: int, targets_draw: bool) -> None:
    """One by one and in batches: torchvision's samples, and its generators behind each."""
    folder = tmp_path / "a"
    folder.mkdir()
    for number in range(20):
        as_pil(picture(40 + number, 70 - number, seed=number)).save(folder / f"{number:02}.png")

    def members(lib: Any) -> list[Any]:
        mixed = lib.RandomChoice(
            [lib.RandomGrayscale(0.5), lib.RandomOrder([lib.RandomVerticalFlip(), lib.RandomCrop(20)])]
        )
        return [
            lib.RandomResizedCrop(20),
            lib.RandomHorizontalFlip(),
            mixed,
            lib.ToTensor(),
            lib.RandomErasing(value="random"),
        ]

    def noisy(target: int) -> float:
        return float(torch.randn([1]).item())

    target_transform = noisy if targets_draw else None
    theirs = torchvision.datasets.ImageFolder(str(tmp_path), V.Compose(members(V)), target_transform)
    ours = fastpipe.ImageFolder(tmp_path, T.Compose(members(T)), target_transform, threads=threads)
    for order in (range(20), [3, 3, 19, 0]):
        torch.manual_seed(5)
        random.seed(5)
        expected = [theirs[index] for index in order]
        end = torch.get_rng_state(), random.getstate()
        for one_by_one in (True, False):
            torch.manual_seed(5)
            random.seed(5)
            actual: Any = [ours[index] for index in order] if one_by_one else ours.__getitems__(list(order))
            assert torch.equal(torch.get_rng_state(), end[0])
            assert random.getstate() == end[1]
            for (image, target), (their_image, their_target) in zip(actual, expected, strict=True):
                assert torch.equal(image, their_image)
                assert target == their_target
        torch.manual_seed(5)
        random.seed(5)
        state = torch.get_rng_state()
        recipe = ours.recipe(order[0])
        assert torch.equal(torch.get_rng_state(), state)
        replayed = ours.replay(recipe)[0]
        assert torch.equal(replayed, expected[0][0])


# Where streams can't be had, torch is called one by one.


@pytest.fixture
def unknown_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if this torch's generator were laid out in another way."""
    import struct

    matches_torch.cache_clear()
    monkeypatch.setattr(mt19937_module, "_HEAD", struct.Struct("=QQii"))
    yield
    monkeypatch.undo()
    matches_torch.cache_clear()


@pytest.mark.usefixtures("unknown_torch")
@pytest.mark.parametrize("case", RANDOM, ids=ident)
def test_fallback(case: tuple[str, dict[str, Any]]) -> None:
    assert not matches_torch()
    name, arguments = case
    theirs, ours = getattr(V, name)(**arguments), getattr(T, name)(**arguments)
    image = as_pil(picture(37, 53))
    for seed in range(5):
        torch.manual_seed(seed)
        expected = outcome(theirs, image)
        end = torch.get_rng_state()
        torch.manual_seed(seed)
        assert_same_outcome(drawn(ours, ImageShape(37, 53), None, image), expected)
        assert torch.equal(torch.get_rng_state(), end)
        generators = keyed_generators(seed)
        assert type(generators) is Generators
        assert_same_outcome(drawn(ours, ImageShape(37, 53), generators, image), expected)
        assert torch.equal(generators.torch.get_state(), end)
