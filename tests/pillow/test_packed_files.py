"""A packed image is the JPEG that was packed, for whoever opens it by Pillow, whatever its file is called."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packed_copies import damaged, packed_jpegs
from PIL import Image, ImageOps, UnidentifiedImageError
from pillow.outcomes import outcome

import fastpipe
from fastpipe.clock import clock
from fastpipe.core.encoded import as_jpeg, jpeg_or_png
from fastpipe.core.packed import pack, unpack
from fastpipe.errors import DecodeError
from fastpipe.plain_way import plainly

pytestmark = pytest.mark.needs_core


@pytest.fixture(params=["install", "register_pillow_opener", "open_image"])
def opened(request: pytest.FixtureRequest) -> Iterator[Callable[[Any], Image.Image]]:
    """Each way to open images, as a function."""
    if request.param == "open_image":
        yield fastpipe.open_image
        return
    with getattr(fastpipe, request.param)():
        yield Image.open


def _saved(image: Image.Image, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def _left(image: Image.Image) -> Any:
    with image as same:
        size = same.size
    return size, outcome(image.load)[0][0] if image.getexif() else None


_ATTRIBUTES = (
    *("_exif_offset", "app", "applist", "bits", "custom_mimetype", "decoderconfig", "decodermaxblock", "format"),
    *("format_description", "height", "icclist", "info", "is_animated", "layer", "layers", "mode", "n_frames"),
    *("palette", "quantization", "readonly", "size", "tile", "width", "missing"),
)
_SEEN: dict[str, Callable[[Any], Any]] = {
    "bytes": lambda image: image.tobytes(),
    "array": lambda image: np.asarray(image).tobytes(),
    "class": lambda image: image.__class__,
    "exif": lambda image: (image.getexif().tobytes(), image._getexif()),
    "exif after loading": lambda image: (image.load()[0, 0], image.getexif().tobytes(), image.info, image.fp),
    "mime type": lambda image: image.get_format_mimetype(),
    "verify": lambda image: image.verify(),
    "frames": lambda image: (image.tell(), image.seek(0), image.seek(1)),
    "draft": lambda image: (image.draft("L", (9, 9)), image.size, image.mode, image.tile, image.tobytes()),
    "saved": lambda image: _saved(image, "JPEG"),
    "saved alike": lambda image: _saved(image, "JPEG", quality="keep"),
    "saved as PNG": lambda image: _saved(image, "PNG"),
    "pickled": lambda image: (pickle.loads(pickle.dumps(image)).__class__, pickle.loads(pickle.dumps(image)).tobytes()),
    "pickled layers": lambda image: pickle.loads(pickle.dumps(image)).layer,
    "copied": lambda image: image.copy(),
    "copied by Python": copy.copy,
    "copied deeply": copy.deepcopy,
    "converted": lambda image: image.convert("RGB"),
    "in gray": lambda image: image.convert("L"),
    "cropped": lambda image: image.crop((0, 0, 5, 4)).resize((7, 9)),
    "upright": ImageOps.exif_transpose,
    "thumbnail": lambda image: (image.thumbnail((9, 9)), image.size, image.tobytes()),
    "file": lambda image: (image.fp.seek(0, 2), image.fp.seek(0), image.fp.read()),
    "closed": lambda image: (image.close(), image.size, image.tobytes()),
    "left": _left,
}
_SEEN.update({name: lambda image, name=name: getattr(image, name) for name in _ATTRIBUTES})


_FEW = ("jpeg-gray", "exif", "profile", "progressive")


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_all_of_an_image_is_its_jpegs(opened: Callable[[Any], Image.Image], few: bool) -> None:
    for name in _FEW if few else packed_jpegs().keys() - set(_FEW):
        jpeg, packed = packed_jpegs()[name]
        for about, see in _SEEN.items():
            with plainly():
                expected = outcome(lambda see=see, jpeg=jpeg: see(Image.open(io.BytesIO(jpeg))))
            assert outcome(lambda see=see, packed=packed: see(opened(io.BytesIO(packed)))) == expected, (name, about)


def test_paths(opened: Callable[[Any], Image.Image], tmp_path: Path) -> None:
    jpeg, packed = packed_jpegs()["exif"]
    ours, theirs = tmp_path / "ours.jpg", tmp_path / "theirs.jpg"
    ours.write_bytes(packed)
    theirs.write_bytes(jpeg)
    for source in (str, Path):
        with Image.open(source(theirs)) as expected, opened(source(ours)) as image:
            assert isinstance(image.filename, str)
            assert Path(image.filename) == ours
            assert (image.info, image.size) == (expected.info, expected.size)
            assert image.convert("RGB").tobytes() == expected.convert("RGB").tobytes()
            assert image.fp is None


class _OnlyRead:
    """A stream that is read once, from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)


