"""Images without pixels hold few open files, and a file's bytes only where they are less than the pixels."""

from __future__ import annotations

import gc
import io
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus
import pytest
from PIL import Image

import fastpipe
from fastpipe.pillow import lazy_file
from fastpipe.pillow.held import MOST_OPEN, Held
from fastpipe.pillow.image_record import source_of

pytestmark = pytest.mark.needs_core

PHOTO = corpus.jpeg(97, 131, "420", seed=5)
LARGE = corpus.jpeg(400, 500, "420", seed=6)


@pytest.fixture
def opener() -> Iterator[None]:
    with fastpipe.register_pillow_opener():
        yield


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are counted in /proc")
@pytest.mark.usefixtures("opener")
@pytest.mark.parametrize("data", [PHOTO, corpus.files()["jpeg-progressive"], corpus.files()["png-rgb"]])
def test_images_that_nobody_reads_hold_few_files(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(data)
    before = len(os.listdir("/proc/self/fd"))
    images: list[Any] = [Image.open(path) for _ in range(3 * MOST_OPEN)]
    assert len(os.listdir("/proc/self/fd")) <= before + MOST_OPEN * 9 // 8 + 2
    path.unlink()
    fastpipe.unregister_pillow_opener()
    path.write_bytes(data)
    expected = Image.open(path)
    path.unlink()
    for image in images:
        assert image.fp is not None
        assert not image.fp.closed
        assert (image.size, image.info, image.filename) == (expected.size, expected.info, expected.filename)
        assert image.tobytes() == expected.tobytes()
        assert image.fp is None
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_small_parts_that_are_kept_hold_their_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_file.BYTES, "most", 10 * len(LARGE))
    kept, sources = [], []
    for number in range(40):
        image = fastpipe.open_image(LARGE).convert("RGB").crop((number, 3, number + 30, 43))
        kept.append(image)
        sources.append(weakref.ref(source_of(image)))
        del image
    gc.collect()
    pending = [fastpipe.is_pending(image) for image in kept]
    assert pending == sorted(pending)
    assert 10 <= sum(pending) <= 12
    assert [source() is not None for source in sources] == pending
    for number, image in enumerate(kept):
        plain = Image.open(io.BytesIO(LARGE))
        assert image.tobytes() == plain.crop((number, 3, number + 30, 43)).tobytes()


def test_images_that_are_larger_than_their_files_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_file.BYTES, "most", 0)
    images = [fastpipe.open_image(LARGE).convert("RGB") for _ in range(5)]
    assert all(map(fastpipe.is_pending, images))


def test_a_file_that_cannot_be_decoded_raises_for_who_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_file.BYTES, "most", 0)
    data = corpus.png_that_does_not_inflate(97, 131)
    broken = fastpipe.open_image(data).crop((0, 0, 8, 8))
    for _ in range(3):
        fastpipe.open_image(LARGE).crop((0, 0, 8, 8))
    with pytest.raises(OSError, match="broken data stream"):
        Image.open(io.BytesIO(data)).crop((0, 0, 8, 8))
    with pytest.raises(OSError, match="broken data stream"):
        broken.tobytes()


class Thing:
    """Something that can be held."""


def test_threads_may_add_at_once() -> None:
    let_go: list[Any] = []
    held: Held[Thing] = Held(10, let_go.append)
    things = [Thing() for _ in range(4000)]

    def add(first: int) -> None:
        for thing in things[first::4]:
            held.add(thing)

    threads = [threading.Thread(target=add, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(let_go) == len({*map(id, let_go)})
    assert 3900 <= len(let_go) <= 3992


def test_what_has_gone_lets_nothing_go() -> None:
    let_go: list[Any] = []
    held: Held[Thing] = Held(10, let_go.append)
    for _ in range(100):
        held.add(Thing())
    assert not let_go
