"""Marks: who hears them, and that every piece of a sample's work has one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import corpus
import pytest
from PIL import Image

import fastpipe
from fastpipe import transforms as T
from fastpipe.executor import BatchSpec
from fastpipe.ops import Operation
from fastpipe.program import mark, profile


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    (root / "a").mkdir()
    for number in range(3):
        (root / "a" / f"{number}.jpg").write_bytes(corpus.jpeg(60, 80, seed=number))
    return root


def turned(image: Image.Image) -> Image.Image:
    return image.rotate(3)


def marks_of(work: Callable[[], object]) -> list[str]:
    heard: list[str] = []
    with profile(
        lambda done: heard.append(done if isinstance(done, str) else getattr(done, "op", type(done).__name__))
    ):
        work()
    return heard


def test_nobody_listens_outside_the_block() -> None:
    heard: list[object] = []
    with profile(heard.append):
        mark("inside")
    mark("outside")
    assert heard == ["inside"]


def test_a_planned_sample(root: Path) -> None:
    transform = T.Compose([T.Resize(40), T.CenterCrop(32), T.GaussianBlur(3), T.ToTensor()])
    dataset = fastpipe.ImageFolder(root, transform)
    assert marks_of(lambda: dataset[0]) == [
        *("look-up", "read", "header", "draw", "plan", "decode"),
        *("resize", "gaussian_blur", "to_tensor", "to PIL"),
    ]


def test_a_planned_batch(root: Path) -> None:
    transform = T.Compose([T.Resize((20, 20)), T.ToTensor(), T.RandomErasing(1.0)])
    dataset = fastpipe.ImageFolder(root, transform, target_transform=lambda target: target + 1)

    def work() -> None:
        dataset.batch([0, 1], BatchSpec())

    one = ["read", "header", "draw", "target", "decode", "resize", "to_tensor", "erase"]
    heard = marks_of(work)  # the samples are looked up together and read, then drawn and planned, then made
    assert sorted(heard) == sorted(["look-up", "plan", *one * 2])
    assert heard.index("draw") > max(at for at, word in enumerate(heard) if word == "header")


def test_what_is_not_planned(root: Path) -> None:
    def loader(path: str) -> str:
        return path

    planned = fastpipe.ImageFolder(root, T.Compose([T.Resize(30), turned, T.Lambda(turned)]))
    assert marks_of(lambda: planned[0])[-4:] == ["to PIL", "function", "Lambda", "target"]
    own = fastpipe.ImageFolder(root, T.Lambda(lambda path: path), loader=loader)
    assert marks_of(lambda: own[0]) == ["look-up", "decode", "Lambda", "target"]


def test_time_goes_to_the_piece_that_took_it(root: Path) -> None:
    @dataclass(frozen=True)
    class Slow(Operation):
        op = "slow"

        def apply(self, image: object) -> object:
            time.sleep(0.05)
            return image

    class SlowTransform:
        def draw(self, shape: object, generators: object) -> tuple[Operation, ...]:
            return (Slow(),)

        def __call__(self, image: object) -> object:
            return image

    dataset = fastpipe.ImageFolder(root, T.Compose([SlowTransform(), T.ToTensor()]))
    times: dict[str, float] = {}
    last = time.perf_counter()

    def note(done: object) -> None:
        nonlocal last
        now = time.perf_counter()
        times[getattr(done, "op", str(done))] = now - last
        last = now

    dataset[0]  # what is imported and compiled once
    last = time.perf_counter()
    with profile(note):
        dataset[0]
    assert max(times, key=lambda name: times[name]) == "slow"
    assert times["slow"] >= 0.05
