"""Methods of Pillow's classes that a test replaces while an image is open are called on images without pixels, too."""

from __future__ import annotations

import inspect
import io
from typing import Any
from unittest import mock

import corpus
import pytest
from PIL import Image, ImageFile, ImageFilter, JpegImagePlugin, PngImagePlugin

import fastpipe

pytestmark = pytest.mark.needs_core

PHOTO = corpus.jpeg(40, 50, "420", seed=3)
CALLS: dict[str, tuple[Any, ...]] = {
    "convert": ("RGB",),
    "copy": (),
    "crop": ((1, 2, 9, 9),),
    "filter": (ImageFilter.SMOOTH,),
    "load": (),
    "point": (abs,),
    "reduce": (2,),
    "resize": ((9, 8),),
    "transform": ((50, 40), Image.Transform.AFFINE, (1, 0, 0, 0, 1, 0)),
    "transpose": (Image.Transpose.ROTATE_90,),
    "close": (),
}


def png() -> bytes:
    file = io.BytesIO()
    Image.open(io.BytesIO(PHOTO)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("opens", ["JPEG", "PNG", "image"])
def test_a_replaced_method_is_called(name: str, opens: str) -> None:
    owners: list[type[Image.Image]] = [Image.Image]
    if opens != "image":
        owners.append(ImageFile.ImageFile)
        owners.append(JpegImagePlugin.JpegImageFile if opens == "JPEG" else PngImagePlugin.PngImageFile)
        owners = [owner for owner in owners if owner is not Image.Image or name not in vars(ImageFile.ImageFile)]
    for owner in owners:
        image = fastpipe.open_image(png() if opens == "PNG" else PHOTO)
        image = image.convert("RGB").resize((50, 40)) if opens == "image" else image
        assert fastpipe.is_pending(image)
        with mock.patch.object(owner, name) as replaced:
            assert getattr(image, name)(*CALLS[name]) is replaced.return_value
        replaced.assert_called_once_with(*CALLS[name])
        with mock.patch.object(owner, name, autospec=True) as replaced:
            getattr(image, name)(*CALLS[name])
        replaced.assert_called_once_with(image, *CALLS[name])
        getattr(image, name)(*CALLS[name])  # Pillow's is there again


@pytest.mark.parametrize("owner", [Image.Image, ImageFile.ImageFile])
def test_methods_call_a_load_that_is_replaced(owner: type[Image.Image]) -> None:
    image = fastpipe.open_image(PHOTO)
    with mock.patch.object(owner, "load", side_effect=OSError("no pixels")):
        for name in ("convert", "copy", "crop", "resize", "load"):
            with pytest.raises(OSError, match="no pixels"):
                getattr(image, name)(*CALLS[name])
    assert image.resize((9, 8)).tobytes() == Image.open(io.BytesIO(PHOTO)).resize((9, 8)).tobytes()


def test_methods_call_a_load_that_is_replaced_after_the_first_one() -> None:
    image = fastpipe.open_image(PHOTO).convert("RGB").crop((1, 2, 30, 31))
    with mock.patch.object(Image.Image, "load", side_effect=OSError("no pixels")):
        for name in ("copy", "resize", "load"):
            with pytest.raises(OSError, match="no pixels"):
                getattr(image, name)(*CALLS[name])
    plain = Image.open(io.BytesIO(PHOTO)).crop((1, 2, 30, 31))
    assert image.tobytes() == plain.tobytes()


def test_getexif_may_be_replaced() -> None:
    with fastpipe.register_pillow_opener(), mock.patch.object(JpegImagePlugin.JpegImageFile, "getexif") as replaced:
        assert Image.open(io.BytesIO(PHOTO)).getexif() is replaced.return_value


def test_methods_look_like_pillows() -> None:
    file = fastpipe.open_image(PHOTO)
    plain = Image.new("RGB", (3, 3))
    for name in {*CALLS} - {"load"}:  # which a file has another of
        expected = inspect.signature(getattr(plain, name)), inspect.getdoc(getattr(plain, name))
        image = file.convert("RGB")
        assert (inspect.signature(getattr(image, name)), inspect.getdoc(getattr(image, name))) == expected
        if name != "close":
            assert inspect.signature(getattr(file, name)) == expected[0]


def test_a_mock_is_asked_for_nothing_else() -> None:
    with fastpipe.install():
        Image.open(io.BytesIO(PHOTO)).convert("RGB")
        with mock.patch.object(Image.Image, "convert") as replaced:
            Image.open(io.BytesIO(PHOTO)).convert("RGB")
        assert replaced.mock_calls == [mock.call("RGB")]
        with mock.patch.object(Image.Image, "resize") as replaced:
            Image.open(io.BytesIO(PHOTO)).thumbnail((9, 9))
        assert len(replaced.mock_calls) == 1
