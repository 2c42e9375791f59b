"""A file's parts are decoded by themselves, or all from one decode, whichever is less."""

from __future__ import annotations

import io
import threading
from typing import Any

import corpus
import numpy as np
import pytest
from PIL import Image

import fastpipe
from fastpipe.program import encoded_image
from fastpipe.program import parts as parts_module
from fastpipe.program.core_job import Encoded
from fastpipe.program.parts import Parts
from fastpipe.program.program import Program
from fastpipe.readers import parse_header
from fastpipe.types import Box, ImageShape

PHOTO = corpus.jpeg(100, 120, "420", seed=3)
HEADER = parse_header(PHOTO)
SMALL, HALF, LARGE = Box(0, 0, 20, 20), Box(0, 0, 50, 120), Box(10, 10, 90, 100)


@pytest.fixture(autouse=True)
def _no_files_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "_last_files", parts_module._LastFiles())


def _decisions(*boxes: Box, expected: int | None = None) -> list[bool]:
    parts = Parts(HEADER)
    if expected is not None:
        parts.expect(expected)
    made: list[bool] = []
    for box in boxes:
        program = Program(ImageShape(*HEADER.size), box, (), None, (), ImageShape(*box.size))
        made.append(parts.add(program, whole_is_there=any(made)))
    return made


def test_the_whole_is_decoded_where_parts_have_taken_longer() -> None:
    assert _decisions(LARGE) == [False]
    assert _decisions(LARGE, SMALL) == [False, False]
    assert _decisions(LARGE, LARGE, LARGE) == [False, True, False]
    assert _decisions(SMALL, SMALL, SMALL) == [False] * 3


def test_what_is_told_decides_at_the_first_part() -> None:
    assert _decisions(LARGE, LARGE, expected=2) == [True, False]
    assert _decisions(SMALL, SMALL, expected=2) == [False, False]
    assert _decisions(HALF, HALF, HALF, expected=3) == [True, False, False]


def test_files_are_taken_to_be_wanted_as_the_last_ones() -> None:
    for _ in range(4):
        assert _decisions(LARGE, LARGE) == [False, True]
    assert _decisions(LARGE, LARGE) == [True, False]
    assert _decisions(SMALL, SMALL) == [False, False]
    assert _decisions(LARGE) == [True]
    for _ in range(4):  # one of them had one part
        assert _decisions(LARGE, LARGE) == [False, True]
    assert _decisions(LARGE, LARGE) == [True, False]


def test_other_threads_files_are_others() -> None:
    for _ in range(5):
        _decisions(LARGE, LARGE)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(_decisions(LARGE, LARGE)))
    thread.start()
    thread.join()
    assert found == [[False, True]]
    assert _decisions(LARGE, LARGE) == [True, False]


@pytest.mark.needs_core
def test_views_of_a_photo_are_decoded_once_and_are_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    decodes: list[int] = []
    plain = encoded_image.decode_by_core

    def decode(*given: Any, encoded: Any, **options: Any) -> Any:
        if isinstance(encoded, Encoded):  # else the pixels are there
            decodes.append(1)
        return plain(*given, encoded=encoded, **options)

    monkeypatch.setattr(encoded_image, "decode_by_core", decode)
    expected = Image.open(io.BytesIO(PHOTO)).convert("RGB")
    boxes = [(10, 10, 110, 100), (0, 5, 100, 95), (3, 0, 90, 80)]
    numbers = []
    with fastpipe.register_pillow_opener():
        for _ in range(6):
            image = Image.open(io.BytesIO(PHOTO)).convert("RGB")
            for box in boxes:
                made = np.asarray(image.crop(box).resize((30, 20)))
                np.testing.assert_array_equal(made, np.asarray(expected.crop(box).resize((30, 20))))
            numbers.append(len(decodes))
            decodes.clear()
    assert numbers == [2, 2, 2, 2, 1, 1]
