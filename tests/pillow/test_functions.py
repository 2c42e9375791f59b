"""Pillow's and torchvision's functions on images without pixels: recorded, and theirs byte for byte."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import corpus
import pytest
import torch
import torchvision_here  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torchvision.transforms import _functional_pil
from torchvision.transforms import functional as F
from torchvision.transforms.v2 import functional as F2
from torchvision.transforms.v2.functional import _utils as v2_utils

import fastpipe
from fastpipe import core
from fastpipe.pillow.image_record import image_record_of
from fastpipe.pillow.lazy_image import LazyImage

FILES = {
    "colour": corpus.jpeg(97, 131, "420", seed=5),
    "gray": corpus.files()["jpeg-gray"],
    "png": corpus.save(corpus.photo(31, 45, 6), "PNG"),
    "gray png": corpus.files()["png-gray"],
    "png with a transparent colour": corpus.save(corpus.photo(23, 45, 6), "PNG", transparency=(1, 2, 3)),
    "gray png with a transparent colour": corpus.files()["png-gray-trns"],
    "one pixel": corpus.jpeg(1, 1, "420", seed=1),
    "two by three": corpus.jpeg(2, 3, "444", seed=2),
}
STARTS: dict[str, Callable[[Any], Any]] = {
    "a file": lambda image: image,
    "RGB": lambda image: image.convert("RGB"),
    "L": lambda image: image.convert("L"),
    "gray in RGB": lambda image: image.convert("L").convert("RGB"),
    "a view": lambda image: image.convert("RGB").resize((40, 30)).transpose(0),
}
Change = Callable[[Any], Any]


def _fill(image: Any) -> Any:
    return (1, 2, 3) if image.mode == "RGB" else 7


RECORDED: dict[str, Change] = {
    **{
        f"{kind.__name__} {factor}": lambda image, kind=kind, factor=factor: kind(image).enhance(factor)
        for kind in (ImageEnhance.Brightness, ImageEnhance.Color, ImageEnhance.Contrast, ImageEnhance.Sharpness)
        for factor in (0, 0.0, 0.3, 1, 1.0, 1.8, 20)
    },
    **{
        f"{kind.__name__} {factor}": lambda image, kind=kind, factor=factor: kind(image).enhance(factor)
        for kind in (ImageEnhance.Color, ImageEnhance.Contrast, ImageEnhance.Sharpness)
        for factor in (-0.7, -3)
    },
    "no brightness": lambda image: ImageEnhance.Brightness(image).degenerate,
    "no contrast": lambda image: ImageEnhance.Contrast(image).degenerate,
    "no colour": lambda image: ImageEnhance.Color(image).degenerate,
    "no sharpness": lambda image: ImageEnhance.Sharpness(image).degenerate,
    "enhanced again": lambda image: ImageEnhance.Sharpness(ImageEnhance.Contrast(image).enhance(1.4)).enhance(2.2),
    "a blend with gray": lambda image: Image.blend(image.convert("L").convert(image.mode), image, 0.3),
    "a blend by name": lambda image: Image.blend(alpha=1.2, im2=image, im1=image.filter(ImageFilter.SMOOTH)),
    "autocontrast": lambda image: ImageOps.autocontrast(image),
    "equalize": lambda image: ImageOps.equalize(image),
    "invert": lambda image: ImageOps.invert(image),
    "posterize": lambda image: ImageOps.posterize(image, 3),
    "solarize": lambda image: ImageOps.solarize(image, 99),
    "grayscale": lambda image: ImageOps.grayscale(image),
    "mirror": lambda image: ImageOps.mirror(image),
    "flip": lambda image: ImageOps.flip(image),
    "expand": lambda image: ImageOps.expand(image, 7),
    "expand by colour": lambda image: ImageOps.expand(image, (1, 2, 3, 4), _fill(image)),
    "expand by name": lambda image: ImageOps.expand(image, fill="orange", border=(2, 1)),
    "expand and cut": lambda image: ImageOps.expand(image, 4).crop((1, 2, image.width + 5, image.height + 3)),
    "pad": lambda image: ImageOps.pad(image, (50, 80)),
    "pad by colour": lambda image: ImageOps.pad(image, (80, 20), 2, "red", (0.1, 0.9)),
    "contain": lambda image: ImageOps.contain(image, (50, 80)),
    "cover": lambda image: ImageOps.cover(image, (50, 80)),
    "fit": lambda image: ImageOps.fit(image, (50, 80)),
    "scale": lambda image: ImageOps.scale(image, 1.5),
    "crop": lambda image: ImageOps.crop(image, 0),
    "crop beyond": lambda image: image.crop((-3, -2, image.width + 4, image.height)),
    "smooth": lambda image: image.filter(ImageFilter.SMOOTH),
    "adjust_brightness": lambda image: F.adjust_brightness(image, 1.7),
    "adjust_contrast": lambda image: F.adjust_contrast(image, 0.6),
    "adjust_saturation": lambda image: F2.adjust_saturation(image, 1.7),
    "adjust_sharpness": lambda image: F2.adjust_sharpness(image, 1.7),
    "adjust_hue": lambda image: F.adjust_hue(image, 0.2),
    "adjust_hue of v2": lambda image: F2.adjust_hue(image, -0.31),
    "permute_channels of v2": lambda image: F2.permute_channels(image.convert("RGB"), [1, 2, 0]),
    "permute_channels by a tensor": lambda image: F2.permute_channels(image.convert("RGB"), torch.tensor([2, 0, 1])),
    "adjust_gamma": lambda image: F.adjust_gamma(image, 0.7),
    "gaussian_blur": lambda image: F.gaussian_blur(image.convert("RGB"), [5, 3], [0.4, 1.7]),
    "gaussian_blur of v2": lambda image: F2.gaussian_blur(image.convert("RGB"), 5, 1.3),
    "autocontrast of torchvision": lambda image: F.autocontrast(image),
    "equalize of v2": lambda image: F2.equalize(image),
    "pad by a colour": lambda image: F.pad(image, (2, 1), fill=5),
    "pad by edges": lambda image: F.pad(image, [2, 1, 0, 3], padding_mode="edge"),
    "pad of v2": lambda image: F2.pad(image, [1], padding_mode="edge"),
    "rotate": lambda image: F.rotate(image, 13, fill=3),
}
MADE: dict[str, Change] = {
    "darker than black": lambda image: ImageEnhance.Brightness(image).enhance(-1),
    "an enhancement without a factor": lambda image: ImageEnhance.Contrast(image).enhance("1"),
    "autocontrast with a cutoff": lambda image: ImageOps.autocontrast(image, 2),
    "autocontrast but for black": lambda image: ImageOps.autocontrast(image, ignore=0),
    "equalize under a mask": lambda image: ImageOps.equalize(image, image.convert("L")),
    "expand by fractions": lambda image: ImageOps.expand(image, 1.5),
    "expand inwards": lambda image: ImageOps.expand(image, -1),
    "expand in a number": lambda image: ImageOps.expand(image, 1, 0x123456),
    "expand without a colour": lambda image: ImageOps.expand(image, 1, "fishy"),
    "pad by strange centres": lambda image: ImageOps.pad(image, (80, 20), centering="ab"),
    "wrong arguments": lambda image: ImageOps.expand(image, 1, filling=3),
    "no arguments": lambda image: ImageOps.equalize(),
    "a blend with another": lambda image: Image.blend(image, image.transpose(0), 0.4),
    "a blend of other sizes": lambda image: Image.blend(image, image.resize((9, 9)), 0.4),
    "a channel twice": lambda image: F2.permute_channels(image.convert("RGB"), [0, 1, 1]),
    "a channel too many": lambda image: F2.permute_channels(image, [3, 2, 1, 0]),
    "a gray channel": lambda image: F2.permute_channels(image.convert("L"), [0]),
    "a hue too far": lambda image: F.adjust_hue(image, 0.7),
    "pad as nothing is padded": lambda image: F.pad(image, 1, padding_mode="round"),
    "pad by a word": lambda image: F.pad(image, "1", padding_mode="edge"),
    "three grays": lambda image: F.to_grayscale(image, 3),
    "gray in v2": lambda image: F2.rgb_to_grayscale(image, 3) if image.mode == "RGB" else image,
    "two grays": lambda image: F.to_grayscale(image, 2),
    "reflected": lambda image: F.pad(image, 1, padding_mode="reflect"),
    "to_tensor": lambda image: F.to_tensor(image),
    "pil_to_tensor": lambda image: F.pil_to_tensor(image),
    "pil_to_tensor of v2": lambda image: F2.pil_to_tensor(image),
    "to_image": lambda image: F2.to_image(image),
    "a gray blur": lambda image: F.gaussian_blur(image.convert("L"), [3, 3]),
    "a blur of four pixels": lambda image: F.gaussian_blur(image, 4),
    "a blur of words": lambda image: F2.gaussian_blur(image, [3, 3], "1"),
    "a blur of nothing": lambda image: F2.gaussian_blur(image, [3, 3], [1.0, 0.0]),
    "a blur that is too wide": lambda image: F.gaussian_blur(image.convert("RGB"), [999, 3]),
    "exif_transpose": lambda image: ImageOps.exif_transpose(image),
}


def shown(thing: Any) -> Any:
    if isinstance(thing, torch.Tensor):
        return type(thing), thing.dtype, thing.shape, thing.stride(), thing.numpy().tobytes()
    if isinstance(thing, Image.Image):
        content = thing.tobytes("raw", "RGBX" if thing.mode == "RGB" else thing.mode)
        return thing.mode, thing.size, thing.info, content
    return thing


def outcome(data: bytes, start: Change, change: Change) -> Any:
    try:
        return shown(change(start(Image.open(io.BytesIO(data)))))
    except Exception as error:
        return type(error), str(error)


@pytest.fixture
def installed() -> Iterator[None]:
    with fastpipe.install(check=0):
        yield


@pytest.mark.parametrize("name", [*RECORDED, *MADE])
def test_functions_give_what_they_give(name: str) -> None:
    change = (RECORDED | MADE)[name]
    cases = [*itertools.product(FILES.values(), STARTS.values())]
    theirs = [outcome(data, start, change) for data, start in cases]
    with fastpipe.install(check=0):
        for (data, start), expected in zip(cases, theirs, strict=True):
            assert outcome(data, start, change) == expected


@pytest.mark.needs_core
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.usefixtures("installed")
def test_functions_are_recorded(name: str) -> None:
    for start in STARTS.values():
        made = RECORDED[name](start(Image.open(io.BytesIO(FILES["colour"]))))
        assert type(made) is not Image.Image, start


CHAINED = {
    name: change
    for name, change in (
        RECORDED | {name: MADE[name] for name in ("autocontrast with a cutoff", "three grays")}
    ).items()
    if name not in ("contain", "cover", "scale", "expand", "expand and cut")  # that grow
}


@given(
    file=st.sampled_from([*FILES]),
    start=st.sampled_from([*STARTS]),
    chain=st.lists(st.sampled_from([*CHAINED]), max_size=20),
)
def test_any_chain_of_functions_is_theirs(file: str, start: str, chain: list[str]) -> None:
    def change(image: Any) -> Any:
        for name in chain:
            image = CHAINED[name](image)
            if max(image.size) > 150:
                image = image.resize((33, 21))
        return image

    theirs = outcome(FILES[file], STARTS[start], change)
    with fastpipe.install(check=0):
        assert outcome(FILES[file], STARTS[start], change) == theirs


def jittered(image: Any) -> Any:
    image = ImageOps.posterize(ImageEnhance.Sharpness(image.convert("RGB")).enhance(1.9), 4)
    return ImageOps.equalize(F.adjust_hue(F.adjust_contrast(image, 1.4), 0.1))


@pytest.mark.usefixtures("installed")
def test_what_is_recorded_can_be_pickled_copied_and_shared() -> None:
    theirs = shown(jittered(Image.open(io.BytesIO(FILES["colour"])).copy()))
    fastpipe.uninstall()
    plain = shown(jittered(Image.open(io.BytesIO(FILES["colour"]))))
    assert theirs == plain
    with fastpipe.install(check=0):
        made = jittered(Image.open(io.BytesIO(FILES["colour"])))
        enhancer = ImageEnhance.Contrast(made)
        enhanced = [enhancer.enhance(1.2), copy.copy(enhancer).enhance(1.2), copy.deepcopy(enhancer).enhance(1.2)]
        assert pickle.loads(pickle.dumps(enhancer)).enhance(1.2).tobytes() == enhanced[0].tobytes()
        assert enhanced[2].tobytes() == enhanced[0].tobytes()
        assert shown(enhanced[1]) == shown(enhanced[0])
        for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert again.tobytes() == made.tobytes()
        assert shown(copy.copy(made)) == plain
        shared = jittered(Image.open(io.BytesIO(FILES["colour"])))
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(shown(ImageOps.invert(shared)))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [shown(ImageOps.invert(shared))] * 8


def enhanced(times: int) -> Any:
    image = ImageEnhance.Brightness(Image.open(io.BytesIO(FILES["colour"])).convert("RGB")).enhance(0.7)
    for _ in range(times):
        image = ImageEnhance.Contrast(image).enhance(1.01)
    return image


def test_a_chain_that_is_too_long_goes_on_from_its_pixels() -> None:
    theirs = [shown(enhanced(times)) for times in (1, 15, 16, 30, 60)]
    with fastpipe.install(check=0):
        assert [shown(enhanced(times)) for times in (1, 15, 16, 30, 60)] == theirs
        if core.available():
            assert type(enhanced(40)) is LazyImage
            assert type(enhanced(60)) is Image.Image


@pytest.mark.usefixtures("installed")
def test_an_enhancer_outlives_the_hooks() -> None:
    image = Image.open(io.BytesIO(FILES["colour"]))
    enhancers = [kind(image) for kind in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)]
    inside = [shown(enhancer.enhance(1.3)) for enhancer in enhancers]
    fastpipe.uninstall()
    assert [shown(enhancer.enhance(1.3)) for enhancer in enhancers] == inside


def held() -> list[Any]:
    """Functions as the libraries hold them."""
    kernels = [found.get(Image.Image) for found in v2_utils._KERNEL_REGISTRY.values()]
    functions = [vars(module)[name] for module in (ImageOps, F, F2, _functional_pil) for name in sorted(vars(module))]
    return [Image.blend, ImageEnhance.Brightness.__init__, ImageEnhance.Contrast.__init__, *functions, *kernels]


def test_uninstall_leaves_what_was_there() -> None:
    before = held()
    with fastpipe.install(check=0):
        changed = held()
    assert any(one is not other for one, other in zip(before, changed, strict=True))
    assert all(one is other for one, other in zip(before, held(), strict=True))


@pytest.mark.usefixtures("installed")
def test_torchscript_compiles_torchvisions_functions() -> None:
    image = torch.arange(300, dtype=torch.uint8).reshape(3, 10, 10)
    for function, arguments in (
        (F.adjust_hue, (0.1,)),
        (F.pad, ([1, 2],)),
        (F.rgb_to_grayscale, (3,)),
        (F.gaussian_blur, ([3, 3],)),
        (F.adjust_contrast, (1.3,)),
    ):
        compiled: Any = torch.jit.script(function)
        assert torch.equal(compiled(image, *arguments), function(image, *arguments))


def test_steps_that_are_recorded_are_few() -> None:
    if core.available():
        with fastpipe.install(check=0):
            image = ImageEnhance.Color(Image.open(io.BytesIO(FILES["colour"]))).enhance(1.3)
        assert isinstance(image, LazyImage)
        record = image_record_of(image)
        assert record is not None
        assert len(record.steps) == len(record.calls or ()) == 1
