"""The report gives each reason in the code for images that were left to their libraries, where it holds."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import corpus
import numpy as np
import pytest
import torch
import torchvision_io_here
from PIL import Image, ImageFile
from torchvision_here import module, torchvision

import fastpipe
from fastpipe.hooks.ledger import LEDGER

T = module("torchvision.transforms")
PHOTO = corpus.photo(97, 131)
JPEG = corpus.jpeg(97, 131)
PALETTE = Image.fromarray(corpus.photo(150, 170)).quantize(21)


Left: TypeAlias = Callable[[Callable[[], Any]], dict[str, dict[str, int]]]


@pytest.fixture
def left(
    fresh_ledger: None,
) -> Callable[[Callable[[], Any]], dict[str, dict[str, int]]]:
    """The images left to their libraries, by site, after a function was called with the hooks installed."""

    def call(function: Callable[[], Any]) -> dict[str, dict[str, int]]:
        with fastpipe.install(check=0), contextlib.suppress(Exception):
            function()
        return {site.name: site.left for site in fastpipe.report().sites if site.left}

    return call


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def png(array: np.ndarray | Image.Image, **options: Any) -> bytes:
    return corpus.save(array, "PNG", **options)


def sixteen_bits() -> np.ndarray:
    return np.arange(97 * 131, dtype=np.uint16).reshape(97, 131) * 5


def drafted() -> None:
    image = opened(corpus.jpeg(400, 500))
    image.draft("RGB", (100, 100))
    image.load()


def loaded_by_somebodys_own() -> None:
    """A file is loaded while Pillow's ``load`` is somebody's own."""
    plain = ImageFile.ImageFile.load
    image = opened(JPEG)
    try:
        ImageFile.ImageFile.load = lambda self: plain(self)  # type: ignore[method-assign]
        image.load()
    finally:
        ImageFile.ImageFile.load = plain  # type: ignore[method-assign]


OPENED: dict[str, tuple[Callable[[], Any], str]] = {
    "TIFF": (lambda: opened(corpus.save(PHOTO, "TIFF")).load(), "TIFF, which fastpipe doesn't decode"),
    "TIFF of 16 bits": (lambda: opened(corpus.save(sixteen_bits(), "TIFF")), "TIFF, which fastpipe doesn't decode"),
    "GIF": (lambda: opened(corpus.save(PHOTO, "GIF")), "GIF, which fastpipe doesn't decode"),
    "WebP": (lambda: opened(corpus.save(PHOTO, "WEBP")), "WEBP, which fastpipe doesn't decode"),
    "BMP": (lambda: opened(corpus.save(PHOTO, "BMP")), "BMP, which fastpipe doesn't decode"),
    "PPM": (lambda: opened(corpus.save(PHOTO, "PPM")), "PPM, which fastpipe doesn't decode"),
    "MPO": (
        lambda: opened(corpus.save(PHOTO, "MPO", save_all=True, append_images=[PALETTE.convert("RGB")])),
        "MPO, which fastpipe doesn't decode",
    ),
    "gray with alpha": (
        lambda: opened(png(Image.fromarray(PHOTO).convert("LA"))).convert("I").load(),
        "PNG in mode LA, used without convert('RGB')",
    ),
    "CMYK": (
        lambda: opened(corpus.save(Image.fromarray(PHOTO).convert("CMYK"), "JPEG")).load(),
        "JPEG in mode CMYK, which fastpipe doesn't decode",
    ),
    "animated": (
        lambda: opened(png(Image.fromarray(PHOTO), save_all=True, append_images=[Image.fromarray(PHOTO[::-1])])),
        "animated PNG",
    ),
    "tiny": (lambda: opened(png(PHOTO[:20, :20])).load(), "PNG of few pixels, which Pillow decodes as fast"),
    "palette": (lambda: np.asarray(opened(png(PALETTE))), "PNG in mode P, used without convert('RGB')"),
    "transparent": (
        lambda: np.asarray(opened(png(Image.fromarray(PHOTO).convert("RGBA")))),
        "PNG in mode RGBA, used without convert('RGB')",
    ),
    "cut off": (lambda: opened(JPEG[:-2000]).load(), "JPEG that may be damaged, or has more after its pixels"),
    "changed": (drafted, "changed after it was opened, as by draft"),
    "load": (loaded_by_somebodys_own, "somebody has replaced Pillow's load"),
    "two scans": (
        lambda: opened(corpus.files()["jpeg-progressive-scan-missing"]).load(),
        "JPEG that may be damaged, or has more after its pixels",
    ),
    "a chunk of text at the end": (
        lambda: opened(corpus.files()["png-text-after"]).load(),
        "PNG that may be damaged, or has more after its pixels",
    ),
}
NOT_REFUSED = {
    "a resized photo": lambda: opened(JPEG).resize((20, 30)).load(),
    "an array": lambda: np.asarray(opened(JPEG)),
    "a palette in RGB": lambda: np.asarray(opened(png(PALETTE)).convert("RGB")),
    "a file that isn't used": lambda: opened(JPEG).size,
}


@pytest.mark.needs_core
@pytest.mark.parametrize("name", OPENED)
def test_pillow(name: str, left: Left) -> None:
    call, reason = OPENED[name]
    assert left(call) == {"PIL.Image.open": {reason: 1}}
    assert LEDGER.site("function", "PIL.Image.open").images == 0


@pytest.mark.needs_core
@pytest.mark.parametrize("name", NOT_REFUSED)
def test_what_is_accelerated_isn_t_left(name: str, left: Left) -> None:
    assert left(NOT_REFUSED[name]) == {}
    assert LEDGER.site("function", "PIL.Image.open").images == 1


# -- OpenCV

cv2 = pytest.importorskip("cv2")


def decoded(data: bytes, flags: int = 1) -> Any:
    return cv2.imdecode(np.frombuffer(data, np.uint8), flags)


CV2: dict[str, tuple[Callable[[Path], Any], str]] = {
    "flags": (lambda folder: decoded(JPEG, 17), "other flags"),
    "keyword": (lambda folder: cv2.imdecode(np.frombuffer(JPEG, np.uint8), flags=1, dst=None), "other arguments"),
    "no array": (lambda folder: cv2.imdecode([1], 1), "arguments other than an array and flags"),
    "a name": (lambda folder: cv2.imread(folder / "a.jpg"), "arguments other than a name and flags"),
    "strides": (
        lambda folder: cv2.imdecode(np.frombuffer(JPEG + JPEG, np.uint8)[::2], 1),
        "buffers other than bytes in a row",
    ),
    "nowhere": (lambda folder: cv2.imread(str(folder / "nowhere.jpg")), "files that can't be opened"),
    "a folder": (lambda folder: cv2.imread(str(folder)), "not a file, or one of more than 1 GiB"),
    "animated": (
        lambda folder: decoded(corpus.files()["png-animated"]),
        "files that OpenCV may read otherwise",
    ),
    "warned of": (lambda folder: decoded(corpus.files()["png-exif-6"]), "files that OpenCV may warn about"),
    "RGBA": (lambda folder: decoded(corpus.files()["png-rgba"]), "other colours than the file's"),
    "several": (
        lambda folder: cv2.imreadmulti(str(folder / "a.jpg")),
        "fastpipe decodes no files of several images",
    ),
}


@pytest.mark.needs_core
@pytest.mark.parametrize("name", CV2)
def test_opencv(name: str, left: Left, tmp_path: Path) -> None:
    call, reason = CV2[name]
    (tmp_path / "a.jpg").write_bytes(JPEG)
    assert [*left(lambda: call(tmp_path)).values()] == [{reason: 1}]


# -- torchvision.io

NOISE = np.random.default_rng(1).integers(0, 256, (200, 240, 3), np.uint8)
LARGE = corpus.save(NOISE, "JPEG")


def as_tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


IO: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a mask": (
        lambda folder: decode_image(png(Image.new("P", (500, 375)))),
        "a file of less than 4,096 bytes, which torchvision decodes as fast",
    ),
    "few pixels": (
        lambda folder: decode_image(corpus.save(NOISE[:100, :90], "PNG")),
        "an image of less than 32,768 pixels, which torchvision decodes as fast",
    ),
    "WebP": (lambda folder: decode_image(corpus.save(NOISE, "WEBP", lossless=True)), "neither a JPEG nor a PNG"),
    "mode": (
        lambda folder: torchvision.io.decode_image(as_tensor(LARGE), mode=5),
        "arguments of another kind",
    ),
    "cut off": (lambda folder: decode_image(LARGE[:-3000]), "a damaged file"),
    "4:4:0": (
        lambda folder: decode_image(corpus.jpeg(300, 400, "440")),
        "a JPEG in 4:4:0, whose chroma older versions of torchvision's libjpeg don't smooth",
    ),
    "gray": (
        lambda folder: torchvision.io.decode_image(as_tensor(LARGE), torchvision.io.ImageReadMode.GRAY),
        "mode GRAY of a YCbCr JPEG",
    ),
    "decode_png": (
        lambda folder: torchvision.io.decode_png(as_tensor(png(NOISE))),
        "decode_image is accelerated, not this",
    ),
}


def decode_image(data: bytes) -> torch.Tensor:
    return torchvision.io.decode_image(as_tensor(data))


@pytest.mark.needs_core
@pytest.mark.skipif(bool(torchvision_io_here.why_not()), reason="torchvision decodes nothing here")
@pytest.mark.parametrize("name", IO)
def test_torchvision_io(name: str, left: Left, tmp_path: Path) -> None:
    call, reason = IO[name]
    assert [*left(lambda: call(tmp_path)).values()] == [{reason: 1}]


# -- transforms


def test_a_compose_that_a_check_found_wrong(left: Left) -> None:
    transform = T.Compose([T.Resize(20), T.ToTensor()])

    def call() -> None:
        transform(opened(JPEG).convert("RGB"))
        LEDGER.site("transform", "Compose(Resize, ToTensor)").is_off = True
        transform(opened(JPEG).convert("RGB"))

    assert left(call)["Compose(Resize, ToTensor)"] == {"a check found a difference": 1}


def test_a_compose_of_unknown_transforms(left: Left) -> None:
    class Own:
        def __call__(self, image: Image.Image) -> Image.Image:
            return image

    found = left(lambda: T.Compose([Own()])(Image.fromarray(PHOTO)))
    assert found == {"Compose(Own)": {"none of its transforms is known": 1}}
