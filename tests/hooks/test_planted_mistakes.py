"""Errors planted in fastpipe's own ways: the script goes on by the library's own, and the report says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hooks.composed import T, v2
from PIL import Image, ImageFilter

import fastpipe
from fastpipe import core
from fastpipe.hooks.ledger import LEDGER

pytestmark = [
    pytest.mark.usefixtures("fresh_ledger"),
    pytest.mark.skipif(not core.available(), reason="only the core's ways can fail"),
]

PLACES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "a function of images": (
        "fastpipe.hooks.pillow.image_functions.our_function",
        lambda path: Image.fromarray(np.asarray(Image.open(path).convert("RGB"))).filter(ImageFilter.GaussianBlur(2)),
    ),
    "what a function takes": (
        "fastpipe.hooks.pillow.image_functions.ImageFunction.takes",
        lambda path: Image.fromarray(np.asarray(Image.open(path).convert("RGB"))).filter(ImageFilter.GaussianBlur(2)),
    ),
    "a Compose": (
        "fastpipe.transforms.compose_plan.draw_and_run",
        lambda path: T.Compose([T.RandomCrop(20), T.ToTensor()])(Image.open(path).convert("RGB")),
    ),
    "v2's Compose": (
        "fastpipe.transforms.compose_plan.draw_and_run",
        lambda path: v2.Compose([v2.RandomCrop(20), v2.ToImage()])(Image.open(path).convert("RGB")),
    ),
    "v2's Compose of a sample": (
        "fastpipe.transforms.v2._planned._with_pixels",
        lambda path: v2.Compose([v2.RandomCrop(20), v2.ToImage()])(Image.open(path).convert("RGB"), {"a": 1})[0],
    ),
}


def planted(error: type[BaseException]) -> Callable[..., Any]:
    def fails(*args: Any, **options: Any) -> Any:
        raise error("planted")

    return fails


@pytest.mark.parametrize("check", [0, 1])
@pytest.mark.parametrize("place", PLACES)
def test_the_library_s_own_way_is_taken_and_reported(
    place: str, check: int, varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, call = PLACES[place]
    torch.manual_seed(0)
    expected, drawn = np.asarray(call(varied_photos[0])), torch.rand(1)
    with fastpipe.install(check=check):
        call(varied_photos[0])  # imports what is planted in
        monkeypatch.setattr(target, planted(RuntimeError))
        LEDGER._sites.clear()
        torch.manual_seed(0)
        made, after = np.asarray(call(varied_photos[0])), torch.rand(1)
    np.testing.assert_array_equal(made, expected)
    assert torch.equal(after, drawn)
    reasons = [reason for site in fastpipe.report().sites for reason in site.left]
    assert any("RuntimeError: planted" in reason for reason in reasons), reasons


@pytest.mark.parametrize("error", [MemoryError, RecursionError, KeyboardInterrupt])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_nobody_s_mistake_passes(
    place: str, error: type[BaseException], varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, call = PLACES[place]
    with fastpipe.install(check=0):
        call(varied_photos[0])
        monkeypatch.setattr(target, planted(error))
        with pytest.raises(error, match="planted"):
            call(varied_photos[0])
