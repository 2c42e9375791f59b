"""Functions and classes on PIL images in modes RGB and L, which run from memory to memory: torchvision's bytes, mode,
size and info, another image's memory, and what isn't such an image as ever."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision_here import torchvision
from transform_cases import FIXED, LARGE, RANDOM, ident, picture
from transforms.functional import cases
from transforms.functional.test_against_torchvision import translated

import fastpipe.transforms as T
from fastpipe import core
from fastpipe.ops import Affine
from fastpipe.transforms import functional as F
from fastpipe.transforms.functional import _images

R = torchvision.transforms
SIZES = [(1, 1), (1, 17), (13, 1), (31, 20), (224, 224), (375, 500)]
BEYOND_A_BLOCK = (1500, 3000)
MODES = ["RGB", "L"]


@pytest.fixture(params=["core", "off"])
def with_core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "off":
        monkeypatch.setattr(core.library, "_loaded", core.library.load("off"))
    return str(request.param)


def pil_image(mode: str, height: int, width: int, seed: int = 0) -> Image.Image:
    image = Image.fromarray(picture(height, width, len(mode), seed))
    image.info = {"dpi": (72, 72), "list": [1, 2]}
    assert image.mode == mode
    return image


def calls(height: int, width: int, channels: int) -> list[cases.Case]:
    return [
        *cases.geometry(height, width),
        *cases.resizing(height, width),
        *cases.colors(),
        *cases.filters(),
        *cases.warps(height, width, channels),
        ("crop", {"top": 0, "left": 0, "height": height, "width": width}),
        ("pad", {"padding": [2, 3, 4, 5], "fill": list(range(9, 9 + channels))}),
        ("pad", {"padding": [1, 0], "fill": None}),
        ("pad", {"padding": [1, 0], "fill": 3.0}),
        ("resized_crop", {"top": height // 3, "left": 0, "height": 1 + height // 2, "width": 1, "size": [9, 14]}),
        ("resized_crop", {"top": -1, "left": 0, "height": height, "width": width, "size": [9, 14]}),
        ("adjust_brightness", {"brightness_factor": -1.0}),
        ("adjust_brightness", {"brightness_factor": "1"}),
        ("adjust_contrast", {"contrast_factor": None}),
        ("adjust_saturation", {"saturation_factor": float("nan")}),
        ("adjust_gamma", {"gamma": -1.0}),
        ("posterize", {"bits": 3.0}),
        ("solarize", {"threshold": 300}),
        ("to_grayscale", {"num_output_channels": 3}),
        ("to_grayscale", {"num_output_channels": 2}),
        ("to_tensor", {}),
        ("pil_to_tensor", {}),
    ]  # fmt: skip


def all_bytes(image: Image.Image) -> bytes:
    """With the fourth byte that Pillow has behind red, green and blue."""
    return image.tobytes("raw", "RGBX") if image.mode == "RGB" else image.tobytes()


def assert_same(actual: Any, expected: Any, image: Image.Image, what: str) -> None:
    """The same pixels, mode, size and info, in memory of its own; or the same tensor, or error."""
    if isinstance(expected, tuple):
        assert isinstance(actual, tuple), f"{what}: {actual!r}"
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other, image, what)
        return
    if not isinstance(expected, Image.Image):
        cases.assert_same_outcome(actual, expected)
        return
    assert isinstance(actual, Image.Image), f"{what}: {actual!r}"
    assert (actual.mode, actual.size) == (expected.mode, expected.size), what
    assert actual.info == expected.info, f"{what}: info {actual.info} and not {expected.info}"
    assert all_bytes(actual) == all_bytes(expected), what
    assert actual.palette is None, what
    if expected is image:
        assert actual is image, what
    else:
        assert type(actual) is Image.Image, what
        assert actual is not image, what


def compare(op: str, arguments: dict[str, Any], image: Image.Image) -> None:
    before, info = image.tobytes(), dict(image.info)
    expected = cases.outcome(getattr(R.functional, op), image, **translated(arguments))
    actual = cases.outcome(getattr(F, op), image, **arguments)
    what = f"{op}({arguments}) of {image.mode} {image.size}"
    try:
        assert_same(actual, expected, image, what)
    except AssertionError as error:
        raise AssertionError(what) from error
    assert (image.tobytes(), image.info) == (before, info), f"{what} changed its input"
    if isinstance(actual, Image.Image) and actual is not image:
        actual.putpixel((0, 0), 1 if image.mode == "L" or actual.mode == "L" else (1, 2, 3))
        actual.info["own"] = 1
        actual.info.get("list", []).append(3)
        assert (image.tobytes(), image.info) == (before, info), f"{what} shares memory with its input"


@pytest.mark.usefixtures("with_core")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_function(mode: str, size: tuple[int, int]) -> None:
    image = pil_image(mode, *size)
    images = [image, image.point(list(range(256)) * len(mode))]  # whose fourth byte is 255, and 0
    small = size[0] * size[1] < 10_000
    for op, arguments in calls(*size, len(mode)):
        for one in images if small else images[:1]:
            compare(op, arguments, one)


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("hflip", {}),
        ("crop", {"top": 5, "left": 9, "height": 40, "width": 30}),
        ("resize", {"size": [30, 20]}),
        ("resized_crop", {"top": 100, "left": 200, "height": 400, "width": 300, "size": [30, 20]}),
        ("invert", {}),
        ("adjust_saturation", {"saturation_factor": 0.4}),
        ("pad", {"padding": 3}),
        ("to_tensor", {}),
    ],
)
def test_an_image_beyond_a_block(op: str, arguments: dict[str, Any]) -> None:
    image = Image.new("RGB", BEYOND_A_BLOCK[::-1], (10, 20, 30))
    image.paste(pil_image("RGB", 300, 700), (200, 100))
    compare(op, arguments, image)


def test_a_result_beyond_a_block() -> None:
    compare("resize", {"size": list(BEYOND_A_BLOCK)}, pil_image("RGB", 31, 20))


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=settings.default.max_examples, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from(MODES), st.data())
def test_any_size(height: int, width: int, mode: str, data: st.DataObject) -> None:
    op, arguments = data.draw(st.sampled_from(calls(height, width, len(mode))))
    compare(op, arguments, pil_image(mode, height, width, seed=height * 71 + width))


@pytest.mark.usefixtures("with_core")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", [*RANDOM, *FIXED, *LARGE], ids=ident)
def test_every_class(case: tuple[str, dict[str, Any]], mode: str) -> None:
    name, arguments = case
    ours, theirs = getattr(T, name)(**arguments), getattr(R, name)(**arguments)
    image = pil_image(mode, 61, 83)
    before = image.tobytes()
    for seed in range(4):
        found = []
        for transform in (theirs, ours):
            torch.manual_seed(seed)
            random.seed(seed)
            found.append((cases.outcome(transform, image), torch.random.get_rng_state(), random.getstate()))
        (expected, *state), (actual, *own_state) = found
        assert_same(actual, expected, image, f"{ident(case)}, seed {seed}")
        assert torch.equal(state[0], own_state[0])
        assert state[1] == own_state[1]
        assert image.tobytes() == before


def test_a_transparent_colour_is_converted_with_the_pixels() -> None:
    for mode, transparency in (("RGB", (9, 8, 200)), ("L", 7)):
        image = pil_image(mode, 20, 30)
        image.info["transparency"] = transparency
        for op, arguments in (
            ("adjust_saturation", {"saturation_factor": 0.3}),
            ("rgb_to_grayscale", {"num_output_channels": 3}),
            ("adjust_gamma", {"gamma": 2.0}),
            ("pad", {"padding": 2}),
            ("hflip", {}),
        ):
            compare(op, arguments, image)


class Own(Image.Image):
    """A user's class of images."""


