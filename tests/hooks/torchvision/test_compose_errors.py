"""Errors under `fastpipe.install`: the user's, fastpipe's own, those of broken files and of signals' handlers."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import signal
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from hooks.composed import RECIPES, opened, outcome, seeded
from PIL import Image
from torch.utils.data import DataLoader
from torchvision_here import module

import fastpipe
from fastpipe import core, ops
from fastpipe.errors import CoreError
from fastpipe.rng.state import GeneratorStates

T, v2 = module("torchvision.transforms"), module("torchvision.transforms.v2")

pytestmark = pytest.mark.usefixtures("fresh_ledger")


def test_an_error_of_ours_is_never_the_user_s(varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from fastpipe.transforms import compose_plan

    plain, plain_state = outcome(RECIPES["training"](), opened(varied_photos))

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise AttributeError("a mistake of ours")

    monkeypatch.setattr(compose_plan, "run_on_image", broken)
    with fastpipe.install(check=0):
        made, state = outcome(RECIPES["training"](), opened(varied_photos))
    assert all(map(torch.equal, made, plain))
    assert state.draws_like(plain_state)


@pytest.mark.parametrize("kind", [AttributeError, TypeError, CoreError])
def test_a_step_of_ours_that_fails_is_done_by_pillow_and_reported(
    varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    transforms = T.Compose([T.Resize(41), T.ToTensor()]), T.Resize(43), v2.Compose([v2.Resize(45), v2.ToImage()])
    with Image.open(varied_photos[0]) as image:
        plain = [np.asarray(transform(image.convert("RGB"))) for transform in transforms]

    def broken(*args: Any) -> Any:
        raise kind("a mistake of ours")

    monkeypatch.setattr(ops.Resize, "to_core", broken)
    with fastpipe.install(check=0):
        made = [np.asarray(transform(Image.open(varied_photos[0]).convert("RGB"))) for transform in transforms]
    assert all(map(np.array_equal, made, plain))
    if core.available():
        assert "a mistake of ours" in str(fastpipe.report())


def _too_large() -> list[Any]:
    return [v2.RandomCrop(500), v2.ToImage()]


class TimeIsUp(Exception):
    pass


def _stop(*_: object) -> None:
    raise TimeIsUp


class _Stopper:
    def method(self, number: int, frame: object) -> None:
        raise TimeIsUp

    def __call__(self, number: int, frame: object) -> None:
        raise TimeIsUp


LIMITED: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "v1": lambda: T.Compose([T.Resize(41), T.ToTensor()]),
    "v2": lambda: v2.Compose([v2.Resize(41), v2.ToImage()]),
    "v2, sample": lambda: lambda image: v2.Compose([v2.Resize(41), v2.ToImage()])(image, {"label": 1}),
    "transform": lambda: lambda image: np.asarray(T.Resize(41)(image)),
    "method": lambda: lambda image: image.resize((30, 31)).tobytes(),
    "batch": lambda: lambda image: next(iter(DataLoader([image] * 2, 2, collate_fn=_stacked))),
}


def _stacked(images: list[Any]) -> Any:
    return torch.stack([T.ToTensor()(T.Resize((41, 42))(image)) for image in images])


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs SIGALRM")
@pytest.mark.parametrize("check", [0, 2])
@pytest.mark.parametrize(
    ("name", "handler"),
    [
        *((name, _stop) for name in LIMITED),
        ("v1", _Stopper().method),
        ("v1", _Stopper()),
        ("v1", functools.partial(_stop, 1)),
    ],
)
@pytest.mark.needs_core
def test_what_a_signal_s_handler_raises_is_the_user_s(
    varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch, name: str, check: int, handler: Callable[..., object]
) -> None:
    plain = ops.Resize.to_core

    def interrupted(*args: Any) -> Any:
        signal.raise_signal(signal.SIGALRM)
        return plain(*args)

    before = signal.signal(signal.SIGALRM, handler)
    monkeypatch.setattr(ops.Resize, "to_core", interrupted)
    try:
        with fastpipe.install(check=check), pytest.raises(TimeIsUp):
            LIMITED[name]()(Image.open(varied_photos[4]).convert("RGB"))
    finally:
        signal.signal(signal.SIGALRM, before)


MISTAKES: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "v1": lambda: T.Compose([T.RandomCrop(500), T.ToTensor()]),
    "v2": lambda: v2.Compose(_too_large()),
    "v2, sample": lambda: lambda image: v2.Compose(_too_large())(image, {"label": 1}),
    "a box of two": lambda: lambda image: image.crop((1, 2)),
    "a box that ends before it begins": lambda: lambda image: image.crop((5, 5, 2, 2)),
    "no size": lambda: lambda image: image.resize((0, -1)),
    "an unknown filter": lambda: lambda image: image.resize((9, 9), 77),
    "an unknown mode": lambda: lambda image: image.convert("XX"),
    "no filter": lambda: lambda image: image.filter(3),
    "functional": lambda: lambda image: T.functional.crop(image, 1, 2, "a", 3),
    "hue": lambda: lambda image: T.functional.adjust_hue(image, 3),
}


@pytest.mark.parametrize("check", [0, 2])
@pytest.mark.parametrize("name", MISTAKES)
def test_errors_of_the_user_s_are_the_library_s(varied_photos: list[Path], name: str, check: int) -> None:
    def raised() -> list[tuple[str, BaseException | None, BaseException | None]]:
        found = []
        for opened_file in (True, False):
            image = Image.open(varied_photos[0])
            with pytest.raises((IndexError, TypeError, ValueError)) as caught:
                MISTAKES[name]()(image if opened_file else image.convert("RGB"))
            found.append((repr(caught.value), caught.value.__cause__, caught.value.__context__))
        return found

    expected = raised()
    assert {context for _, _, context in expected} == {None}
    with fastpipe.install(check=check):
        assert raised() == expected


@pytest.mark.parametrize("name", MISTAKES)
def test_an_image_that_a_call_refused_is_gone_at_once(varied_photos: list[Path], name: str) -> None:
    is_gone = False
    with fastpipe.install(check=0):
        gc.disable()
        try:
            for _ in range(2):  # what is imported at the first call may leave rings
                image = Image.open(varied_photos[4]).convert("RGB")
                with contextlib.suppress(IndexError, TypeError, ValueError):
                    MISTAKES[name]()(image)
                left = weakref.ref(image)
                del image
                is_gone = left() is None
        finally:
            gc.enable()
    assert is_gone


def _broken_png(mode: str) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8)
    image = Image.fromarray(pixels) if mode == "RGB" else Image.fromarray(pixels[..., 0].astype(np.uint16) * 257)
    file = io.BytesIO()
    image.save(file, "PNG")
    data = bytearray(file.getvalue())
    data[data.index(b"IDAT") + 3000] ^= 0x55
    return bytes(data)


def _jpeg_without_its_code(byte: int) -> bytes:
    """A baseline JPEG in which the first Huffman code has more codes of a length than there can be."""
    data = bytearray(corpus.jpeg(60, 80, "420", 0))
    data[data.index(b"\xff\xc4") + 5 + byte] = 0xFF
    return bytes(data)


BROKEN = {
    "PNG": lambda: _broken_png("RGB"),
    "PNG of 16 bits": lambda: _broken_png("I;16"),
    "JPEG": lambda: _jpeg_without_its_code(0),
    "JPEG that ends early": lambda: corpus.jpeg(60, 80, "420", 0)[:-400],
}
_CROP = v2.Compose([v2.RandomCrop(30, pad_if_needed=True), v2.ToImage()])
_DISTORTED = v2.Compose([v2.ColorJitter(hue=0.5), v2.ToImage()])


def _on_sample(image: Any) -> Any:
    return _CROP({"image": image, "label": 1})


ON_BROKEN: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "v1": lambda: T.Compose([T.RandomResizedCrop(24), T.ColorJitter(0.4, 0.4, 0.4), T.ToTensor()]),
    "v2": lambda: v2.Compose([v2.RandomCrop(30, pad_if_needed=True), v2.RandomRotation(20), v2.ToImage()]),
    "v2, sample": lambda: _on_sample,
    "convert": lambda: lambda image: image.convert("RGB") and 1,
    "flip": lambda: lambda image: T.functional.hflip(image) and 1,
    "hue, sample": lambda: lambda image: _DISTORTED({"image": image, "label": 1})["image"],
}


@pytest.mark.parametrize("check", [0, 2])
@pytest.mark.parametrize("name", ON_BROKEN)
@pytest.mark.parametrize("file", BROKEN)
def test_a_broken_file_raises_where_pillow_raises(file: str, name: str, check: int) -> None:
    def told(call: Callable[[Any], Any]) -> tuple[str, GeneratorStates]:
        """The error, and where the generators are after it, of a call and of one more on the same image."""
        seeded()
        words = []
        try:
            image = Image.open(io.BytesIO(data))
        except Exception as error:
            return repr(error), GeneratorStates.of()
        for _ in range(2):
            try:
                made = call(image)
                words.append(made.tolist() if isinstance(made, torch.Tensor) else str(made))
            except Exception as error:
                words.append(f"{error!r}, {error.__context__!r}")
        return repr(words), GeneratorStates.of()

    data = BROKEN[file]()
    expected, state = told(ON_BROKEN[name]())
    assert "Error" in expected
    with fastpipe.install(check=check):
        made, after = told(ON_BROKEN[name]())
    assert made == expected
    assert after.draws_like(state)
