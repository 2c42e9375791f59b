"""`fastpipe.is_pending`: no pixels until somebody looks at them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import corpus
import numpy as np
import pytest
from PIL import Image

import fastpipe

PHOTO = corpus.jpeg(97, 131, "420", seed=5)


@pytest.mark.needs_core
@pytest.mark.parametrize("start", [lambda image: image, lambda image: image.convert("RGB").resize((9, 9))])
def test_an_image_is_pending_until_it_is_looked_at(start: Callable[[Any], Any]) -> None:
    image = start(fastpipe.open_image(PHOTO))
    _ = image.size, image.mode, image.info, image.getexif(), repr(image), image.crop((0, 0, 3, 3)), image.load()
    assert fastpipe.is_pending(image)
    image.getpixel((0, 0))
    assert not fastpipe.is_pending(image)
    assert image.tobytes() == start(Image.open(io.BytesIO(PHOTO))).tobytes()


def test_a_closed_image_waits_for_nothing() -> None:
    image = fastpipe.open_image(PHOTO)
    image.close()
    assert not fastpipe.is_pending(image)


@pytest.mark.parametrize("thing", [Image.new("RGB", (3, 3)), np.zeros(3), None, int, fastpipe])
def test_nothing_else_is_pending(thing: Any) -> None:
    assert not fastpipe.is_pending(thing)
