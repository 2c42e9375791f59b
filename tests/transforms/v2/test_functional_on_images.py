"""v2's functions and single classes on PIL images: torchvision's four bytes a pixel, info, errors and draws."""

from __future__ import annotations

import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2 as theirs
from torchvision.transforms.v2 import functional as T
from torchvision.transforms.v2.functional._utils import _KERNEL_REGISTRY
from transform_cases import picture

from fastpipe import core
from fastpipe.transforms import v2
from fastpipe.transforms.v2 import _kernels
from fastpipe.transforms.v2 import functional as F

MODES = ["RGB", "L"]
NEAREST, BILINEAR, BICUBIC, LANCZOS = map(theirs.InterpolationMode, ("nearest", "bilinear", "bicubic", "lanczos"))
"""Torchvision's, as older versions don't take their names."""
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


@pytest.fixture(params=["core", "off"])
def with_core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "off":
        monkeypatch.setattr(core.library, "_loaded", core.library.load("off"))


def pil_image(mode: str, height: int, width: int, seed: int = 0) -> Image.Image:
    image = Image.fromarray(picture(height, width, len(mode), seed))
    image.info = {"dpi": (72, 72), "list": [1, 2]}
    return image


def calls(height: int, width: int) -> list[Call]:
    corners = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
    moved = [[1, 0], [width - 2, 1], [width - 1, height - 3], [0, height - 1]]
    affine = {"angle": 13.0, "translate": [1, -2], "scale": 1.1, "shear": [3.0, -4.0]}
    return [
        ("horizontal_flip", (), {}),
        ("hflip", (), {}),
        ("vertical_flip", (), {}),
        ("crop", (height // 4, width // 4, height // 2 + 1, width // 2 + 1), {}),
        ("crop", (-2, 1, height + 3, width), {}),
        ("center_crop", ([height // 2 + 1, 9],), {}),
        ("center_crop", ([height + 3, 3],), {}),
        *(("pad", ([1, 2, 3, 4],), {"padding_mode": m}) for m in ("constant", "edge", "reflect", "symmetric", "none")),
        ("pad", (3,), {"fill": 7}),
        ("pad", ([2],), {"fill": [300]}),
        ("pad", ([-1, 2],), {}),
        ("pad", ([1, 2, 3],), {}),
        ("pad", (1.5,), {}),
        *(("resize", ([17, 13],), {"interpolation": m}) for m in (NEAREST, BILINEAR, BICUBIC, LANCZOS, "x")),
        ("resize", (21,), {"max_size": 40}),
        ("resize", ([21],), {"interpolation": 4}),
        ("resize", (None,), {"max_size": 19}),
        ("resize", ([height, width],), {}),
        ("resize", ([0, 3],), {}),
        ("resize", ([100, 90],), {"antialias": False}),
        ("resized_crop", (1, 0, height // 2 + 1, width, [9, 14]), {}),
        ("resized_crop", (-1, 0, height, width), {"size": [9, 14], "interpolation": F.InterpolationMode.BICUBIC}),
        ("resized_crop", (0, 0, height, width, [3, 3]), {"antialias": False}),
        *((f"adjust_{name}", (factor,), {}) for name in ("brightness", "contrast", "saturation", "sharpness", "hue")
          for factor in (0.3, 1.4, -0.2, "a")),
        ("adjust_gamma", (0.7,), {"gain": 1.2}),
        ("adjust_gamma", (-1.0,), {}),
        ("rgb_to_grayscale", (), {}),
        ("to_grayscale", (3,), {}),
        ("rgb_to_grayscale", (2,), {}),
        *(("posterize", (bits,), {}) for bits in (0, 3, 8, 9, 3.0)),
        *(("solarize", (threshold,), {}) for threshold in (0, 128, 100.5, 300)),
        ("invert", (), {}),
        ("autocontrast", (), {}),
        ("equalize", (), {}),
        *(("rotate", (33.0,), {"interpolation": BILINEAR, "expand": expand}) for expand in (False, True)),
        ("rotate", (33.0,), {"interpolation": NEAREST, "expand": True}),
        ("rotate", (-90,), {"center": [1, 2], "fill": 9}),
        ("rotate", ("x",), {}),
        *(("affine", (), {**affine, "interpolation": m, "fill": 3}) for m in (NEAREST, BILINEAR, BICUBIC)),
        *(("affine", (), {**affine, "angle": 0, "shear": [0.0, 0.0], "scale": 1.0, "translate": t})
          for t in ([3, 0], [0, -2], [1, 2], [1000, 0])),
        ("affine", (), {**affine, "scale": -1}),
        ("perspective", (corners, moved), {}),
        ("perspective", (None, None), {"coefficients": [1.0, 0.1, 0.0, 0.0, 1.1, 1.0, 0.0001, 0.0]}),
        ("perspective", (None, None), {}),
        ("pil_to_tensor", (), {}),
        ("to_image", (), {}),
        ("gaussian_blur", (3,), {}),
    ]  # fmt: skip


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            made = function(*args, **kwargs)
        except Exception as error:
            made = type(error), str(error)
    return made, [(warning.category, str(warning.message)) for warning in said]


def described(made: Any, image: Image.Image) -> Any:
    if isinstance(made, Image.Image):
        pixels = made.tobytes("raw", "RGBX") if made.mode == "RGB" else made.tobytes()
        return made is image, type(made), made.mode, made.size, made.info, pixels
    if isinstance(made, torch.Tensor):
        return type(made), made.stride() if made.numel() else (), made.dtype, made.tolist()
    return made


def assert_same(name: str, image: Image.Image, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    before = described(image, image)
    expected, warned = outcome(getattr(T, name), image, *args, **kwargs)
    for _ in range(3):  # what is asked for again has its job kept
        made, also_warned = outcome(getattr(F, name), image, *args, **kwargs)
        assert described(made, image) == described(expected, image), (name, args, kwargs)
        assert also_warned == warned, (name, args, kwargs)
        if isinstance(made, Image.Image) and made is not image:
            made.putpixel((0, 0), 1 if made.mode == "L" else (1, 2, 3))
    assert described(image, image) == before


@pytest.mark.usefixtures("with_core")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(1, 1), (31, 20), (224, 230)])
def test_functions_give_what_torchvision_gives(mode: str, size: tuple[int, int]) -> None:
    for name, args, kwargs in calls(*size):
        assert_same(name, pil_image(mode, *size), args, kwargs)


@settings(deadline=None, max_examples=40)
@given(
    size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    mode=st.sampled_from(MODES),
    number=st.integers(0, len(calls(1, 1)) - 1),
    seed=st.integers(0, 5),
)
@example(size=(1, 90), mode="RGB", number=3, seed=0)
def test_images_of_any_size(size: tuple[int, int], mode: str, number: int, seed: int) -> None:
    name, args, kwargs = calls(*size)[number]
    assert_same(name, pil_image(mode, *size, seed), args, kwargs)


@pytest.mark.parametrize("mode", ["1", "P", "RGBA", "LA", "CMYK", "I", "F"])
def test_other_modes_are_torchvisions(mode: str) -> None:
    image = pil_image("RGB", 31, 20).convert(mode)
    for name, args, kwargs in [("resize", ([9, 8],), {}), ("hflip", (), {}), ("invert", (), {}), ("to_image", (), {})]:
        expected, made = (outcome(getattr(side, name), image, *args, **kwargs)[0] for side in (T, F))
        assert described(made, image) == described(expected, image)


def test_tensors_boxes_and_words_are_torchvisions() -> None:
    tensor = torch.arange(75, dtype=torch.uint8).reshape(3, 5, 5)
    assert torch.equal(F.resize(tensor, [3, 4]), T.resize(tensor, [3, 4]))
    assert torch.equal(F.hflip(inpt=tensor), T.hflip(inpt=tensor))
    boxes = tv_tensors.BoundingBoxes([[0, 1, 2, 3]], format="XYXY", canvas_size=(5, 5))
    assert torch.equal(F.hflip(boxes), T.hflip(boxes))
    image = pil_image("RGB", 5, 4)
    assert F.resize(inpt=image, size=[3, 3]).tobytes() == T.resize(image, [3, 3]).tobytes()
    assert outcome(F.resize) == outcome(T.resize)
    assert outcome(F.resize, "image", [3]) == outcome(T.resize, "image", [3])


def test_torchvision_is_left_alone() -> None:
    assert T.resize is not F.resize
    assert T.resize.__module__.startswith("torchvision.")
    assert _KERNEL_REGISTRY[T.resize][Image.Image].__module__.startswith("torchvision.")
    assert pickle.loads(pickle.dumps(F.hflip)) is F.hflip is F.horizontal_flip


def scripted(image: torch.Tensor) -> torch.Tensor:
    return F.horizontal_flip(F.resize(image, [4, 5]))


def test_functions_can_be_scripted() -> None:
    tensor = torch.arange(75, dtype=torch.uint8).reshape(3, 5, 5)
    assert torch.equal(torch.jit.script(F.resize)(tensor, [3, 4]), T.resize(tensor, [3, 4]))
    assert torch.equal(torch.jit.script(scripted)(tensor), T.horizontal_flip(T.resize(tensor, [4, 5])))


def test_kernels_of_the_users_own() -> None:
    class Own(tv_tensors.TVTensor):
        pass

    @F.register_kernel(F.vertical_flip, Own)
    def upside_down(inpt: Any) -> str:
        return "upside down"

    class Flip(v2.Transform):
        def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
            return self._call_kernel(F.vertical_flip, inpt)

    class Mirror(v2.Transform):
        """By a function of fastpipe's in place of torchvision's, which has kernels under its own name alone."""

        def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
            return self._call_kernel(F.horizontal_flip, inpt)

    own = torch.zeros(3).as_subclass(Own)
    try:
        assert F.vertical_flip(own) == T.vertical_flip(own) == "upside down"
        assert v2.RandomVerticalFlip(p=1)(own) == Flip()(own) == "upside down"
        image = pil_image("RGB", 5, 4)
        assert Flip()(image).tobytes() == T.vertical_flip(image).tobytes()
        floats = torch.rand(3, 5, 4)
        assert torch.equal(Mirror()(floats), T.horizontal_flip(floats))
    finally:
        del _KERNEL_REGISTRY[T.vertical_flip][Own]


SINGLE: list[Callable[[Any], Any]] = [
    lambda library: library.RandomHorizontalFlip(),
    lambda library: library.RandomVerticalFlip(p=0.7),
    lambda library: library.RandomCrop(16, padding=4),
    lambda library: library.RandomCrop((20, 70), pad_if_needed=True, padding_mode="reflect"),
    lambda library: library.RandomCrop(200),
    lambda library: library.RandomResizedCrop(24),
    lambda library: library.RandomResizedCrop(24, antialias=False),
    lambda library: library.CenterCrop(48),
    lambda library: library.Resize(30),
    lambda library: library.Resize((40, 61)),
    lambda library: library.Pad([1, 2], fill=5),
    lambda library: library.ColorJitter(0.4, 0.4, 0.4, 0.1),
    lambda library: library.RandAugment(),
    lambda library: library.TrivialAugmentWide(),
    lambda library: library.AutoAugment(),
    lambda library: library.AugMix(),
    lambda library: library.RandomAffine(20, (0.1, 0.2), (0.9, 1.1), 5),
    lambda library: library.RandomRotation(20, expand=True),
    lambda library: library.RandomPerspective(p=1),
    lambda library: library.RandomGrayscale(0.5),
    lambda library: library.RandomErasing(p=1),
    lambda library: library.ToImage(),
    lambda library: library.PILToTensor(),
    lambda library: library.ToDtype(torch.float32),
    lambda library: library.Normalize([0.5], [0.5]),
    lambda library: library.RandomApply([library.RandomInvert(p=1)]),
]


@pytest.mark.usefixtures("with_core")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(len(SINGLE)))
def test_single_classes_give_what_torchvisions_give(number: int, mode: str) -> None:
    ours, expected = SINGLE[number](v2), SINGLE[number](theirs)
    for seed in range(4):
        image = pil_image(mode, 40, 61, seed)
        results = []
        for transform in (ours, expected):
            torch.manual_seed(seed)
            random.seed(seed)
            made, warned = outcome(transform, image)
            results.append((described(made, image), warned, torch.get_rng_state().tolist(), random.getstate()))
        assert results[0] == results[1]


def test_what_the_user_changes_is_seen() -> None:
    class Half(v2.RandomHorizontalFlip):
        def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
            return "changed"

    image = pil_image("RGB", 9, 8)
    assert Half(p=1)(image) == "changed"
    flip = v2.RandomHorizontalFlip(p=1)
    flip.register_forward_hook(lambda module, inputs, made: "hooked")
    assert flip(image) == "hooked"
    flip = v2.RandomHorizontalFlip(p=1)
    assert flip(image).tobytes() != image.tobytes()
    flip.p = 0.0
    assert flip(image) is image


@pytest.mark.needs_core
def test_policies_call_the_functions_of_fastpipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision's own methods do, rebuilt with other functions: the bytes alone wouldn't tell."""
    called: list[str] = []
    by_fastpipe = _kernels.by_fastpipe

    def noted(function: Any, *given: Any) -> Any:
        called.append(function.__name__)
        return by_fastpipe(function, *given)

    monkeypatch.setattr(_kernels, "by_fastpipe", noted)
    method = v2.RandAugment._apply_image_or_video_transform
    magnitude, fill = 0.5, {type(None): None}
    for name in ("Brightness", "Posterize", "Solarize"):
        image = pil_image("RGB", 61, 83)
        given = {"interpolation": v2.InterpolationMode.NEAREST, "fill": fill}
        made = method(v2.RandAugment(), image, name, 4.0 if name == "Posterize" else magnitude, **given)
        theirs_made = theirs.RandAugment._apply_image_or_video_transform(
            theirs.RandAugment(), image, name, 4.0 if name == "Posterize" else magnitude, **given
        )
        assert made.tobytes() == theirs_made.tobytes()
    assert called == ["adjust_brightness", "posterize", "solarize"]