def test_streams(opened: Callable[[Any], Image.Image]) -> None:
    jpeg, packed = packed_jpegs()["jpeg-420"]
    expected = Image.open(io.BytesIO(jpeg)).tobytes()
    at_its_end = io.BytesIO(packed)
    at_its_end.seek(0, io.SEEK_END)
    for stream in (io.BytesIO(packed), at_its_end, io.BufferedReader(io.BytesIO(packed)), _OnlyRead(packed)):  # type: ignore[type-var]
        if opened is fastpipe.open_image and isinstance(stream, _OnlyRead):
            continue  # Pillow reads it, which knows nothing of packed images
        assert opened(stream).tobytes() == expected
    assert not at_its_end.closed


def test_formats() -> None:
    jpeg, packed = packed_jpegs()["jpeg-420"]
    for way in (fastpipe.install, fastpipe.register_pillow_opener):
        with way():
            assert Image.open(io.BytesIO(packed), formats=("JPEG",)).tobytes() == Image.open(io.BytesIO(jpeg)).tobytes()
            with pytest.raises(UnidentifiedImageError):
                Image.open(io.BytesIO(packed), formats=("PNG",))
        with pytest.raises(UnidentifiedImageError):  # nothing is left behind
            Image.open(io.BytesIO(packed))


def test_a_closed_file_raises_as_a_jpegs(opened: Callable[[Any], Image.Image]) -> None:
    ends = []
    for data in packed_jpegs()["jpeg-420"]:
        file = io.BytesIO(data)
        image = opened(file)
        file.close()
        ends.append(outcome(image.tobytes)[0][0])
    assert ends[0] == ends[1]


def test_a_damaged_image_is_refused_by_its_name(opened: Callable[[Any], Image.Image], tmp_path: Path) -> None:
    for name in ("jpeg-420", "exif", "large"):
        for about, data in damaged(packed_jpegs()[name][1]).items():
            path = tmp_path / f"{about}.jpg"
            path.write_bytes(data)
            for change in (lambda image: image.load(), lambda image: image.convert("RGB"), np.asarray):
                with pytest.raises(OSError, match=rf"{about}\.jpg"):
                    change(opened(path))


def test_too_many_pixels(opened: Callable[[Any], Image.Image], monkeypatch: pytest.MonkeyPatch) -> None:
    packed = packed_jpegs()["jpeg-420"][1]
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(Image.DecompressionBombError):
        opened(io.BytesIO(packed))


def test_pillow_decodes_the_restored_file_in_the_plain_way(tmp_path: Path) -> None:
    jpeg, packed = packed_jpegs()["large"]
    with fastpipe.install(), plainly():
        image = Image.open(io.BytesIO(packed))
        assert not fastpipe.is_pending(image)
        assert type(image).__module__ == "PIL.JpegImagePlugin"
        assert image.fp is not None
        assert image.fp.read() == jpeg[image.fp.tell() :] or image.fp.seek(0) == 0
        assert image.tobytes() == Image.open(io.BytesIO(jpeg)).tobytes()


def test_restoring_is_no_time_of_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = packed_jpegs()["large"][1]
    times = iter([0.0, 100.0, 107.0, 110.0])
    monkeypatch.setattr("fastpipe.clock._worked", lambda: next(times))
    before = clock()
    as_jpeg(packed)
    assert clock() - before == 110.0 - 7.0


def test_without_original_bytes() -> None:
    jpeg, _ = packed_jpegs()["exif"]
    packed = pack(jpeg, discard_original_bytes=True)
    other = Image.open(io.BytesIO(unpack(packed)))
    image = fastpipe.open_image(packed)
    assert (image.info, image.quantization, image.layer) == (other.info, other.quantization, other.layer)  # type: ignore[attr-defined]
    assert image.tobytes() == other.tobytes()


def test_what_is_recognised() -> None:
    for jpeg, packed in packed_jpegs().values():
        one, other = jpeg_or_png(packed), jpeg_or_png(jpeg)
        assert not isinstance(one, str)
        assert not isinstance(other, str)
        assert one.head == other.head == jpeg[: other.header.data_offset]
        assert one.header == other.header
        assert one.is_intact()
        assert as_jpeg(packed) == as_jpeg(jpeg) == jpeg
        assert not any(
            found.is_intact() for data in damaged(packed).values() if not isinstance(found := jpeg_or_png(data), str)
        )
    with pytest.raises(DecodeError, match=r"a/7\.jpg"):
        as_jpeg(packed[:-1], "a/7.jpg")
