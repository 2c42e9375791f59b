"""Images without pixels are Pillow's: the same bytes, modes, sizes, info and errors, whatever is done to them."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageFile
from pillow.outcomes import both, shown
from torchvision_here import torchvision

import fastpipe
from fastpipe import core
from fastpipe.pillow.lazy_image import LazyImage
from fastpipe.pillow.lazy_source import LazySource
from fastpipe.program import parts
from fastpipe.transforms import functional

FILES = corpus.files()
PHOTO = corpus.jpeg(97, 131, "420", seed=5)
PNG = corpus.save(corpus.photo(97, 131, 6), "PNG")
Change = Callable[[Any], Any]


CHANGES: dict[str, Change] = {
    "as it is": lambda image: image,
    "RGB": lambda image: image.convert("RGB"),
    "L": lambda image: image.convert("L"),
    "a crop": lambda image: image.crop((1, 2, image.width // 2 + 2, image.height // 2 + 3)),
    "a crop in RGB": lambda image: image.convert("RGB").crop((0, 0, max(1, image.width // 2), image.height)),
    "smaller": lambda image: image.convert("RGB").resize((9, 7)),
    "a view": lambda image: image.convert("RGB").crop((0, 0, 12, 9)).resize((20, 20), 2).transpose(0),
}


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_as_pillow_opens_it(name: str) -> None:
    for change in CHANGES.values():
        theirs, ours = both(FILES[name], change)
        assert ours == theirs
    told = both(FILES[name], lambda image: (image.format, image.mode, image.size, image.info, dict(image.getexif())))
    assert told[0] == told[1]


@pytest.mark.needs_core
def test_a_lazy_image_is_a_plain_one_behind_its_pixels() -> None:
    image = fastpipe.open_image(PHOTO).crop((1, 2, 30, 40))
    assert isinstance(image, Image.Image)
    assert type(image) is LazyImage
    assert repr(type(image)) == repr(Image.Image)
    image.load()[0, 0]
    assert type(image) is Image.Image
    assert "_fastpipe" not in vars(image)
    assert shown(image) == shown(Image.open(io.BytesIO(PHOTO)).crop((1, 2, 30, 40)))


def test_images_are_equal_as_pillows_are() -> None:
    theirs = Image.open(io.BytesIO(PHOTO)).crop((1, 2, 30, 40))
    for left, right in (
        (theirs, fastpipe.open_image(PHOTO).crop((1, 2, 30, 40))),
        (fastpipe.open_image(PHOTO).crop((1, 2, 30, 40)), theirs),
        (fastpipe.open_image(PHOTO).crop((1, 2, 30, 40)), fastpipe.open_image(PHOTO).crop((1, 2, 30, 40))),
        (fastpipe.open_image(PHOTO), Image.open(io.BytesIO(PHOTO))),
        (Image.open(io.BytesIO(PHOTO)), fastpipe.open_image(PHOTO)),
    ):
        assert left == right
    assert fastpipe.open_image(PHOTO).crop((1, 2, 30, 41)) != theirs
    assert fastpipe.open_image(PHOTO) != theirs
    assert theirs != 3
    cut = fastpipe.open_image(PHOTO[: len(PHOTO) // 2])
    assert cut != fastpipe.open_image(corpus.jpeg(5, 4, "420"))  # whose size tells it
    with pytest.raises(TypeError):
        hash(fastpipe.open_image(PHOTO).copy())
    with pytest.raises(TypeError):
        hash(fastpipe.open_image(PHOTO).copy())


def test_what_is_drawn_on_one_is_not_on_the_others() -> None:
    image = fastpipe.open_image(PHOTO).convert("RGB")
    other = image.copy()
    image.paste(0, (0, 0, 50, 50))
    image.info["note"] = 1
    assert shown(other) == shown(Image.open(io.BytesIO(PHOTO)))
    assert shown(image) != shown(other)


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_arrays_are_pillows(mode: str) -> None:
    theirs = Image.open(io.BytesIO(PHOTO)).convert(mode).crop((3, 4, 90, 80))

    def ours() -> Any:
        return fastpipe.open_image(PHOTO).convert(mode).crop((3, 4, 90, 80))

    assert ours().__array_interface__ == theirs.__array_interface__
    for make in (np.asarray, np.array, lambda image: np.array(image, np.float32)):
        made, expected = make(ours()), make(theirs)
        assert np.array_equal(made, expected)
        assert (made.dtype, made.flags.writeable) == (expected.dtype, expected.flags.writeable)


@pytest.mark.needs_core
def test_the_first_array_leaves_the_image_without_pixels() -> None:
    theirs = Image.open(io.BytesIO(PHOTO)).crop((3, 4, 90, 80))
    ours = fastpipe.open_image(PHOTO).crop((3, 4, 90, 80))
    assert np.array_equal(np.asarray(ours), theirs)
    assert type(ours) is LazyImage
    assert np.array_equal(np.asarray(ours), theirs)
    assert type(ours) is Image.Image
    assert shown(ours) == shown(theirs)


def test_arrays_of_what_pillow_has_to_decode() -> None:
    hidden = PHOTO[: len(PHOTO) // 2] + b"\xff\xd9"  # truncated, which isn't seen before it is decoded
    theirs, ours = both(hidden, lambda image: np.asarray(image.convert("RGB").crop((3, 4, 90, 80))).tobytes())
    assert ours == theirs


def test_closed_it_is_pillows_closed_image() -> None:
    image = fastpipe.open_image(PHOTO).copy()
    image.close()
    with pytest.raises(ValueError, match="Operation on closed image"):
        image.getpixel((0, 0))
    with fastpipe.open_image(PHOTO).copy() as image:
        assert image.getpixel((0, 0))


@pytest.mark.needs_core
def test_crops_beyond_a_whole_image_are_taken_from_one_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_SMALL_PIXELS", "_TINY_PIXELS"):  # as for larger photos
        monkeypatch.setattr(parts, limit, 100)
    image = fastpipe.open_image(PHOTO).convert("RGB")
    whole = Image.open(io.BytesIO(PHOTO)).convert("RGB")
    source = image._fastpipe.source
    for number in range(10):
        box = (number, 2 * number, 60 + 7 * number, 70)
        assert shown(image.crop(box).resize((32, 32), 2)) == shown(whole.crop(box).resize((32, 32), 2))
        assert (source._whole is not None) is (number >= 1)
    assert shown(image) == shown(whole)


@pytest.mark.parametrize("enhance", [ImageEnhance.Color, ImageEnhance.Contrast], ids=["colour", "contrast"])
@pytest.mark.needs_core
def test_an_image_and_itself_in_gray_are_one_decode(enhance: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    decodes = []
    run = LazySource.run
    monkeypatch.setattr(LazySource, "run", lambda *given, **named: (decodes.append(1), run(*given, **named))[1])
    theirs, ours = both(PHOTO, lambda image: enhance(image.convert("RGB").resize((50, 40))).enhance(0.4))
    assert ours == theirs
    assert len(decodes) == 1


@pytest.mark.needs_core
def test_an_image_in_gray_stays_as_the_coloured_one_was() -> None:
    theirs = Image.open(io.BytesIO(PHOTO)).resize((50, 40)).convert("L")
    for name, values in (("paste", (0, (0, 0, 50, 50))), ("close", ()), ("load", ())):
        image = fastpipe.open_image(PHOTO).resize((50, 40))
        gray, back = image.convert("L"), image.convert("L").convert("RGB")
        getattr(image, name)(*values)
        assert shown(gray) == shown(theirs)
        assert shown(back) == shown(theirs.convert("RGB"))
    image = fastpipe.open_image(PHOTO).resize((50, 40))
    gray = image.convert("L")
    assert type(image) is LazyImage
    gray.putpixel((3, 4), 9)
    assert type(image) is Image.Image
    assert shown(image) == shown(Image.open(io.BytesIO(PHOTO)).resize((50, 40)))
    del image
    gray = fastpipe.open_image(PHOTO).resize((50, 40)).convert("L")
    assert shown(gray) == shown(theirs)


def test_threads_share_a_lazy_image() -> None:
    expected = shown(Image.open(io.BytesIO(PHOTO)).crop((5, 6, 120, 90)).resize((80, 80), 2))
    for _ in range(10):
        image = fastpipe.open_image(PHOTO).crop((5, 6, 120, 90)).resize((80, 80), 2)
        found: list[Any] = []
        ready = threading.Barrier(6)

        def work(image: Any = image, found: list[Any] = found, ready: Any = ready) -> None:
            ready.wait()
            found.append((shown(image.copy()), shown(image.crop()), shown(image), image.im))

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one[:3] for one in found] == [(expected,) * 3] * 6
        assert all(one[3] is image.im for one in found)


@pytest.mark.needs_fork
def test_a_forked_child_makes_its_own_pixels() -> None:
    image = fastpipe.open_image(PHOTO).crop((5, 6, 120, 90))
    fastpipe.open_image(PHOTO).load()
    child = os.fork()
    if child == 0:
        os._exit(0 if shown(image) == shown(Image.open(io.BytesIO(PHOTO)).crop((5, 6, 120, 90))) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert shown(image) == shown(Image.open(io.BytesIO(PHOTO)).crop((5, 6, 120, 90)))


def test_truncated_files_that_pillow_is_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = PHOTO[: len(PHOTO) // 2]
    hidden = cut + b"\xff\xd9"  # which isn't seen before it is decoded
    for data in (cut, hidden):
        theirs, ours = both(data, lambda image: image.convert("RGB").crop((3, 4, 90, 80)).resize((40, 40)))
        assert ours == theirs
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for data in (cut, hidden):
        theirs, ours = both(data, lambda image: image.convert("RGB").crop((3, 4, 90, 80)).resize((40, 40)))
        assert theirs[0][0] == "RGB"
        assert ours == theirs


def test_the_limit_of_pixels_is_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 97 * 131 - 1)
    theirs, ours = both(PHOTO, lambda image: image.crop((3, 4, 90, 80)))
    assert theirs[1]
    assert ours == theirs
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 97 * 131 // 2 - 1)
    theirs, ours = both(PHOTO, lambda image: image)
    assert theirs[0][0] is Image.DecompressionBombError
    assert ours == theirs


@pytest.mark.needs_core
def test_a_path_a_file_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(PHOTO)
    expected = shown(Image.open(path))
    for source in (path, str(path), PHOTO, bytearray(PHOTO), memoryview(PHOTO), io.BytesIO(PHOTO)):
        assert shown(fastpipe.open_image(source)) == expected
    assert fastpipe.open_image(path).filename == Image.open(path).filename
    with path.open("rb") as file:
        image = fastpipe.open_image(file)
    assert shown(image) == expected
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fastpipe.open_image(tmp_path / "nowhere.jpg")
    (tmp_path / "text.jpg").write_text("this is no image")
    with pytest.raises(Image.UnidentifiedImageError, match=r"text\.jpg"):
        fastpipe.open_image(tmp_path / "text.jpg")


def test_without_the_core_it_is_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    image = fastpipe.open_image(PHOTO).convert("RGB").crop((5, 6, 120, 90))
    monkeypatch.setattr(core.library, "_loaded", core.library.load("off"))
    assert shown(image) == shown(Image.open(io.BytesIO(PHOTO)).crop((5, 6, 120, 90)))
    assert type(fastpipe.open_image(PHOTO)) is type(Image.open(io.BytesIO(PHOTO)))


@pytest.mark.parametrize("order", ["array, tensor", "tensor, array", "tensor, array, tensor", "array, image, tensor"])
def test_one_image_as_arrays_and_as_tensors(order: str) -> None:
    data = corpus.jpeg(300, 400, seed=1)
    expected = Image.open(io.BytesIO(data)).convert("RGB").resize((50, 60))
    whole = fastpipe.open_image(data).convert("RGB")
    for _ in range(2):
        np.asarray(whole.copy())  # from here on the file is decoded, and each of its images is made of that
    image = whole.resize((50, 60))
    for kind in order.split(", "):
        if kind == "tensor":
            assert torch.equal(functional.to_tensor(image), torchvision.transforms.functional.to_tensor(expected))
        elif kind == "array":
            np.testing.assert_array_equal(np.asarray(image), np.asarray(expected), strict=True)
        else:
            assert image.tobytes() == expected.tobytes()
