"""JPEGs that are open without Pillow having read their headers have what they would have if it had."""

from __future__ import annotations

import io
import random
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms, JpegImagePlugin

import fastpipe
from fastpipe import transforms as T

pytestmark = pytest.mark.needs_core


def _jpeg(mode: str = "RGB", size: tuple[int, int] = (23, 17), **options: Any) -> bytes:
    pixels = np.random.default_rng(5).integers(0, 256, (*size[::-1], 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, "JPEG", **options)
    return file.getvalue()


_PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
_ADOBE = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x01"
_PLAIN = _jpeg(dpi=(72, 72))
UNREAD = {
    "plain": _PLAIN,
    "gray": _jpeg("L"),
    "progressive": _jpeg(progressive=True, subsampling=0),
    "one pixel": _jpeg(size=(1, 1)),
    "comment": _jpeg(comment=b"a fox"),
    "profile": _jpeg(icc_profile=_PROFILE),
    "large profile": _jpeg(icc_profile=_PROFILE * 200),
    "adobe": _PLAIN[:2] + _ADOBE + _PLAIN[2:],
    "adobe alone": _PLAIN[:2] + _ADOBE + _PLAIN[20:],
    "restarts": _jpeg(restart_marker_blocks=1),
}
_EXIF = Image.Exif()
_EXIF[0x0112] = 6
READ = {
    "exif": _jpeg(exif=_EXIF),
    "xmp": _jpeg(xmp=b"<x:xmpmeta/>"),
    "four colours": _jpeg("CMYK"),
    "long": _jpeg(size=(800, 700), quality=95, subsampling=0),
}


def _open(data: bytes, lazily: bool = True) -> Any:
    if not lazily:
        return Image.open(io.BytesIO(data))
    with fastpipe.register_pillow_opener():
        return Image.open(io.BytesIO(data))


def _is_unread(image: Any) -> bool:
    return "_fastpipe_unread" in vars(image)


def _outcome(see: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            seen = see()
        except Exception as error:
            seen = type(error), str(error).partition(" at 0x")[0].partition("<_io.")[0]
    return seen, [str(one.message) for one in told]


def _told(image: Any) -> Any:
    names = [name for name in vars(image) if not name.startswith("_fastpipe") and name not in ("fp", "_exif")]
    return {name: getattr(image, name) for name in names}, dict(image.getexif()), image.mode, image.size


def _open_and_tell(data: bytes, lazily: bool) -> Any:
    image = _open(data, lazily)
    _ = image.info
    return _told(image)


@pytest.mark.parametrize("name", UNREAD)
def test_each_field_is_what_pillow_reads(name: str) -> None:
    plain = _open(UNREAD[name], lazily=False)
    for field, value in vars(plain).items():
        image = _open(UNREAD[name])
        assert _is_unread(image)
        if field != "fp":
            assert getattr(image, field) == value
    image = _open(UNREAD[name])
    _ = image.info
    assert not _is_unread(image)
    assert _told(image) == _told(plain)


@pytest.mark.parametrize("name", READ)
def test_pillow_reads_what_tells_more(name: str) -> None:
    image = _open(READ[name])
    assert not _is_unread(image)
    assert _told(image) == _told(_open(READ[name], lazily=False))


@pytest.mark.parametrize("name", UNREAD)
def test_a_file_stands_where_pillow_leaves_it(name: str) -> None:
    for asks in (False, True):
        theirs, ours = io.BytesIO(UNREAD[name]), io.BytesIO(UNREAD[name])
        Image.open(theirs)
        with fastpipe.register_pillow_opener():
            image = Image.open(ours)
        if asks:
            _ = image.info
        assert theirs.tell() == ours.tell()


@pytest.mark.parametrize("name", UNREAD)
def test_a_drafted_file_is_decoded_without_its_header(name: str) -> None:
    image, plain = _open(UNREAD[name]), _open(UNREAD[name], lazily=False)
    assert image.draft("L", (5, 5)) == plain.draft("L", (5, 5))
    assert image.tile == plain.tile
    assert image.tobytes() == plain.tobytes()
    assert _is_unread(image)
    assert (image.info, dict(image.getexif()), image.size) == (plain.info, dict(plain.getexif()), plain.size)


def test_heads_with_mistakes_end_as_pillow_says() -> None:
    draw = random.Random(3)
    heads = {name: _open(data, lazily=False).fp.tell() for name, data in UNREAD.items()}
    unread = 0
    for turn in range(2000):
        name = draw.choice([*UNREAD])
        data = bytearray(UNREAD[name])
        for _ in range(draw.choice((1, 1, 2, 4))):
            place = draw.randrange(2, min(heads[name], 1200))
            if turn % 5:
                data[place] = draw.choice((0, 1, 2, 0xFF, 0xE1, 0xC0, 0xD9, draw.randrange(256), data[place] ^ 0x10))
            else:
                del data[place : place + draw.randrange(1, 30)]
        whole = bytes(data)
        ours = _outcome(partial(_open_and_tell, whole, True))
        assert ours == _outcome(partial(_open_and_tell, whole, False)), (turn, name)
        unread += _outcome(lambda data=whole: _is_unread(_open(data)))[0] is True
    assert unread > 200


def test_a_file_without_metadata_gives_one_empty_exif() -> None:
    image = _open(_PLAIN)
    exif = image.getexif()
    assert _is_unread(image)
    assert dict(exif) == {}
    assert image.getexif() is exif
    exif[0x0112] = 3
    assert image.info == _open(_PLAIN, lazily=False).info
    assert image.getexif() is exif
    other = _open(_PLAIN)
    other.info["exif"] = _EXIF.tobytes()
    assert other.getexif()[0x0112] == 6


def test_fields_that_are_set_stay() -> None:
    image = _open(_PLAIN)
    image.info = {"mine": 1}
    image.quantization = "mine"
    assert _is_unread(image)
    assert image.layers == 3
    assert (image.info, image.quantization) == ({"mine": 1}, "mine")
    assert image.convert("RGB").info == {"mine": 1}


def test_attributes_that_nobody_has_are_missing() -> None:
    image = _open(_PLAIN)
    assert not hasattr(image, "n_frames") or hasattr(_open(_PLAIN, lazily=False), "n_frames")
    assert not hasattr(image, "is_animated")
    with pytest.raises(AttributeError) as raised:  # Pillow 11 says the name alone
        _ = _open(_PLAIN, lazily=False).nothing
    with pytest.raises(AttributeError, match=f"^{raised.value}$"):
        _ = image.nothing
    assert _is_unread(image)
    with pytest.raises(AttributeError, match="'Image' object has no attribute 'nothing'"):
        _ = image.convert("RGB").nothing


@pytest.mark.parametrize("name", UNREAD)
def test_images_that_come_of_it_have_its_info(name: str) -> None:
    for before in (False, True):
        plain, image = _open(UNREAD[name], lazily=False), _open(UNREAD[name])
        if before:
            plain.info["mine"] = image.info["mine"] = 1
        ours, theirs = image.crop((0, 0, 1, 1)), plain.crop((0, 0, 1, 1))
        assert _is_unread(image) is not before
        assert ours.info == theirs.info
        copies = [ours.copy(), ours.resize((2, 3))]
        ours.info["changed"] = 1
        assert [copy.info for copy in copies] == [theirs.info] * 2
        assert ours.copy().info == {**theirs.info, "changed": 1}
        made = image.resize((2, 3))
        made.load()
        assert made.tobytes() == plain.resize((2, 3)).tobytes()
        assert (type(made), made.info) == (Image.Image, plain.info)
        assert image.info == plain.info


@pytest.mark.parametrize("transform", [T.Compose([T.Resize(9), T.CenterCrop(8)]), T.Resize(9), T.GaussianBlur(3, 1.0)])
def test_transforms_leave_it_unread(transform: Any) -> None:
    for before in (False, True):
        plain, image = _open(_PLAIN, lazily=False), _open(_PLAIN)
        if before:
            plain.info["mine"] = image.info["mine"] = 1
        ours, theirs = transform(image), transform(plain)
        assert _is_unread(image) is not before
        assert fastpipe.is_pending(ours)
        assert (ours.info, ours.tobytes()) == (theirs.info, theirs.tobytes())


def test_threads_that_ask_at_once_get_the_same() -> None:
    for _ in range(20):
        image = _open(UNREAD["large profile"])
        lazy = image.convert("RGB")
        start, found = threading.Barrier(4), []

        def ask(image: Any = image, lazy: Any = lazy, start: Any = start, found: Any = found) -> None:
            start.wait()
            found.append((image.info, image.quantization, lazy.info))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert all(a is b for one in found for a, b in zip(one, found[0], strict=True))


def test_a_path_is_read_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(_PLAIN)
    with fastpipe.register_pillow_opener(), Image.open(path) as image:
        assert _is_unread(image)
        pixels = image.convert("RGB")
    path.unlink()
    assert _is_unread(image)
    assert image.fp is None
    assert image.filename == str(path)
    plain = _open(_PLAIN, lazily=False)
    assert image.info == pixels.info == plain.info
    assert pixels.tobytes() == plain.tobytes()


def test_somebody_elses_reading_of_headers_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, called = JpegImagePlugin.JpegImageFile._open, []

    def read(self: Any) -> None:
        called.append(self)
        plain(self)

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "_open", read)
    image = _open(_PLAIN)
    assert called == [image]
