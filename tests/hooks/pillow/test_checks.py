"""The first images opened under `fastpipe.install` are compared with Pillow's, and are Pillow's where they differ."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from typing import Any

import corpus
import numpy as np
import pytest
import torchvision_here  # noqa: F401
from PIL import Image, ImageEnhance, ImageFile, ImageFilter, ImageOps
from torchvision import transforms
from torchvision.transforms import functional as F

import fastpipe
from fastpipe.errors import FastpipeWarning
from fastpipe.hooks.ledger import LEDGER, Site
from fastpipe.pillow.lazy_image import shadow_of
from fastpipe.pillow.lazy_source import LazySource
from fastpipe.program.comparisons import MOST_COMPARED

pytestmark = pytest.mark.needs_core

PHOTO = corpus.jpeg(97, 131, "420", seed=5)
PALETTE = corpus.save(Image.fromarray(corpus.photo(97, 131, seed=6)).quantize(), "PNG")
FILES = [PHOTO, corpus.files()["jpeg-gray"], PALETTE, corpus.jpeg(20, 30, "444", seed=2)]


@pytest.fixture
def site(fresh_ledger: None) -> Iterator[Site]:
    with fastpipe.install(check=2):
        yield LEDGER.site("function", "PIL.Image.open")


def opened(data: bytes = PHOTO) -> Any:
    return Image.open(io.BytesIO(data))


WORK: dict[str, Callable[[Any], Any]] = {
    "in RGB": lambda image: image.convert("RGB"),
    "resized": lambda image: image.convert("RGB").resize((40, 30), 2, (1, 2, 20, 19)),
    "cut and turned": lambda image: (
        image.convert("RGB").crop((-3, 2, 20, 19)).transpose(2).rotate(12, 2, fillcolor=(1, 2, 3))
    ),
    "jittered": lambda image: F.adjust_hue(F.adjust_contrast(F.adjust_saturation(image.convert("RGB"), 1.4), 0.7), 0.2),
    "brighter": lambda image: ImageEnhance.Brightness(image.convert("RGB")).enhance(1.4),
    "sharper": lambda image: ImageEnhance.Sharpness(image.convert("RGB").convert("L")).enhance(1.4),
    "of one brightness": lambda image: ImageEnhance.Contrast(image.convert("RGB")).degenerate,
    "equal": lambda image: ImageOps.equalize(ImageOps.autocontrast(image.convert("RGB"))),
    "padded": lambda image: F.pad(ImageOps.expand(image.convert("RGB"), 3, "red"), 2, padding_mode="edge"),
    "gray": lambda image: F.to_grayscale(image.convert("RGB"), 3),
    "pointed": lambda image: ImageOps.posterize(image.convert("RGB").point(lambda value: 255 - value), 3),
    "blurred": lambda image: image.convert("RGB").filter(ImageFilter.GaussianBlur(1.2)).copy(),
    "warped": lambda image: image.convert("RGB").transform(
        image.size, 0, (1, 0.1, 0, 0, 1, 0.2), 2, fillcolor=(0, 0, 0)
    ),
}


@pytest.mark.parametrize("name", WORK)
def test_the_same_image_is_made_by_pillow(name: str, site: Site) -> None:
    for data in FILES:
        made = WORK[name](opened(data))
        assert fastpipe.is_pending(made)
        shadow = shadow_of(made)
        assert fastpipe.is_pending(made)
        assert shadow is not None
        fastpipe.uninstall()
        plain = WORK[name](opened(data))
        fastpipe.install(check=2)
        assert (shadow.mode, shadow.info, shadow.tobytes()) == (plain.mode, plain.info, plain.tobytes())


def test_the_first_images_are_compared(site: Site) -> None:
    for number in range(5):
        image = opened()
        assert fastpipe.is_pending(image)
        work = image.convert("RGB").resize((20, 20))
        np.asarray(work) if number % 2 else work.load()[0, 0]
        assert site.images == number + 1
        assert site.checked == min(number + 1, 2)
    assert site.plain_seconds > 0
    assert site.fast_seconds > 0
    assert not site.differed


def test_a_whole_file_takes_pillow_the_time_of_its_decode(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(image: ImageFile.ImageFile) -> None:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass

    monkeypatch.setattr(ImageFile.ImageFile, "load_end", work)
    for _ in range(2):
        opened().tobytes()
    assert (site.checked, site.compared, site.differed) == (2, 1, 0)
    assert site.plain_seconds >= 0.02


@pytest.mark.parametrize("opens", [opened, lambda: opened().convert("RGB")], ids=["a file", "an image"])
@pytest.mark.parametrize("kind", [ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color])
def test_enhanced_images_are_compared(site: Site, kind: Any, opens: Callable[[], Any]) -> None:
    image = opens()
    assert image.info  # which a brighter image hasn't
    made = kind(image).enhance(1.4)
    info = made.info.copy()
    content = made.tobytes()
    assert (site.checked, site.differed) == (1, 0)
    fastpipe.uninstall()
    plain = kind(opens()).enhance(1.4)
    assert (info, content) == (plain.info, plain.tobytes())


def test_files_themselves_are_compared(site: Site) -> None:
    opened().load()[0, 0]
    assert site.checked == 1
    for function in (F.to_tensor, F.pil_to_tensor):
        for _ in range(3):
            function(opened().convert("L"))
        made = LEDGER.site("function", f"torchvision.transforms.functional.{function.__name__}")
        assert (made.images, made.checked, made.differed) == (3, 2, 0)


def test_where_pixels_differ_pillows_are_taken(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    run = LazySource.run

    def wrong(self: LazySource, *args: Any, **options: Any) -> Any:
        made = run(self, *args, **options)
        return made.point(lambda value: value ^ 1) if isinstance(made, Image.Image) else made

    image = opened().convert("RGB").resize((30, 20))
    later = opened().convert("RGB")
    monkeypatch.setattr(LazySource, "run", wrong)
    with pytest.warns(FastpipeWarning, match="other pixels than Pillow's"):
        content = image.tobytes()
    assert site.is_off
    assert site.differed == 1
    after = opened().convert("RGB")
    assert not fastpipe.is_pending(after)
    fastpipe.uninstall()
    assert content == opened().convert("RGB").resize((30, 20)).tobytes()
    assert after.tobytes() == later.tobytes() == opened().convert("RGB").tobytes()


def test_a_difference_in_info_is_told(site: Site) -> None:
    image = opened().convert("RGB")
    vars(image)["_fastpipe"].checked_info["dpi"] = 3
    with pytest.warns(FastpipeWarning, match="another info"):
        image.tobytes()


def change_info(image: Any) -> None:
    image.info["note"] = "mine"


def replace_info(image: Any) -> None:
    image.info = {"dpi": (3, 3)}


@pytest.mark.parametrize("data", FILES, ids=["colour", "gray", "palette", "small"])
@pytest.mark.parametrize("change", [change_info, replace_info])
def test_a_user_may_change_info(site: Site, change: Callable[[Any], None], data: bytes) -> None:
    def results() -> list[Any]:
        image = opened(data)
        change(image)
        opened_first = image.convert("RGB")
        cut = opened_first.crop((1, 2, 15, 12))
        change(cut)
        turned = cut.transpose(2)
        turned.info["turned"] = True
        return [opened_first, turned, turned.copy(), image]

    made = results()
    shadows = [shadow_of(image) for image in made]
    contents = [image.tobytes() for image in made]  # where each is compared, unless it is Pillow's, as with a palette
    assert (site.checked, site.differed) == (3 + (made[-1].mode != "P"), 0)
    fastpipe.uninstall()
    plain = results()
    assert [image.info for image in made] == [image.info for image in plain]
    assert [shadow.info for shadow in shadows if shadow is not None] == [image.info for image in plain]
    assert contents == [image.tobytes() for image in plain]


def test_a_users_function_runs_once(site: Site) -> None:
    values: list[int] = []

    def looked_up(value: int) -> int:
        values.append(value)
        return value // 2

    opened().convert("L").point(looked_up).tobytes()
    assert site.checked == 1
    assert values == [*range(256)]


def test_what_was_given_may_change_afterwards(site: Site) -> None:
    box, table, blur = [1, 2, 30, 40], [*range(255, -1, -1)] * 3, ImageFilter.GaussianBlur(1)
    image = opened().convert("RGB").crop(box).point(table).filter(blur)
    box[2], table[5], blur.radius = 9, 0, 9
    image.tobytes()
    assert (site.checked, site.differed) == (1, 0)


def test_nothing_is_compared_where_nobody_asks(fresh_ledger: None) -> None:
    with fastpipe.install(check=0):
        opened().convert("RGB").tobytes()
        assert LEDGER.site("function", "PIL.Image.open").checked == 0


@pytest.mark.parametrize("look", [np.asarray, lambda image: image.tobytes(), lambda image: image.getpixel((3, 4))])
def test_a_mistake_of_ours_is_never_the_user_s(
    site: Site, monkeypatch: pytest.MonkeyPatch, look: Callable[[Any], Any]
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise RuntimeError("a mistake")

    images = [opened().convert("RGB").resize((40, 30)), opened().convert("RGB"), opened()]
    plain = Image.open(io.BytesIO(PHOTO), formats=["JPEG"])
    fastpipe.uninstall()
    expected = [look(image) for image in (plain.resize((40, 30)), plain, plain)]
    monkeypatch.setattr(LazySource, "_run", fail)
    for image, value in zip(images, expected, strict=True):
        np.testing.assert_array_equal(look(image), value)
    assert list(site.left) == ["fastpipe failed (RuntimeError: a mistake), and the plain way was taken"]


def test_files_that_stay_pillow_s_are_not_counted(site: Site) -> None:
    tiny, photo = (corpus.save(corpus.photo(side, side, seed=3), "PNG") for side in (30, 70))
    for data in (photo, photo, tiny, photo, corpus.save(Image.new("CMYK", (90, 80)), "JPEG")):
        opened(data).convert("RGB").load()
    assert site.images == 3


PARTS: dict[str, Callable[[Any, tuple[int, int, int, int]], Any]] = {
    "crops": lambda image, box: image.crop(box),
    "tiles": lambda image, box: image.resize((8, 8), Image.Resampling.BILINEAR, box=box),
    "warps": lambda image, box: image.transform(image.size, 0, (1, 0.1, box[0], 0, 1, box[1]), 2).crop(box),
    "tensors": lambda image, box: Image.fromarray(F.to_tensor(image.crop(box)).mul(255).byte().numpy()[0]),
    "in one go": lambda image, box: image.convert("L").crop(box).resize((5, 6), 2),
}


@pytest.mark.parametrize("opens", [opened, lambda: opened().convert("RGB")], ids=["a file", "an image"])
@pytest.mark.parametrize("name", PARTS)
def test_a_file_of_many_parts_is_decoded_once_by_pillow(
    name: str, opens: Callable[[], Any], site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, boxes = PARTS[name], [(x, y, x + 12, y + 10) for x in range(0, 110, 9) for y in range(0, 80, 9)]
    decodes = []
    monkeypatch.setattr(ImageFile.ImageFile, "load_end", lambda image: decodes.append(image))
    image = opens()
    made = [cut(image, box).tobytes() for box in boxes]
    assert len(decodes) == 1
    sites, _ = LEDGER.total()
    assert 0 < sum(one.checked for one in sites) <= MOST_COMPARED
    assert not any(one.differed for one in sites)
    fastpipe.uninstall()
    plain = opens()
    assert made == [cut(plain, box).tobytes() for box in boxes]


def test_a_compose_called_for_many_parts_of_a_file_decodes_it_once_by_pillow(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    transform = transforms.Compose([transforms.RandomCrop(30)])
    opened().load()
    opened().load()  # the two images that are checked
    decodes = []
    monkeypatch.setattr(ImageFile.ImageFile, "load_end", lambda image: decodes.append(image))
    image = opened().convert("RGB")
    for _ in range(40):
        transform(image).load()
    assert len(decodes) == 1
    assert LEDGER.site("transform", "Compose(RandomCrop)").checked == 2


def test_what_pillow_made_for_the_next_comparison_is_not_changed(site: Site) -> None:
    image = opened()
    shadow = shadow_of(image)
    assert shadow is not None
    shadow.putpixel((0, 0), (9, 8, 7))
    shadow.info["note"] = "mine"
    again = shadow_of(image)
    assert again is not None
    assert again.getpixel((0, 0)) == image.getpixel((0, 0)) != (9, 8, 7)
    assert "note" not in again.info
    assert site.differed == 0
