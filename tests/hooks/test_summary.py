"""The report of what was taken over, as somebody reads it."""

from __future__ import annotations

import io
import time
from typing import Any

import corpus
import pytest
import torch
from PIL import Image
from torchvision_here import module

import fastpipe
from fastpipe.hooks import checking
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.hooks.summary import Report, before_ms, gain

T = module("torchvision.transforms")


def text_of(*sites: Site) -> str:
    """The report in one line."""
    return " ".join(str(Report(sites, ())).split())


def site(name: str, images: int, plain_seconds: float, **more: Any) -> Site:
    """A transform of which two images were checked, whose images take a millisecond."""
    timed = {"timed": images, "seconds": images / 1e3, "fast_seconds": 1e-3, "checked": 2}
    return Site("transform", name, images, **timed, plain_seconds=plain_seconds, **more)


def test_what_gains_little_stands_first() -> None:
    found = text_of(site("Fast", 900, 4e-3), site("Slow", 30, 1.2e-3), site("Faster", 1000, 9e-3))
    assert found.index("Slow") < found.index("Faster") < found.index("Fast ")
    assert "Slow 30 1.20 1.00 1.2 2: the same" in found


def test_what_has_no_time_of_its_own_has_no_row() -> None:
    found = text_of(Site("function", "PIL.Image.open", 1234), site("Compose", 1234, 4e-3))
    assert "PIL.Image.open: 1,234 images taken over, not timed by itself." in found
    assert "–" not in found


def test_a_loader_says_for_how_long_it_was_waited_for() -> None:
    found = text_of(Site("loader", "DataLoader(Photos)", 448, waited=3, running=4), site("Compose", 448, 4e-3))
    assert "DataLoader(Photos): 448 images; the script waited for their batches 75% of 4.0 s." in found


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.needs_core
def test_the_time_before_has_the_decode_in_it(monkeypatch: pytest.MonkeyPatch, alone: bool) -> None:
    def slowly(image: Any) -> Any:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        return Image.open(io.BytesIO(data)).convert("RGB")

    data = corpus.jpeg(60, 80, seed=1)
    monkeypatch.setattr(LEDGER, "_sites", {})
    monkeypatch.setattr(LEDGER, "_folder", None)  # with what workers of other tests have left
    monkeypatch.setattr("fastpipe.pillow.lazy_image.shadow_of", slowly)
    transform = T.ToTensor() if alone else T.Compose([T.Resize(32), T.ToTensor()])
    with fastpipe.install(check=3):
        for _ in range(4):
            assert isinstance(transform(Image.open(io.BytesIO(data)).convert("RGB")), torch.Tensor)
    (found,) = [one for one in fastpipe.report().sites if one.checked and "open" not in one.name]
    assert found.plain_seconds >= 0.04
    assert checking.plain_image(Image.new("RGB", (1, 1)))[1] >= 0.02
    assert gain(found) is not None
    assert before_ms(found) is not None
