"""Pillow's methods on images without pixels, recorded or run: the same bytes, modes, sizes, info and errors."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import corpus
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from pillow.outcomes import both

import fastpipe
from fastpipe.pillow.lazy_image import LazyImage

FILES = corpus.files()
PHOTO = corpus.jpeg(97, 131, "420", seed=5)
PNG = corpus.save(corpus.photo(97, 131, 6), "PNG")
Change = Callable[[Any], Any]

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
