"""``load`` of images without pixels: they stay so where Pillow is sure to raise nothing, and are as Pillow's."""

from __future__ import annotations

import io
import os
import pickle
import re
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import corpus
import numpy as np
import pytest
import torchvision_here  # noqa: F401
from PIL import Image, ImageDraw, ImageEnhance, ImageFile, ImageOps
from torchvision.transforms import functional as F

import fastpipe
from fastpipe.pillow.files import adopt
from fastpipe.pillow.lazy_image import LazyImage
from fastpipe.pillow.pixel_access import PendingPixels

PHOTO = corpus.jpeg(97, 131, "420", seed=5)
SOUND = {
    "420": PHOTO,
    "444": corpus.jpeg(33, 17, "444", seed=3),
    "gray": corpus.files()["jpeg-gray"],
    "one pixel": corpus.jpeg(1, 1, "420", seed=1),
    "turned": corpus.files()["jpeg-exif-6"],
}
Look = Callable[[Any], Any]
OPENERS: tuple[Callable[[Any], Any], ...] = (Image.open, fastpipe.open_image)


def attributes(image: Any) -> Any:
    names = (
        "mode",
        "size",
        "format",
        "info",
        "tile",
        "fp",
        "readonly",
        "filename",
        "is_animated",
        "n_frames",
    )
    known = {name: getattr(image, name, None) for name in names}
    return known, image.getpalette(), dict(image.getexif()), repr(type(image))


LOOKS: dict[str, Look] = {
    "attributes": attributes,
    "bytes": lambda image: image.tobytes(),
    "a pixel": lambda image: image.getpixel((0, 0)),
    "an array": lambda image: np.asarray(image).tolist(),
    "a crop": lambda image: image.crop((0, 0, 5, 4)).tobytes(),
    "in RGB": lambda image: image.convert("RGB").resize((9, 5)).tobytes(),
    "turned": lambda image: ImageOps.exif_transpose(image).tobytes(),
    "histogram": lambda image: image.histogram(),
    "extrema": lambda image: image.getextrema(),
    "bands": lambda image: [band.tobytes() for band in image.split()],
    "pickled": lambda image: pickle.loads(pickle.dumps(image)).tobytes(),
    "equal": lambda image: image == image.copy(),
    "draft": lambda image: (image.draft("RGB", (9, 9)), image.size, image.tobytes()),
    "verify": lambda image: (image.verify(), image.tobytes()),
    "seek": lambda image: (image.seek(0), image.tell(), image.tobytes()),
    "loaded again": lambda image: (image.load()[0, 0], image.load()[0, 0]),
    "as png": lambda image: saved(image),
    "after closing": lambda image: (image.close(), image.tobytes()),
    "in a block": lambda image: in_a_block(image),
    "a thumbnail": lambda image: (image.thumbnail((20, 20)), image.size, image.tobytes()),
    "turned in place": lambda image: (ImageOps.exif_transpose(image, in_place=True), image.size, image.tobytes()),
    "drawn on": lambda image: (ImageDraw.Draw(image).line((0, 0, 9, 9), 77), image.tobytes()),
    "pasted on": lambda image: (image.paste(3, (0, 0, 1, 1)), image.tobytes()),
    "with a palette": lambda image: (image.putpalette([3, 4, 5] * 256), image.mode, image.convert("RGB").tobytes()),
    "gray, with a palette": lambda image: with_palette(image.convert("L")),
    "with a pixel put": lambda image: (image.putpixel((0, 0), 9), image.tobytes()),
    "enhanced": lambda image: ImageEnhance.Contrast(image).enhance(1.4).tobytes(),
}


FAIL: dict[str, Look] = {
    "a crop the wrong way round": lambda image: image.crop((5, 5, 1, 1)),
    "a crop to words": lambda image: image.crop("abcd"),
    "a resize by no filter": lambda image: image.resize((3, 3), 99),
    "a resize to less than nothing": lambda image: image.resize((-1, 3)),
    "a resize to a word": lambda image: image.resize("ab"),
    "a reduction by nothing": lambda image: image.reduce(0),
    "no method of transpose": lambda image: image.transpose(77),
    "no method of transform": lambda image: image.transform((3, 3), 77),
    "a colour that is none": lambda image: image.transform(image.size, 0, (1, 0, 2, 0, 1, 3), fillcolor="fishy"),
    "no mode": lambda image: image.convert("FOO"),
    "a table that is too short": lambda image: image.point([1, 2]),
    "a function that fails": lambda image: image.point(lambda value: value / 0),
    "no filter": lambda image: image.filter(3),
    "a turn by a word": lambda image: image.rotate("x"),
}