def test_an_image_of_a_subclass(tmp_path: Any) -> None:
    pil_image("RGB", 30, 40).save(tmp_path / "a.png")
    own = Own()
    own.__dict__.update(pil_image("RGB", 30, 40).__dict__)
    with Image.open(tmp_path / "a.png") as file:
        for image in (file, own):
            assert type(image) is not Image.Image
            for op, arguments in calls(30, 40, 3):
                compare(op, arguments, image)


def test_a_closed_image() -> None:
    image = pil_image("RGB", 30, 40)
    image.close()
    with pytest.raises(ValueError, match="closed image"):
        F.invert(image)


def test_threads_share_an_image() -> None:
    image = pil_image("RGB", 120, 160)
    expected = R.functional.adjust_saturation(image, 0.5).tobytes()
    wrong: list[int] = []

    def work() -> None:
        made = {F.adjust_saturation(image, 0.5).tobytes() for _ in range(50)}
        wrong.extend(1 for one in made if one != expected)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_antialias_warning_names_the_caller() -> None:
    image = pil_image("RGB", 20, 20)
    with pytest.warns(UserWarning, match="Anti-alias option is always applied") as caught:
        F.resize(image, [9, 9], antialias=False)
    assert caught[0].filename == __file__


def test_read_only_and_mapped_images() -> None:
    array = picture(40, 50, 1)
    mapped = Image.frombuffer("L", (50, 40), array.tobytes(), "raw", "L", 0, 1)
    assert mapped.readonly
    for op, arguments in calls(40, 50, 1):
        compare(op, arguments, mapped)
    assert mapped.tobytes() == array.tobytes()


@settings(deadline=None, max_examples=60)
@given(
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    mode=st.sampled_from(MODES),
    shift=st.tuples(st.integers(-10, 10), st.sampled_from([-9, -1, 0, 0.5, 1.0, 2, 8])),
    fill=st.sampled_from([None, 7, 300, -2]),
    center=st.sampled_from([None, [0, 0], [1, 3.5]]),
)
def test_shifts_by_whole_pixels(size: Any, mode: str, shift: Any, fill: Any, center: Any) -> None:
    """A crop with a border, to the core, for images of any size; the fourth byte goes along."""
    image = pil_image(mode, *size).point(lambda value: value ^ 5)  # whose fourth byte is 0
    given_shift = (0.0, list(shift), 1.0, [0.0, 0.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Affine, "least_pixels", lambda self, channels: 0)
        patch.setattr(_images, "least_pixels_of_warp", lambda *given: 0)
        made = F.affine(image, *given_shift, fill=fill, center=center)
    assert all_bytes(made) == all_bytes(R.functional.affine(image, *given_shift, fill=fill, center=center))


@pytest.mark.usefixtures("with_core")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("crop", [
    {"size": 120, "padding": 9},
    {"size": (110, 100), "padding": [3, 50], "fill": 7, "padding_mode": "constant"},
    {"size": (101, 160), "padding": 4, "padding_mode": "reflect", "pad_if_needed": True},
    {"size": 300, "padding": 4},
    {"size": 32, "padding": 4},
])  # fmt: skip
def test_a_crop_with_a_border_called_alone(mode: str, crop: dict[str, Any]) -> None:
    for seed in range(5):
        image, results = pil_image(mode, 112, 130, seed), []
        for library in (T, R):
            torch.manual_seed(seed)
            try:
                made = library.RandomCrop(**crop)(image)
            except ValueError as error:
                made = str(error)
            results.append((made, torch.get_rng_state()))
        (made, state), (expected, expected_state) = results
        assert torch.equal(state, expected_state)
        if isinstance(expected, str):
            assert made == expected
        else:
            assert_same(made, expected, image, "RandomCrop")
