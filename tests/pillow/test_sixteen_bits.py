"""Gray PNGs of 16 bits that Pillow opens: the core decodes them, and everything else is Pillow's."""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
from deep_png import GRAY, file_of, samples_of
from PIL import Image, ImageOps

import fastpipe
from fastpipe import core, transforms
from fastpipe.hooks.ledger import LEDGER

pytestmark = pytest.mark.needs_core

SAMPLES = samples_of(37, 53, GRAY, 65536)
FILES = {
    "plain": file_of(SAMPLES, (0, 1, 2, 3, 4)),
    "noise": corpus.save(Image.fromarray(SAMPLES), "PNG"),
    "one pixel": file_of(SAMPLES[:1, :1]),
    "a column": file_of(SAMPLES[:, :1], (4,)),
    "transparent": file_of(SAMPLES, before=corpus.chunk(b"tRNS", b"\0\7")),
    "significant bits": file_of(SAMPLES, before=corpus.chunk(b"sBIT", b"\x0c")),
    "turned": file_of(SAMPLES, before=corpus.chunk(b"eXIf", corpus.exif(6)[6:])),
    "cut off": file_of(SAMPLES)[:-30],
    "a wrong checksum": file_of(SAMPLES)[:-14] + b"x" + file_of(SAMPLES)[-13:],
}
USES: dict[str, Callable[[Image.Image], Any]] = {
    "nothing": lambda image: image,
    "array": np.asarray,
    "load": lambda image: image.load()[0, 0],
    "size again": lambda image: (image.load(), image.size, image.readonly, image.tile)[1:],
    "crop": lambda image: image.crop((3, 5, 30, 21)),
    "crop beyond": lambda image: image.crop((-3, -5, 60, 41)),
    "nearest": lambda image: image.resize((20, 11), Image.Resampling.NEAREST),
    "bilinear": lambda image: image.resize((20, 11), Image.Resampling.BILINEAR),
    "box": lambda image: image.resize((20, 11), Image.Resampling.BICUBIC, box=(1.5, 0, 1, 1)),
    "rotate": lambda image: image.rotate(30),
    "turn": lambda image: image.transpose(Image.Transpose.ROTATE_90),
    "upright": ImageOps.exif_transpose,
    "to L": lambda image: image.convert("L"),
    "to I": lambda image: image.convert("I"),
    "to F": lambda image: image.convert("F"),
    "to RGB": lambda image: image.convert("RGB"),
    "to RGBA": lambda image: image.convert("RGBA"),
    "point": lambda image: image.point(lambda value: value * 2 + 1),
    "copy": lambda image: image.copy(),
    "thumbnail": lambda image: (image.thumbnail((9, 9)), image)[1],
    "a pixel set": lambda image: (image.putpixel((0, 0), 7), image)[1],
    "paste": lambda image: (image.paste(9, (0, 0, 1, 1)), image)[1],
    "bytes": lambda image: image.tobytes(),
    "extrema": lambda image: image.getextrema(),
    "pickled": lambda image: pickle.loads(pickle.dumps(image)),
    "saved": lambda image: (image.save(file := io.BytesIO(), "PNG"), file.getvalue())[1],
    "tensor": lambda image: transforms.PILToTensor()(image).numpy(),
    "floats": lambda image: transforms.ToTensor()(image).numpy(),
    "a chain": lambda image: transforms.Compose([transforms.CenterCrop(20), transforms.PILToTensor()])(image).numpy(),
}


def shown(value: Any) -> Any:
    if isinstance(value, Image.Image):
        return type(value).__name__, value.mode, value.size, value.tobytes(), {**value.info}
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return value


def outcome(open_file: Callable[[Any], Image.Image], source: Any, use: Callable[[Image.Image], Any]) -> Any:
    try:
        with open_file(source) as image:
            return shown(use(image))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", FILES)
def test_it_is_pillows(name: str, use: str, tmp_path: Path) -> None:
    path = tmp_path / "depth.png"
    path.write_bytes(FILES[name])
    expected = outcome(Image.open, str(path), USES[use])
    assert outcome(fastpipe.open_image, str(path), USES[use]) == expected
    with fastpipe.register_pillow_opener():
        assert outcome(Image.open, str(path), USES[use]) == expected
        assert outcome(lambda data: Image.open(io.BytesIO(data)), FILES[name], USES[use]) == expected


def test_a_file_object_is_left_where_pillow_leaves_it() -> None:
    places = []
    for open_file in (Image.open, fastpipe.open_image):
        file = io.BytesIO(FILES["plain"] + b"something else")
        image = open_file(file)
        image.load()
        places.append((file.tell(), image.fp, image.tile))
    assert places[0] == places[1]


def test_the_core_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    plain = core.read_uint16
    monkeypatch.setattr(
        core, "read_uint16", lambda *args, **named: decoded.append(plain(*args, **named)) or decoded[-1]
    )
    image = fastpipe.open_image(FILES["plain"])
    assert fastpipe.is_pending(image)
    np.testing.assert_array_equal(np.asarray(image), SAMPLES, strict=True)
    np.testing.assert_array_equal(np.asarray(image), SAMPLES, strict=True)
    (samples,) = decoded
    np.testing.assert_array_equal(samples, SAMPLES, strict=True)
    assert not fastpipe.is_pending(image)


def test_it_is_checked_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "depth.png"
    samples = samples_of(300, 200, GRAY, 900)
    path.write_bytes(file_of(samples))
    with fastpipe.install(check=2):
        site = LEDGER.site("function", "PIL.Image.open")
        images, checked, differed = site.images, site.checked, site.differed
        for _ in range(3):
            with Image.open(path) as image:
                np.testing.assert_array_equal(np.asarray(image), samples, strict=True)
        assert site.images == images + 3
        assert site.checked - checked <= 2
        assert site.differed == differed


def test_pixels_that_are_set_are_the_images_own() -> None:
    images = [fastpipe.open_image(FILES["plain"]) for _ in range(2)]
    for image in images:
        image.load()
    before, copy = np.asarray(images[0]), images[0].copy()
    images[0].putpixel((0, 0), 7)
    assert images[0].getpixel((0, 0)) == 7
    for other in (before, np.asarray(copy), np.asarray(images[1])):
        np.testing.assert_array_equal(other, SAMPLES, strict=True)


def test_an_interlaced_file_is_pillows_and_the_report_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LEDGER, "_sites", {})  # others have had their checks, and few pixels are Pillow's then
    path = tmp_path / "interlaced.png"
    path.write_bytes(interlaced())
    expected = np.asarray(Image.open(path))
    with fastpipe.install():
        np.testing.assert_array_equal(np.asarray(Image.open(path)), expected, strict=True)
        reasons = [reason for site in LEDGER.total()[0] for reason in site.left]
    assert any("PNG of 16 bits that fastpipe's core doesn't decode" in one for one in reasons), reasons


def interlaced() -> bytes:
    """A gray PNG of 16 bits in seven passes, of which one pixel is in the first only."""
    head = struct.pack(">IIBBBBB", 1, 1, 16, 0, 0, 0, 1)
    chunks = (b"IHDR", head), (b"IDAT", zlib.compress(b"\0\1\2")), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(corpus.chunk(*one) for one in chunks)