def saved(image: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def in_a_block(image: Any) -> Any:
    with image as same:
        same.load()
    return image.tobytes()


def with_palette(image: Any) -> Any:
    image.putpalette([3, 4, 5] * 256)
    return image.mode, image.getpalette(), image.palette.mode, image.tobytes(), image.convert("RGB").tobytes()


def error_of(call: Look, image: Any) -> str:
    try:
        call(image)
    except Exception as error:
        return repr(error)
    raise AssertionError("it didn't fail")


def state_of(image: Any) -> Any:
    """The attributes that say whether a file is loaded, and others of the image."""
    known, *rest = attributes(image)
    return {**known, "fp": image.fp is None, "tile": len(image.tile)}, rest


def outcome(opened: Any, look: Look) -> Any:
    try:
        pixels = opened.load()
        color = pixels[0, 0]
    except Exception as error:
        return type(error), str(error)
    try:
        return color, look(opened)
    except Exception as error:
        return color, type(error), str(error)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", SOUND)
def test_a_loaded_image_is_pillows(name: str, look: str, tmp_path: Path) -> None:
    data = SOUND[name]
    path = tmp_path / "image.jpg"
    path.write_bytes(data)
    for source in (lambda: io.BytesIO(data), lambda: path, lambda: str(path)):
        theirs, ours = Image.open(source()), fastpipe.open_image(source())
        theirs.load()
        ours.load()
        try:
            expected = LOOKS[look](theirs)
        except Exception as error:
            with pytest.raises(type(error)):
                LOOKS[look](ours)
        else:
            assert LOOKS[look](ours) == expected
        assert outcome(Image.open(source()), LOOKS[look]) == outcome(fastpipe.open_image(source()), LOOKS[look])


@pytest.mark.parametrize("name", FAIL)
def test_a_call_that_fails_leaves_the_file_as_pillow_does(name: str, tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(corpus.files()["png-gray"])
    for source in (path, *SOUND.values()):
        images = [opened(io.BytesIO(source) if isinstance(source, bytes) else source) for opened in OPENERS]
        theirs, ours = ((error_of(FAIL[name], image), state_of(image), image.tobytes()) for image in images)
        assert ours == theirs


@pytest.mark.needs_core
def test_a_mistake_of_ours_is_told_and_never_passes_for_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def crop(image: object, box: object = None) -> NoReturn:
        raise RuntimeError("planted")

    expected = Image.open(io.BytesIO(PHOTO)).crop((1, 2, 9, 8)).tobytes()
    monkeypatch.setattr(LazyImage, "crop", crop)
    with pytest.raises(RuntimeError, match="planted"):
        fastpipe.open_image(PHOTO).crop((1, 2, 9, 8))
    told: list[Exception] = []
    image = adopt(Image.open(io.BytesIO(PHOTO)), on_mistake=told.append)
    assert image.crop((1, 2, 9, 8)).tobytes() == expected
    assert [str(error) for error in told] == ["planted"]


@pytest.mark.needs_core
@pytest.mark.parametrize("name", SOUND)
def test_load_makes_no_pixels(name: str) -> None:
    image: Any = fastpipe.open_image(SOUND[name])
    assert type(image.load()) is PendingPixels
    assert image._im is None
    converted = image.convert("RGB")
    converted.load()
    assert type(converted) is LazyImage
    assert "_im" not in vars(converted)


def test_pixels_can_be_set() -> None:
    theirs, ours = Image.open(io.BytesIO(PHOTO)), fastpipe.open_image(PHOTO)
    for image in (theirs, ours, theirs.convert("L"), ours.convert("L")):
        pixels: Any = image.load()
        pixels[3, 4] = (1, 2, 3) if image.mode == "RGB" else 7
        assert pixels[3, 4] == image.getpixel((3, 4)) == ((1, 2, 3) if image.mode == "RGB" else 7)
    assert theirs.tobytes() == ours.tobytes()
    with pytest.raises(IndexError):
        ours.load()[1000, 1000]


def damaged() -> dict[str, bytes]:
    scan = PHOTO.index(b"\xff\xda")
    huffman = PHOTO.index(b"\xff\xc4")
    files = {f"cut at {share}": PHOTO[: int(len(PHOTO) * share)] for share in (0.3, 0.7, 0.99)}
    files["cut, with an end"] = PHOTO[: len(PHOTO) // 2] + b"\xff\xd9"
    files["an end in the middle"] = PHOTO[: len(PHOTO) // 2] + b"\xff\xd9" + PHOTO[len(PHOTO) // 2 :]
    files["a marker in the scan"] = PHOTO[: len(PHOTO) // 2] + b"\xff\xc4" + PHOTO[len(PHOTO) // 2 :]
    files["restarts that nobody told"] = PHOTO[: scan + 300] + b"\xff\xd3\xff\xd0" + PHOTO[scan + 300 :]
    files["no codes"] = PHOTO[: huffman + 5] + bytes([255] * 16) + PHOTO[huffman + 21 :]
    files["a code of ones alone"] = PHOTO[: huffman + 5] + bytes([2]) + PHOTO[huffman + 6 :]
    files["a symbol that is none"] = PHOTO[: huffman + 21] + bytes([200]) + PHOTO[huffman + 22 :]
    files["no table"] = PHOTO.replace(b"\xff\xc4", b"\xff\xfe")
    files["noise"] = PHOTO[: scan + 40] + bytes(range(1, 250)) * 9 + PHOTO[scan + 2300 :]
    files["two bits changed"] = PHOTO[: scan + 50] + bytes([PHOTO[scan + 50] ^ 24]) + PHOTO[scan + 51 :]
    files["progressive"] = corpus.files()["jpeg-progressive"]
    files["progressive and cut"] = files["progressive"][: len(files["progressive"]) // 2]
    files["a png that is cut"] = corpus.save(corpus.photo(97, 131, 6), "PNG")[:9000]
    return files


@pytest.mark.parametrize("name", damaged())
@pytest.mark.parametrize("lenient", [False, True])
def test_load_raises_what_pillow_raises(name: str, lenient: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", lenient)
    data = damaged()[name]

    def loaded(image: Any) -> Any:
        try:
            image.load()
        except Exception as error:
            return type(error), str(error)
        return image.tobytes(), image.convert("L").tobytes()

    assert loaded(fastpipe.open_image(data)) == loaded(Image.open(io.BytesIO(data)))


def changed_in_a_scans_head(data: bytes, draws: np.random.Generator) -> bytes:
    """A JPEG with another byte in what follows one of its markers of scans or tables."""
    heads = [found.start() for found in re.finditer(rb"\xff[\xda\xc4]", data)]
    changed = bytearray(data)
    changed[draws.choice(heads) + draws.integers(2, 12)] = draws.integers(256)
    return bytes(changed)


def changed_anywhere(data: bytes, draws: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(draws.integers(1, 4)):
        changed[draws.integers(20, len(data))] = draws.choice([0, 0xFF, 0xD9, 0xD0, draws.integers(256)])
    return bytes(changed)


@pytest.mark.parametrize("change", [changed_anywhere, changed_in_a_scans_head])
@pytest.mark.parametrize("kind", ["baseline", "progressive"])
def test_any_change_of_a_byte_is_raised_at_once_or_not_at_all(
    kind: str, change: Callable[[bytes, np.random.Generator], bytes]
) -> None:
    sound = SOUND["444"] if kind == "baseline" else corpus.files()["jpeg-progressive"]
    draws = np.random.default_rng(3)
    for _ in range(300):
        data = change(sound, draws)

        def first(opened: Callable[[], Any], method: str, data: bytes = data) -> Any:
            """Returns the error that the image's first method raises; else None, and the pixels."""
            try:
                image = opened()
                result = getattr(image, method)(*["RGB"][: method == "convert"])
            except Exception as error:
                return type(error), str(error).partition("<")[0]
            return None, (result if method == "convert" else image).tobytes()

        for method in ("load", "convert"):
            theirs = first(lambda data=data: Image.open(io.BytesIO(data)), method)
            assert first(lambda data=data: fastpipe.open_image(data), method) == theirs


@pytest.mark.needs_core
@pytest.mark.parametrize("kind", ["baseline", "progressive"])
def test_whole_jpegs_have_no_pixels_after_loading(kind: str) -> None:
    image = fastpipe.open_image(SOUND["444"] if kind == "baseline" else corpus.files()["jpeg-progressive"])
    image.load()
    assert fastpipe.is_pending(image)


@pytest.mark.needs_core
@pytest.mark.parametrize("name", ["jpeg-420", "jpeg-progressive", "jpeg-gray", "png-rgb", "png-gray"])
def test_files_opened_and_not_converted_are_decoded_by_the_core(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = corpus.files()[name]
    expected = Image.open(io.BytesIO(data))
    expected.load()

    def decodes(*_: Any) -> Any:
        raise AssertionError("Pillow decodes")

    monkeypatch.setattr(Image, "_getdecoder", decodes)
    for look in (attributes, lambda image: image.tobytes(), lambda image: np.array(image).tolist()):
        loaded, opened = fastpipe.open_image(data), fastpipe.open_image(data)
        loaded.load()
        assert look(loaded) == look(expected)
        if look is not attributes:
            assert look(opened) == look(expected)
            assert attributes(opened) == attributes(expected)


@pytest.mark.needs_core
@pytest.mark.parametrize("data", [PHOTO, corpus.files()["png-gray"]], ids=["jpeg", "png"])
def test_the_first_array_leaves_a_file_without_pixels(data: bytes) -> None:
    theirs, ours = np.array(Image.open(io.BytesIO(data))), fastpipe.open_image(data)
    for is_pending in (True, False, False):
        made = np.asarray(ours)
        assert (made.dtype, made.shape, made.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
        assert fastpipe.is_pending(ours) == is_pending


def test_threads_load_one_image() -> None:
    expected = Image.open(io.BytesIO(PHOTO)).tobytes()
    for start in (lambda image: image, lambda image: image.convert("RGB")):
        image = start(fastpipe.open_image(PHOTO))
        found: list[Any] = []

        def look(image: Any = image, found: list[Any] = found) -> None:
            image.load()
            found.append(image.tobytes())

        threads = [threading.Thread(target=look) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [expected] * 8


RECORDING: dict[str, Callable[[Any], Any]] = {
    "converted": lambda image: image.convert("RGB"),
    "cut": lambda image: image.crop((0, 0, 5, 4)),
    "a tensor": F.to_tensor,
}


@pytest.mark.parametrize("recording", RECORDING)
@pytest.mark.parametrize("name", ["jpeg-420", "jpeg-progressive", "jpeg-gray", "png-rgb", "png-palette", "png-rgba"])
def test_an_image_on_which_something_was_recorded_is_loaded(name: str, recording: str, tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(corpus.files()[name])

    def looks(opener: Any) -> Any:
        found = []
        for look in (attributes, lambda image: image.tobytes(), lambda image: image.im.size):
            with opener(path) as own:
                RECORDING[recording](own)
            with path.open("rb") as file:
                given = opener(file)
                RECORDING[recording](given)
                found.append((file.closed, given.fp, given.tile))
            found += [look(own), look(given)]
        return found

    theirs = looks(Image.open)
    with fastpipe.install(check=0):
        assert looks(Image.open) == theirs


def test_a_header_that_is_odd_is_read_once() -> None:
    cut = b"\xff\xe1\x00\x13Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x05\x01"
    data = PHOTO[:2] + cut + PHOTO[2:]
    for opener in (Image.open, fastpipe.open_image):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            image = opener(io.BytesIO(data))
            assert image.tobytes() == Image.open(io.BytesIO(PHOTO)).tobytes()
        assert ["EXIF" in str(warning.message) for warning in warned] == [True]


@pytest.mark.needs_fork
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.needs_core
def test_a_file_that_a_forked_process_has_read_is_read_again(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "image"
    noise = np.random.default_rng(1).integers(0, 256, (400, 401, 3), dtype=np.uint8)
    path.write_bytes(corpus.save(Image.fromarray(noise), kind, **({"quality": 100} if kind == "JPEG" else {})))
    assert path.stat().st_size > 1 << 18  # else it is read when it is opened
    expected = Image.open(path).tobytes()
    with fastpipe.install(check=0):
        image = Image.open(path)
        child = os.fork()
        if child == 0:
            image.load()[0, 0]
            os._exit(0)
        os.waitpid(child, 0)
        assert image.tobytes() == expected
