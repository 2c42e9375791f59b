"""Images without pixels are Pillow's: the same bytes, modes, sizes, info and errors, whatever is done to them."""

from __future__ import annotations

import copy
import io
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageFile, ImageFilter, ImageOps
from pillow.outcomes import outcome, shown
from torchvision_here import torchvision

import fastpipe
from fastpipe import core
from fastpipe.pillow.lazy_image import LazyImage
from fastpipe.pillow.lazy_source import LazySource
from fastpipe.transforms import functional

FILES = corpus.files()
PHOTO = corpus.jpeg(97, 131, "420", seed=5)
PNG = corpus.save(corpus.photo(97, 131, 6), "PNG")
Change = Callable[[Any], Any]


def both(data: bytes, change: Change) -> tuple[Any, Any]:
    """The outcome of a change, from Pillow's image and from ours."""
    return outcome(lambda: change(Image.open(io.BytesIO(data)))), outcome(lambda: change(fastpipe.open_image(data)))


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


RECORDED: dict[str, Change] = {
    "convert to its mode": lambda image: image.convert("RGB"),
    "convert without a mode": lambda image: image.convert(),
    "copy": lambda image: image.copy(),
    "copy.copy": copy.copy,
    "crop": lambda image: image.crop((10, 20, 100, 90)),
    "crop with fractions": lambda image: image.crop((10.5, 20.4, 99.5, 90.6)),
    "crop of all": lambda image: image.crop(),
    "resize": lambda image: image.resize((50, 40)),
    "resize to its size": lambda image: image.resize(image.size),
    "resize in a box": lambda image: image.resize((50, 40), Image.Resampling.LANCZOS, (3, 5, 80.25, 70.5)),
    "resize a box of its size": lambda image: image.resize((50, 40), 2, (10, 20, 60, 60)),
    "resize with a gap": lambda image: image.resize((100, 80), 2, None, 3.0),
    "resize to a list": lambda image: image.resize([50, 40]),
    "resize to an array": lambda image: image.resize(np.array([50, 40]), 1),
    "point of a function": lambda image: image.point(lambda value: 300 - value),
    "point of a table": lambda image: image.point([min(255, 2 * value) for value in range(256)] * 3),
    "point of fractions": lambda image: image.point([value * 0.7 - 9.5 for value in range(256)] * 3),
    "point of a function of fractions": lambda image: image.point(lambda value: 1.5 * value - 20),
    "point of numpy's numbers": lambda image: image.point(np.arange(768, dtype=np.int16) % 251),
    "point of what is read once": lambda image: image.point(iter([value // 2 for value in range(256)] * 3)),
    "point beyond a byte": lambda image: image.point([3 * value - 100 for value in range(256)] * 3),
    "solarize": lambda image: ImageOps.solarize(image, 100),
    "posterize": lambda image: ImageOps.posterize(image, 3),
    "fit": lambda image: ImageOps.fit(image, (40, 40)),
    "mirror": ImageOps.mirror,
    "rotate by a right angle": lambda image: image.rotate(90, expand=True),
    "gray": lambda image: image.convert("L"),
    "blurred": lambda image: image.filter(ImageFilter.GaussianBlur(1.5)),
    "blurred by two radii": lambda image: image.filter(ImageFilter.GaussianBlur((0.3, 4))),
    "blurred by the class": lambda image: image.filter(ImageFilter.GaussianBlur),
    "not blurred": lambda image: image.filter(ImageFilter.GaussianBlur(0)),
    "box blurred": lambda image: image.filter(ImageFilter.BoxBlur(2)),
    "blurred and cut": lambda image: image.filter(ImageFilter.GaussianBlur(1.1)).crop((10, 20, 31, 42)),
    "gray and back": lambda image: image.resize((50, 40)).convert("L").convert("RGB").resize((20, 20)),
    "gray points": lambda image: image.convert("L").point(lambda value: 255 - value),
    **{
        f"resize by {one.name}": lambda image, one=one: image.resize((50, 170), one)
        for one in list(Image.Resampling)[:6]
    },
    **{f"transpose {one.name}": lambda image, one=one: image.transpose(one) for one in Image.Transpose},
}
TURN, TILT = (0.9, 0.2, 1, -0.1, 1.1, 2.5), (1.1, 0.1, -5, 0.05, 0.9, 3, 0.001, -0.0005)
for _filter in (Image.Resampling.NEAREST, Image.Resampling.BILINEAR, Image.Resampling.BICUBIC):
    RECORDED |= {
        f"affine by {_filter.name}": lambda image, by=_filter: image.transform(
            image.size, 0, TURN, by, 1, (9, 200, 31)
        ),
        f"perspective by {_filter.name}": lambda image, by=_filter: image.transform(
            image.size, Image.Transform.PERSPECTIVE, [*TILT], by, fillcolor=(0, 0, 0)
        ),
        f"rotated by {_filter.name}": lambda image, by=_filter: image.rotate(13, by, fillcolor=(1, 2, 3)),
        f"affine without a colour by {_filter.name}": lambda image, by=_filter: image.transform(
            image.size, 0, TURN, by
        ),
        f"perspective without a colour by {_filter.name}": lambda image, by=_filter: image.transform(
            image.size, Image.Transform.PERSPECTIVE, TILT, by
        ),
        f"rotated without a colour by {_filter.name}": lambda image, by=_filter: image.rotate(13, by),
        f"moved without a colour by {_filter.name}": lambda image, by=_filter: image.rotate(0, by, translate=(3, -5)),
        f"gray without a colour by {_filter.name}": lambda image, by=_filter: image.convert("L").rotate(-31, by),
        f"moved by {_filter.name}": lambda image, by=_filter: image.rotate(0, by, False, None, (3, -5), (4, 5, 6)),
        f"gray by {_filter.name}": lambda image, by=_filter: image.convert("L").rotate(-31, by, fillcolor=77),
    }
RECORDED |= {
    f"box by {one.name}": lambda image, one=one: image.resize((9, 9), one, (3, 5, 70, 60))
    for one in list(Image.Resampling)[1:6]
}

MADE: dict[str, Change] = {
    "crop beyond": lambda image: image.crop((-3, 5, 140, 80)),
    "crop of nothing": lambda image: image.crop((5, 5, 5, 9)),
    "resize a nearest box": lambda image: image.resize((50, 40), 0, (3, 5, 80, 70)),
    "resize with a small gap": lambda image: image.resize((10, 8), 2, None, 1.5),
    "reduce": lambda image: image.reduce(3),
    "reduce a box": lambda image: image.reduce((3, 2), (5, 6, 90, 95)),
    "rotate to a larger one": lambda image: image.rotate(13, 2, True, fillcolor=(1, 2, 3)),
    "warped to another size": lambda image: image.transform((50, 40), 0, TURN, 2, fillcolor=(1, 2, 3)),
    "warped in a colour's name": lambda image: image.transform(image.size, 0, TURN, 2, fillcolor="red"),
    "warped beyond a byte": lambda image: image.transform(image.size, 0, TURN, 2, fillcolor=(300, -5, 3)),
    "warped in four": lambda image: image.transform(image.size, 0, TURN, 2, fillcolor=(30, 5, 3, 9)),
    "a part of it": lambda image: image.transform(image.size, Image.Transform.EXTENT, (3, 4, 50, 60), 2),
    "to CMYK": lambda image: image.convert("CMYK"),
    "to a palette": lambda image: image.convert("P"),
    "by a matrix": lambda image: image.convert("L", (0.5, 0.2, 0.2, 10)),
    "sharpened": lambda image: image.filter(ImageFilter.SHARPEN),
    "enhanced": lambda image: ImageEnhance.Color(image).enhance(0.4),
    "expanded": lambda image: ImageOps.expand(image, 4, (1, 2, 3)),
    "a channel": lambda image: image.getchannel("G"),
    "merged": lambda image: Image.merge("RGB", image.split()[::-1]),
    "blended": lambda image: Image.blend(image, image.transpose(0), 0.3),
    "pickled": lambda image: pickle.loads(pickle.dumps(image)),
    "deep copy": copy.deepcopy,
    "quantized": lambda image: image.quantize(7),
    "from an array": lambda image: Image.fromarray(np.asarray(image)),
}


def with_paste(image: Any) -> Any:
    image = image.copy()
    image.paste((1, 2, 3), (5, 5, 30, 40))
    return image


def with_pixel(image: Any) -> Any:
    image = image.convert("RGB")
    image.putpixel((3, 4), (9, 8, 7))
    return image


def as_thumbnail(image: Any) -> Any:
    image = image.convert("RGB")
    image.thumbnail((40, 40))
    return image


def reopened(image: Any) -> Any:
    file = io.BytesIO()
    image.save(file, "PNG")
    return Image.open(file)


MADE |= {"paste": with_paste, "putpixel": with_pixel, "thumbnail": as_thumbnail, "save": reopened}


@pytest.mark.parametrize("data", [PHOTO, PNG], ids=["jpeg", "png"])
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.needs_core
def test_what_is_recorded_is_pillows(data: bytes, name: str) -> None:
    theirs, ours = both(data, RECORDED[name])
    assert ours == theirs

    def behind(image: Any) -> Any:
        return RECORDED[name](image.convert("RGB").crop((7, 3, 80, 60)))

    theirs, ours = both(data, behind)
    assert ours == theirs
    assert type(RECORDED[name](fastpipe.open_image(data))) is LazyImage
    assert type(RECORDED[name](fastpipe.open_image(data).convert("RGB").copy())) is LazyImage


@pytest.mark.parametrize("name", MADE)
def test_whatever_else_takes_the_pixels(name: str) -> None:
    for before in (lambda image: image, lambda image: image.crop((7, 3, 120, 90)).resize((101, 99), 2)):
        theirs, ours = both(PHOTO, lambda image, before=before: MADE[name](before(image)))
        assert ours == theirs


REFUSED: dict[str, Change] = {
    "a crop the wrong way": lambda image: image.crop((50, 5, 20, 40)),
    "a crop upside down": lambda image: image.crop((5, 50, 20, 40)),
    "a crop of three": lambda image: image.crop((5, 50, 20)),
    "no size": lambda image: image.resize((0, 5)),
    "a size of fractions": lambda image: image.resize((10.5, 5)),
    "a size of three": lambda image: image.resize((10, 5, 3)),
    "a filter that there isn't": lambda image: image.resize((10, 5), 99),
    "a small gap": lambda image: image.resize((10, 5), 2, None, 0.5),
    "a box beyond": lambda image: image.resize((10, 5), 2, (0, 0, 500, 5)),
    "a box of nothing": lambda image: image.resize((10, 5), 2, (5, 5, 3, 9)),
    "a box of three": lambda image: image.resize((10, 5), 2, (0, 0, 50)),
    "a reduced box beyond": lambda image: image.reduce(2, (3, 4, 500, 50)),
    "a reduced box of nothing": lambda image: image.reduce(2, (5, 5, 5, 9)),
    "a turn that there isn't": lambda image: image.transpose(9),
    "a warp that there isn't": lambda image: image.transform(image.size, 9, TURN),
    "a warp by a filter that there isn't": lambda image: image.transform(image.size, 0, TURN, 1, fillcolor=(1, 2, 3)),
    "a warp by too few": lambda image: image.transform(image.size, 0, TURN[:5], 2, fillcolor=(1, 2, 3)),
    "a warp by words": lambda image: image.transform(image.size, 0, ["a"] * 6, 2, fillcolor=(1, 2, 3)),
    "a warp to no colour": lambda image: image.transform(image.size, 0, TURN, 2, fillcolor=(1, 2)),
    "a mode that there isn't": lambda image: image.convert("XYZ"),
    "a table of another length": lambda image: image.point([1, 2, 3]),
    "a table of words": lambda image: image.point(["a"] * 768),
    "a filter that is none": lambda image: image.filter(3),
    "a second frame": lambda image: image.seek(1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pillow_refuses_is_refused_at_the_call(name: str) -> None:
    for start in (lambda image: image, lambda image: image.convert("RGB").crop((7, 3, 80, 60))):
        theirs, ours = both(PHOTO, lambda image, start=start: REFUSED[name](start(image)))
        assert isinstance(theirs[0][0], type)
        assert ours == theirs
        with pytest.raises(theirs[0][0]):
            REFUSED[name](start(fastpipe.open_image(PHOTO)))


steps = st.one_of(
    st.tuples(st.just("crop"), st.tuples(*[st.floats(0, 1)] * 4)),
    st.tuples(st.just("resize"), st.tuples(st.integers(1, 70), st.integers(1, 70), st.sampled_from(range(6)))),
    st.tuples(st.just("box"), st.tuples(st.integers(1, 50), st.integers(1, 50), *[st.floats(0, 1, width=32)] * 4)),
    st.tuples(st.just("transpose"), st.sampled_from(range(7))),
    st.tuples(st.just("convert"), st.sampled_from(["RGB", "L"])),
    st.tuples(st.just("point"), st.integers(0, 255)),
    st.tuples(st.just("blur"), st.sampled_from([0, 0.4, 1, 2.3])),
    st.tuples(st.just("copy"), st.none()),
    st.tuples(st.just("load"), st.none()),
)


def applied(image: Any, step: Any) -> Any:
    name, given = step
    width, height = image.size
    if name == "crop":
        left, right = sorted(given[:2])
        top, bottom = sorted(given[2:])
        return image.crop((left * width, top * height, max(1, right * width), max(1, bottom * height)))
    if name == "resize":
        return image.resize(given[:2], given[2])
    if name == "box":
        left, right = sorted(given[2:4])
        top, bottom = sorted(given[4:])
        return image.resize(given[:2], 3, (left * width, top * height, right * width, bottom * height))
    if name == "blur":
        return image.filter(ImageFilter.GaussianBlur(given))
    if name == "point":
        return image.point(lambda value: value ^ given)
    if name == "load":
        image.load()
        return image
    return getattr(image, name)(*([] if given is None else [given]))


@given(
    name=st.sampled_from(
        ["jpeg-420", "jpeg-gray", "jpeg-444-7x9", "png-rgb", "png-gray", "png-palette", "jpeg-progressive"]
    ),
    chain=st.lists(steps, max_size=14),
)
def test_any_chain_is_pillows(name: str, chain: list[Any]) -> None:
    def change(image: Any) -> Any:
        for step in chain:
            image = applied(image, step)
        return image

    theirs, ours = both(FILES[name], change)
    assert ours == theirs


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
def test_crops_beyond_a_whole_image_are_taken_from_one_decode() -> None:
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
