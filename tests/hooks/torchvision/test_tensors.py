"""torchvision's functions of tensors with pixels, under `fastpipe.install`: torchvision's own values."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from PIL import Image
from torchvision_here import module

import fastpipe
from fastpipe.hooks.ledger import LEDGER
from fastpipe.tensor_kernels import floats

F, T, V, VF, tv_tensors = (
    module(f"torchvision.{name}")
    for name in ("transforms.functional", "transforms", "transforms.v2", "transforms.v2.functional", "tv_tensors")
)
V1 = "torchvision.transforms._functional_tensor.resize"
V2 = "torchvision.transforms.v2.functional._geometry.resize_image"
BLUR = "torchvision.transforms._functional_tensor.gaussian_blur"
BLUR_OF_V2 = "torchvision.transforms.v2.functional._misc.gaussian_blur_image"
HUE = "torchvision.transforms._functional_tensor.adjust_hue"
HUE_OF_V2 = "torchvision.transforms.v2.functional._color.adjust_hue_image"
IMAGE = torch.rand(3, 97, 131, generator=torch.Generator().manual_seed(0))
PIXELS = IMAGE.permute(1, 2, 0).contiguous().permute(2, 0, 1)
BYTES = (IMAGE * 255).to(torch.uint8)

TAKEN: dict[str, tuple[str, Callable[[], Any]]] = {
    "floats": (V1, lambda: F.resize(IMAGE, [50, 60], antialias=True)),
    "bytes": (V1, lambda: F.resize(BYTES, [50], antialias=True)),
    "a batch": (V1, lambda: F.resize(IMAGE.repeat(2, 1, 1, 1), [50, 60], antialias=True)),
    "a crop": (V1, lambda: F.resized_crop(IMAGE, 5, 7, 60, 70, [50, 60], antialias=True)),
    "cubic": (V1, lambda: F.resize(IMAGE, [50, 60], F.InterpolationMode.BICUBIC, antialias=True)),
    "cubic by v2": (V2, lambda: VF.resize(IMAGE, [50, 60], F.InterpolationMode.BICUBIC)),
    "floats by v2": (V2, lambda: VF.resize(IMAGE, [50, 60])),
    "pixels by v2": (V2, lambda: VF.resize(PIXELS, [50, 60])),
    "bytes by v2": (V2, lambda: VF.resize(BYTES, [50, 60])),
    "a class of v2's": (V2, lambda: V.Resize(50)(tv_tensors.Image(IMAGE))),
    "blurred bytes": (BLUR, lambda: F.gaussian_blur(BYTES, 5)),
    "blurred pixels": (BLUR, lambda: F.gaussian_blur((PIXELS * 255).to(torch.uint8), [7, 3], [2.0, 0.4])),
    "a blurred batch": (BLUR, lambda: F.gaussian_blur(BYTES.repeat(2, 1, 1, 1), [3, 9], 1.3)),
    "blurred floats": (BLUR, lambda: F.gaussian_blur(IMAGE, 5)),
    "blurred pixels of floats": (BLUR, lambda: F.gaussian_blur(PIXELS, [9, 3], [2.0, 0.4])),
    "blurred gray": (BLUR, lambda: F.gaussian_blur(IMAGE[:1] - 0.5, 9)),
    "blurred by a transform": (BLUR, lambda: T.GaussianBlur(23, (1.5, 1.5))(IMAGE)),
    "blurred floats by v2": (BLUR_OF_V2, lambda: VF.gaussian_blur(IMAGE, 5)),
    "blurred bytes by v2": (BLUR_OF_V2, lambda: VF.gaussian_blur(BYTES, [7, 5], [2.0])),
    "a blurred class of v2's": (BLUR_OF_V2, lambda: V.GaussianBlur(5, (1.5, 1.5))(tv_tensors.Image(PIXELS))),
    "the hue of floats": (HUE, lambda: F.adjust_hue(IMAGE, 0.1)),
    "the hue of pixels": (HUE, lambda: F.adjust_hue(PIXELS, -0.1)),
    "the hue of bytes": (HUE, lambda: F.adjust_hue(BYTES, 0.1)),
    "the hue of a batch": (HUE, lambda: F.adjust_hue(BYTES.repeat(2, 1, 1, 1), 0.1)),
    "the hue by a transform": (HUE, lambda: T.ColorJitter(hue=(0.2, 0.2))(IMAGE)),
    "the hue of floats by v2": (HUE_OF_V2, lambda: VF.adjust_hue(IMAGE, 0.1)),
    "the hue of pixels by v2": (HUE_OF_V2, lambda: VF.adjust_hue((PIXELS * 255).to(torch.uint8), 0.5)),
    "the hue of a class of v2's": (HUE_OF_V2, lambda: V.ColorJitter(hue=(0.2, 0.2))(tv_tensors.Image(IMAGE))),
    "a sample": (V2, lambda: V.Resize((50, 60))({"image": tv_tensors.Image(BYTES), "number": 3})["image"]),
}
LEFT: dict[str, Callable[[], Any]] = {
    "halves": lambda: F.resize(IMAGE.half(), [200, 60], antialias=True),
    "without smoothing": lambda: F.resize(IMAGE, [50, 60], antialias=False),
    "cubic bytes": lambda: F.resize(BYTES, [50, 60], F.InterpolationMode.BICUBIC, antialias=True),
    "cubic without smoothing": lambda: F.resize(IMAGE, [50, 60], F.InterpolationMode.BICUBIC, antialias=False),
    "doubles": lambda: VF.resize(IMAGE.double(), [50, 60]),
    "a mask": lambda: VF.resize(tv_tensors.Mask(BYTES), [50, 60]),
    "a gradient": lambda: VF.resize(IMAGE.clone().requires_grad_(), [50, 60]).detach(),
    "a trace": lambda: torch.jit.trace(lambda image: VF.resize(image, [50, 60]), IMAGE)(IMAGE),
    "a script": lambda: torch.jit.script(F.resize)(IMAGE, [50, 60], antialias=True),
    "the same size": lambda: VF.resize(IMAGE, [97, 131]),
    "blurred halves": lambda: F.gaussian_blur(IMAGE.bfloat16(), 5),
    "blurred doubles": lambda: VF.gaussian_blur(IMAGE.double(), 5),
    "blurred video by v2": lambda: VF.gaussian_blur(tv_tensors.Video(IMAGE[None]), 5),
    "a gradient of a blur": lambda: F.gaussian_blur(IMAGE.clone().requires_grad_(), 5).detach(),
    "blurred floats of two channels": lambda: F.gaussian_blur(IMAGE[:2], 5),
    "a blurred batch of gray": lambda: VF.gaussian_blur(PIXELS[:1].repeat(2, 1, 1, 1), 5),
    "a blurred video": lambda: F.gaussian_blur(BYTES.repeat(2, 2, 1, 1, 1).flatten(0, 1), 5),
    "a traced blur": lambda: torch.jit.trace(lambda image: F.gaussian_blur(image, 5), BYTES)(BYTES),
    "the hue of halves": lambda: F.adjust_hue(IMAGE.half(), 0.1),
    "the hue of doubles by v2": lambda: VF.adjust_hue(IMAGE.double(), 0.1),
    "the hue of larger values": lambda: F.adjust_hue(IMAGE * 2, 0.1),
    "the hue of larger values by v2": lambda: VF.adjust_hue(IMAGE * 2 - 1, 0.1),
    "the hue of a video": lambda: VF.adjust_hue(tv_tensors.Video(IMAGE[None]), 0.1),
    "a gradient of a hue": lambda: F.adjust_hue(IMAGE.clone().requires_grad_(), 0.1).detach(),
    "a traced hue": lambda: torch.jit.trace(lambda image: F.adjust_hue(image, 0.1), IMAGE)(IMAGE),
    "a script of a hue": lambda: torch.jit.script(F.adjust_hue)(IMAGE, 0.1),
    "a script of a blur": lambda: torch.jit.script(F.gaussian_blur)(BYTES, [5, 5]),
}


def facts(image: torch.Tensor) -> object:
    return type(image), image.dtype, image.stride(), image.as_subclass(torch.Tensor).tolist()


@pytest.mark.needs_core
@pytest.mark.parametrize("name", TAKEN)
def test_values_and_layout(name: str, fresh_ledger: None) -> None:
    if floats.rounding() is None:
        pytest.skip("this torch rounds otherwise")
    site, call = TAKEN[name]
    expected = facts(call())
    with fastpipe.install(check=0):
        assert facts(call()) == expected
        assert LEDGER.site("function", site).images == 1
    assert facts(call()) == expected


@pytest.mark.needs_core
@pytest.mark.parametrize("library", [T, V], ids=["v1", "v2"])
def test_an_elastic_transform_of_an_image(library: Any, fresh_ledger: None) -> None:
    """The field of its displacements is blurred by the core."""
    image = Image.fromarray(BYTES.permute(1, 2, 0).numpy())

    def made() -> tuple[bytes, torch.Tensor]:
        torch.manual_seed(5)
        return library.ElasticTransform()(image).tobytes(), torch.get_rng_state()

    expected = made()
    with fastpipe.install(check=0):
        bytes_, state = made()
        assert LEDGER.site("function", BLUR if library is T else BLUR_OF_V2).images == 2
    assert bytes_ == expected[0]
    assert torch.equal(state, expected[1])


@pytest.mark.filterwarnings("ignore:.*TracerWarning|.*TorchScript|`torch.jit")
@pytest.mark.parametrize("name", LEFT)
def test_what_torchvision_does(name: str, fresh_ledger: None) -> None:
    expected = facts(LEFT[name]())
    with fastpipe.install(check=0):
        assert facts(LEFT[name]()) == expected


AT_ONCE: dict[str, Callable[[], Any]] = {
    "halves": LEFT["halves"],
    "a small image": lambda: F.resize(BYTES[:, :32, :32], [24, 24], antialias=True),
    "a small image by v2": lambda: VF.resize(BYTES[:, :32, :32].contiguous(), [24, 24]),
    "small floats by v2": lambda: VF.resize(IMAGE[:, :32, :32], [24]),
    "the nearest pixels": lambda: VF.resize(BYTES, [50, 60], VF.InterpolationMode.NEAREST),
    "the nearest floats": lambda: VF.resize(IMAGE, [50, 60], VF.InterpolationMode.NEAREST),
    "a small blur": lambda: F.gaussian_blur(BYTES[:, :25, :25], 5),
    "the hue of halves": LEFT["the hue of halves"],
    "the hue of gray": lambda: F.adjust_hue(IMAGE[:1], 0.1),
    "gray that is blurred by few weights": lambda: F.gaussian_blur(IMAGE[:1], [5, 3]),
    "gray that is blurred by few weights by v2": lambda: VF.gaussian_blur(IMAGE[:1], 3),
    "interleaved bytes": lambda: VF.resize((PIXELS * 255).to(torch.uint8), [50, 60]),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_what_gains_nothing_goes_to_torchvision_at_once(name: str, fresh_ledger: None) -> None:
    expected = facts(AT_ONCE[name]())
    with fastpipe.install(check=0):
        assert facts(AT_ONCE[name]()) == expected
    assert not {site.name for site in LEDGER._sites.values()} & {V1, V2, BLUR, BLUR_OF_V2, HUE, HUE_OF_V2}


@pytest.mark.parametrize("name", ["a trace", "a graph"])
def test_torch_traces_torchvision(name: str) -> None:
    def traced(function: Any) -> list[tuple[type[Warning], str]]:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            if name == "a trace":
                torch.jit.trace(function, IMAGE)
            else:
                torch._dynamo.reset()
                compiled = torch.compile(function, backend="eager", dynamic=True, fullgraph=True)
                for size in (40, 60, 90):
                    compiled(IMAGE[:, :size])
        return [(one.category, str(one.message)) for one in warned]

    ours = module("fastpipe.transforms.v2").functional  # shares torchvision's table of kernels, which torch compiles
    for function in (
        lambda image: VF.resize(image, [50, 60]),
        lambda image: F.resize(image, [50, 60], antialias=True),
        lambda image: ours.resize(image, [50, 60]),
    ):
        expected = traced(function)
        with fastpipe.install(check=0):
            assert traced(function) == expected


def test_errors_are_torchvisions(fresh_ledger: None) -> None:
    calls = [lambda: VF.resize(IMAGE, [0, 5]), lambda: VF.resize(IMAGE, "50"), lambda: F.resize(IMAGE, [0, 5])]
    calls += [
        lambda: F.adjust_hue(IMAGE, 0.6),
        lambda: VF.adjust_hue(IMAGE, -0.6),
        lambda: VF.adjust_hue(IMAGE[:2], 0.1),
    ]
    calls += [lambda: F.gaussian_blur(IMAGE, 4), lambda: F.gaussian_blur(IMAGE, [301, 3], [1.0, 1.0])]
    calls += [lambda: VF.gaussian_blur(IMAGE, 5, 0.0), lambda: VF.gaussian_blur(IMAGE, [5, 3, 1])]
    calls += [lambda: F.adjust_hue(IMAGE, "0.1"), lambda: VF.adjust_hue(IMAGE)]

    def errors() -> list[tuple[type, str]]:
        found = []
        for call in calls:
            with pytest.raises((RuntimeError, TypeError, ValueError)) as caught:
                call()
            found.append((caught.type, str(caught.value)))
        return found

    expected = errors()
    with fastpipe.install(check=0):
        assert errors() == expected


@pytest.mark.needs_core
def test_a_first_call_of_v2_on_bytes(fresh_ledger: None) -> None:
    """How torchvision resizes bytes is found out by a call of the function that is replaced."""
    from fastpipe.tensor_kernels import v2_tensors

    v2_tensors.resizes_natively.cache_clear()
    with fastpipe.install(check=0):
        VF.resize(BYTES, [50, 60])
        site = LEDGER.site("function", V2)
        assert (site.images, site.left) == (1, {})
