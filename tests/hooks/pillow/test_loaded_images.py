"""Methods of Pillow's images that have their pixels, under `fastpipe.install`: by the core, with Pillow's bytes."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import corpus
import numpy as np
import pytest
import torchvision_here  # noqa: F401
from PIL import Image, ImageFilter, ImageOps
from torchvision.transforms import functional as F
from torchvision.transforms.v2 import functional as F2

import fastpipe
from fastpipe.errors import FastpipeWarning
from fastpipe.hooks.ledger import LEDGER
from fastpipe.pillow import loaded_image

pytestmark = pytest.mark.needs_core

TURN = math.cos(0.3), math.sin(0.3), 3.0, -math.sin(0.3), math.cos(0.3), 5.0
TILT = 1.1, 0.1, -5.0, 0.05, 0.9, 3.0, 0.001, -0.0005
METHODS = ("resize", "transform", "filter")


def loaded(mode: str = "RGB", height: int = 97, width: int = 131) -> Image.Image:
    image = Image.fromarray(np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)).convert(mode)
    image.info["dpi"] = (72, 72)
    return image


@pytest.fixture
def images(fresh_ledger: None) -> Iterator[Callable[[], dict[str, int]]]:
    """The number of images that each method has made by the core, by its name."""
    with fastpipe.install(check=0):
        yield lambda: {name: LEDGER.site("function", f"PIL.Image.Image.{name}").images for name in METHODS}


def facts(image: Image.Image) -> object:
    fourth = image.tobytes("raw", "RGBX") if image.mode == "RGB" else None
    return type(image), image.mode, image.size, image.info, image.tobytes(), fourth


WORK: dict[str, tuple[str, Callable[[Image.Image], Image.Image]]] = {
    **{
        f"resized by {filter.name}": ("resize", lambda image, filter=filter: image.resize((70, 41), filter))
        for filter in Image.Resampling
        if 0 < filter <= Image.Resampling.HAMMING
    },
    "enlarged": ("resize", lambda image: image.resize([190, 333])),
    "a box of it": ("resize", lambda image: image.resize((50, 60), Image.Resampling.LANCZOS, (3.5, 2, 99.25, 80))),
    "with a gap": ("resize", lambda image: image.resize((80, 60), Image.Resampling.BILINEAR, reducing_gap=2.0)),
    "by a size of numpy's": ("resize", lambda image: image.resize(np.array([50, 60]))),
    "fitted": ("resize", lambda image: ImageOps.fit(image, (64, 64))),
    "by torchvision": ("resize", lambda image: F.resize(image, [70, 80])),
    "blurred": ("filter", lambda image: image.filter(ImageFilter.GaussianBlur(1.7))),
    "blurred by boxes": ("filter", lambda image: image.filter(ImageFilter.BoxBlur(2))),
    "smoothed": ("filter", lambda image: image.filter(ImageFilter.SMOOTH)),
}
WARPS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "turned": lambda image: image.rotate(17, Image.Resampling.BILINEAR, fillcolor=(1, 2, 3)),
    "warped": lambda image: image.transform(image.size, Image.Transform.AFFINE, TURN, 3, fillcolor=(9, 8, 7)),
    "turned without a colour": lambda image: image.rotate(17, Image.Resampling.BICUBIC),
    "tilted without a colour": lambda image: image.transform(image.size, Image.Transform.PERSPECTIVE, TILT, 2),
}


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_the_core_makes_pillows_image(name: str, mode: str, images: Callable[[], dict[str, int]]) -> None:
    method, work = WORK[name]
    made = facts(work(loaded(mode)))
    assert images()[method] == 1
    fastpipe.uninstall()
    assert made == facts(work(loaded(mode)))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_file_that_has_its_pixels_is_an_image(kind: str, images: Callable[[], dict[str, int]]) -> None:
    file = io.BytesIO()
    loaded().save(file, kind)

    def opened() -> Image.Image:
        file.seek(0)
        image = Image.open(file)
        assert np.shape(image) == np.shape(image) == (97, 131, 3)  # the second one decodes the image
        return image

    image = opened()
    made = [facts(work(image)) for work in (WORK["enlarged"][1], WORK["blurred"][1], WARPS["turned"])]
    assert images() == dict.fromkeys(METHODS, 1)
    fastpipe.uninstall()
    assert made == [facts(work(opened())) for work in (WORK["enlarged"][1], WORK["blurred"][1], WARPS["turned"])]


@pytest.mark.parametrize("size", [(97, 131), (8, 9)])
@pytest.mark.parametrize("factor", [0.13, -0.5, np.float64(0.3)])
def test_hues_are_shifted_as_by_torchvision(size: tuple[int, int], factor: float) -> None:
    site = "torchvision.transforms._functional_pil.adjust_hue"
    with fastpipe.install(check=0):
        before = LEDGER.site("function", site).images
        made = facts(F.adjust_hue(loaded("RGB", *size), factor))
        assert LEDGER.site("function", site).images == before + 1
        assert F.adjust_hue(loaded("L"), factor).mode == "L"
        with pytest.raises(ValueError, match=r"0\.6"):
            F.adjust_hue(loaded(), 0.6)
    assert made == facts(F.adjust_hue(loaded("RGB", *size), factor))


@pytest.mark.parametrize("size", [(97, 131), (8, 9)])
@pytest.mark.parametrize(
    ("site", "blur"),
    [
        ("torchvision.transforms.functional.gaussian_blur", lambda *given: F.gaussian_blur(*given)),
        ("torchvision.transforms.v2.functional._misc._gaussian_blur_image_pil", F2.gaussian_blur),
    ],
    ids=["v1", "v2"],
)
def test_the_core_blurs_as_torchvision(size: tuple[int, int], site: str, blur: Callable[..., Image.Image]) -> None:
    with fastpipe.install(check=0):
        before = LEDGER.site("function", site).images
        made = [facts(blur(loaded("RGB", *size), *given)) for given in ((3,), ([5, 7], [0.3, 2]), ([1, 3], 1.1))]
        assert LEDGER.site("function", site).images == before + 3
        assert blur(loaded("L"), 3).mode == "L"
        for wrong in ((4,), (3, -1.0), ([301, 3],)):
            with pytest.raises((ValueError, RuntimeError)):
                blur(loaded("RGB", *size), *wrong)
    assert made == [facts(blur(loaded("RGB", *size), *given)) for given in ((3,), ([5, 7], [0.3, 2]), ([1, 3], 1.1))]


@pytest.mark.parametrize("name", WARPS)
def test_the_core_warps_colours(name: str, images: Callable[[], dict[str, int]]) -> None:
    made = facts(WARPS[name](loaded()))
    assert images()["transform"] == 1
    fastpipe.uninstall()
    assert made == facts(WARPS[name](loaded()))


LEFT: dict[str, Callable[[], Image.Image]] = {
    "another mode": lambda: loaded("RGBA").resize((30, 40)),
    "a palette": lambda: loaded("P").resize((30, 40), Image.Resampling.NEAREST),
    "few pixels": lambda: loaded(height=8, width=8).resize((9, 9)),
    "its own size": lambda: loaded().resize((131, 97)),
    "in two steps": lambda: loaded(height=600, width=700).resize((40, 30), 2, reducing_gap=2.0),
    "to another size": lambda: loaded().transform((50, 60), Image.Transform.AFFINE, TURN, 2, fillcolor=(0, 0, 0)),
    "a size that is gone through once": lambda: loaded().resize(iter((40, 50))),  # type: ignore[arg-type]
    "nearest pixels": lambda: loaded().resize((40, 50), Image.Resampling.NEAREST),
    "some more nearest pixels": lambda: loaded().resize((192, 192), Image.Resampling.NEAREST),
    "another filter": lambda: loaded().filter(ImageFilter.MedianFilter(3)),
    "a file": lambda: Image.open(io.BytesIO(corpus.save(corpus.photo(55, 83, 9), "BMP"))).resize((20, 30)),
}


@pytest.mark.parametrize("name", LEFT)
def test_the_rest_is_pillows(name: str, images: Callable[[], dict[str, int]]) -> None:
    made = facts(LEFT[name]())
    assert set(images().values()) == {0}
    assert not any(site.left for site in LEDGER._sites.values() if site.name.startswith("PIL.Image.Image"))
    fastpipe.uninstall()
    assert made == facts(LEFT[name]())


@pytest.mark.parametrize("name", ["few pixels", "nearest pixels", "some more nearest pixels", "a palette"])
def test_what_gains_nothing_goes_to_pillow_at_once(name: str, fresh_ledger: None) -> None:
    with fastpipe.install(check=0):
        LEFT[name]()
    assert not [site for site in LEDGER._sites.values() if site.name.startswith("PIL.Image.Image")]


def test_a_filter_of_the_users_is_called_once(images: Callable[[], dict[str, int]]) -> None:
    calls = []

    def blur() -> ImageFilter.GaussianBlur:
        calls.append(1)
        return ImageFilter.GaussianBlur(2)

    loaded().filter(blur)  # type: ignore[arg-type]
    assert len(calls) == 1


@pytest.mark.parametrize("arguments", [((0, 5),), ((5, 5), 99), ((5, 5), 2, (0, 0, 999, 4)), ((5, 5), 2, None, 0.5)])
def test_pillow_refuses(arguments: Any, images: Callable[[], dict[str, int]]) -> None:
    with pytest.raises(ValueError, match=r"\w") as ours:
        loaded().resize(*arguments)
    fastpipe.uninstall()
    with pytest.raises(ValueError, match=re.escape(str(ours.value))):
        loaded().resize(*arguments)


def test_the_first_images_are_compared(fresh_ledger: None) -> None:
    with fastpipe.install(check=2):
        for _ in range(5):
            loaded().resize((60, 50))
        site = LEDGER.site("function", "PIL.Image.Image.resize")
        assert (site.images, site.checked, site.differed) == (5, 2, 0)


def test_where_one_differs_it_is_pillows(fresh_ledger: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_image, "run_operation", lambda operation, image: Image.new("RGB", (60, 50)))
    expected = loaded().resize((60, 50))
    with fastpipe.install(check=2):
        with pytest.warns(FastpipeWarning, match="PIL.Image.Image.resize gave other values"):
            made = loaded().resize((60, 50))
        assert made.tobytes() == loaded().resize((60, 50)).tobytes() == expected.tobytes()


def test_a_check_of_an_opened_image_is_pillows_alone(fresh_ledger: None) -> None:
    with fastpipe.install(check=2):
        image = Image.open(io.BytesIO(corpus.jpeg(97, 131, "420"))).convert("RGB").resize((60, 50))
        np.asarray(image)
        assert LEDGER.site("function", "PIL.Image.open").checked == 1
        assert LEDGER.site("function", "PIL.Image.Image.resize").images == 0
