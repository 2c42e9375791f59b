"""Chains of whatever Pillow has, on images without pixels and on Pillow's: results, attributes, errors, warnings."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import corpus
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageDraw, ImageEnhance, ImageFilter, ImageMath, ImageOps, ImageStat

import fastpipe
from fastpipe.pillow.lazy_image import LazyImage

FILES = corpus.files()
NAMES = ["jpeg-420", "jpeg-gray", "jpeg-exif-6", "jpeg-444-7x9", "png-rgb", "png-gray", "png-palette", "png-icc"]


def attributes(image: Any) -> Any:
    """All that is to be seen of an image but its pixels."""
    exif = dict(image.getexif())
    kind = type(image).__name__.replace("LazyImage", "Image")
    own = getattr(image, "format", None), getattr(image, "filename", None), image.has_transparency_data
    return kind, image.mode, image.size, image.width, image.height, image.info, image.getbands(), exif, *own


def shown(thing: Any) -> Any:
    if isinstance(thing, (list, tuple)):
        return [shown(one) for one in thing]
    if isinstance(thing, np.ndarray):
        return thing.dtype, thing.shape, thing.tobytes()
    if not isinstance(thing, Image.Image):
        return thing
    before = attributes(thing)
    raw = "RGBX" if thing.mode == "RGB" else thing.mode
    content = thing.tobytes("raw", raw) if thing.mode in ("RGB", "L") else thing.tobytes()
    return before, attributes(thing), thing.getpalette(), thing.readonly, content


def saved(image: Any, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def in_place(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(image: Any) -> Any:
        image = image.copy()
        change(image)
        return image

    return apply


def turned(image: Any) -> Any:
    image.getexif()[0x0112] = 6
    return ImageOps.exif_transpose(image)


def drawn(image: Any) -> None:
    ImageDraw.Draw(image).line((0, 0, *image.size), fill=7)


def entered(image: Any) -> Any:
    with image.copy() as same:
        return same.crop((0, 0, 3, 2))


def arrow(image: Any) -> Any:
    return Image.fromarrow(image, image.mode, image.size)


half = Image.Transform.AFFINE
RETURNING: dict[str, Callable[[Any], Any]] = {
    "crop": lambda image: image.crop((1, 2, image.width // 2 + 2, image.height // 2 + 3)),
    "crop beyond": lambda image: image.crop((-2, 1, image.width + 3, image.height)),
    "resize": lambda image: image.resize((17, 23)),
    "resize box": lambda image: image.resize((17, 13), 1, (0.5, 1, image.width, image.height - 0.25)),
    "flip": lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "turn": lambda image: image.transpose(Image.Transpose.ROTATE_90),
    "RGB": lambda image: image.convert("RGB"),
    "L": lambda image: image.convert("L"),
    "CMYK": lambda image: image.convert("CMYK"),
    "RGBA": lambda image: image.convert("RGBA"),
    "P": lambda image: image.convert("P", palette=Image.Palette.ADAPTIVE, colors=9),
    "copy": lambda image: image.copy(),
    "copy.copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda image: pickle.loads(pickle.dumps(image)),
    "point": lambda image: image.point(lambda value: 255 - value // 2),
    "blur": lambda image: image.filter(ImageFilter.GaussianBlur(1)),
    "median": lambda image: image.filter(ImageFilter.MedianFilter(3)),
    "rotate": lambda image: image.rotate(31, expand=True),
    "transform": lambda image: image.transform((20, 22), half, (0.9, 0.2, 1, -0.1, 1.1, 2), 2),
    "warp": lambda image: image.transform(image.size, half, (0.9, 0.2, 1, -0.1, 1.1, 2), 3, 1, (9, 8, 7)),
    "warp gray": lambda image: image.transform(image.size, half, (0.9, 0.2, 1, -0.1, 1.1, 2), 0, 1, 9),
    "rotate filled": lambda image: image.rotate(31, 2, fillcolor=(9, 8, 7)),
    "reduce": lambda image: image.reduce(2),
    "quantize": lambda image: image.quantize(5),
    "effect_spread of nothing": lambda image: image.effect_spread(0),
    "channel": lambda image: image.getchannel(0),
    "merge": lambda image: Image.merge(image.mode, image.split()[::-1]),
    "paste": in_place(lambda image: image.paste(image.resize((5, 4)), (1, 2))),
    "paste masked": in_place(lambda image: image.paste(9, (0, 0), image.convert("L"))),
    "putalpha": in_place(lambda image: image.putalpha(77)),
    "putpixel": in_place(lambda image: image.putpixel((0, 0), image.getpixel((1, 1)))),
    "thumbnail": in_place(lambda image: image.thumbnail((12, 9))),
    "draw": in_place(drawn),
    "frombytes": in_place(lambda image: image.frombytes(image.tobytes()[::-1])),
    "turn by EXIF": turned,
    "with": entered,
    "arrow": arrow,
    "array": lambda image: Image.fromarray(np.asarray(image)),
    "of a file": lambda image: Image.open(io.BytesIO(saved(image, "PNG"))),
    "alpha_composite": lambda image: Image.alpha_composite(image.convert("RGBA"), image.convert("RGBA")),
    "blend": lambda image: Image.blend(image, image.transpose(0), 0.25),
    "composite": lambda image: Image.composite(image, image.transpose(1), image.convert("L")),
    "ImageChops": lambda image: ImageChops.difference(image, ImageChops.offset(image, 3, 1)),
    "ImageEnhance": lambda image: ImageEnhance.Contrast(image).enhance(1.4),
    "ImageMath": lambda image: ImageMath.lambda_eval(
        lambda given: given["convert"](given["a"] + 1, "L"), a=image.convert("L")
    ),
    "autocontrast": ImageOps.autocontrast,
    "equalize": ImageOps.equalize,
    "expand": lambda image: ImageOps.expand(image, 2, 5),
    "fit": lambda image: ImageOps.fit(image, (11, 13)),
    "grayscale": ImageOps.grayscale,
    "invert": ImageOps.invert,
    "mirror": ImageOps.mirror,
    "pad": lambda image: ImageOps.pad(image, (30, 20)),
    "posterize": lambda image: ImageOps.posterize(image, 3),
    "solarize": ImageOps.solarize,
    "contain": lambda image: ImageOps.contain(image, (20, 20)),
}
TELLING: dict[str, Callable[[Any], Any]] = {
    "attributes": attributes,
    "bounding box": lambda image: image.getbbox(),
    "extrema": lambda image: image.getextrema(),
    "histogram": lambda image: image.histogram(),
    "entropy": lambda image: image.entropy(),
    "colours": lambda image: hash(tuple(image.getcolors(1 << 20))),
    "projection": lambda image: image.getprojection(),
    "bytes": lambda image: image.tobytes(),
    "pixel": lambda image: image.getpixel((1, 2)),
    "access": lambda image: image.load()[1, 2],
    "statistics": lambda image: ImageStat.Stat(image).mean,
    "interface": lambda image: image.__array_interface__,
    "array": np.array,
    "array of floats": lambda image: np.asarray(image, np.float32),
    "JPEG": lambda image: saved(image, "JPEG", quality=80),
    "JPEG as it was": lambda image: saved(image, "JPEG", quality="keep"),
    "PNG": lambda image: saved(image, "PNG"),
    "WebP": lambda image: saved(image, "WEBP"),
    "verify": lambda image: image.verify(),
    "seek": lambda image: (image.seek(0), image.tell()),
    "next frame": lambda image: image.seek(1),
    "repr": lambda image: repr(image).partition(" at ")[0].replace("fastpipe.pillow.lazy_image.Lazy", "PIL.Image."),
    "equal": lambda image: (image == image.copy(), image.copy() == image, image != image.transpose(0)),
    "load": lambda image: image.load() is None,
    "closed": lambda image: image.copy().close(),
}
CALLS = {**RETURNING, **{f"tell {name}": call for name, call in TELLING.items()}}


def outcome(opened: Callable[[], Any], chain: list[str]) -> Any:
    """The results of calls, each on the last image, and all images at the end; with errors and warnings."""
    found = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        images = [opened()]
        for name in chain:
            try:
                made = CALLS[name](images[-1])
            except Exception as error:
                found.append((name, type(error), str(error).partition(" at 0x")[0]))
                continue
            if isinstance(made, Image.Image):
                images.append(made)
            else:
                found.append((name, shown(made)))
        for image in images:
            try:
                found.append(shown(image))
            except Exception as error:  # verified files can't be loaded
                found.append(type(error))
    return found, [str(one.message) for one in told if one.category is not ResourceWarning]


def behind_opener(data: bytes) -> Any:
    with fastpipe.register_pillow_opener():
        return Image.open(io.BytesIO(data))


@given(name=st.sampled_from(NAMES), chain=st.lists(st.sampled_from(list(CALLS)), max_size=5))
def test_any_calls_are_pillows(name: str, chain: list[str]) -> None:
    data = FILES[name]
    expected = outcome(lambda: Image.open(io.BytesIO(data)), chain)
    assert outcome(lambda: fastpipe.open_image(data), chain) == expected
    assert outcome(lambda: behind_opener(data), chain) == expected


@pytest.mark.parametrize("call", CALLS)
def test_each_call_is_pillows(call: str) -> None:
    for name, opened in (("jpeg-420", fastpipe.open_image), ("png-palette", behind_opener)):
        data = FILES[name]
        for chain in ([call], ["RGB", call], ["RGB", "crop", call, "flip"]):
            expected = outcome(lambda data=data: Image.open(io.BytesIO(data)), chain)
            assert outcome(lambda data=data, opened=opened: opened(data), chain) == expected


@pytest.mark.needs_core
def test_members_of_zips() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jpg", FILES["jpeg-420"])
    expected = shown(Image.open(io.BytesIO(FILES["jpeg-420"])).convert("RGB").resize((20, 20)))
    with fastpipe.register_pillow_opener(), zipfile.ZipFile(file) as archive, archive.open("a.jpg") as member:
        lazy = Image.open(member).convert("RGB").resize((20, 20))
        assert type(lazy) is LazyImage
    assert shown(lazy) == expected


def test_both_sides_of_two_images_may_be_lazy() -> None:
    theirs = [Image.open(io.BytesIO(FILES["jpeg-420"])).convert("RGB") for _ in range(2)]
    ours = [fastpipe.open_image(FILES["jpeg-420"]).convert("RGB") for _ in range(2)]
    theirs[0].paste(theirs[1].crop((0, 0, 9, 9)), (3, 3), theirs[1].crop((0, 0, 9, 9)).convert("L"))
    ours[0].paste(ours[1].crop((0, 0, 9, 9)), (3, 3), ours[1].crop((0, 0, 9, 9)).convert("L"))
    assert shown(ours) == shown(theirs)
