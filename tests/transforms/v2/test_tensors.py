"""uint8 tensors, single and in batches, in v2's classes and functions: torchvision's bytes, classes and strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision_here import module

from fastpipe import core
from fastpipe.tensor_kernels import v2_tensors
from fastpipe.transforms import v2

theirs, tv_tensors = module("torchvision.transforms.v2"), module("torchvision.tv_tensors")
THEIR_F: Any = theirs.functional
SETTINGS = settings(deadline=None, max_examples=40)
START, END = [[0, 0], [30, 0], [30, 30], [0, 30]], [[3, 5], [29, 1], [26, 33], [-4, 27]]

CALLS: dict[str, list[dict[str, Any]]] = {
    "adjust_brightness": [{"brightness_factor": 0.3}, {"brightness_factor": 1.9}],
    "adjust_contrast": [{"contrast_factor": 0.0}, {"contrast_factor": 1.7}],
    "adjust_gamma": [{"gamma": 2.2}, {"gamma": 0.4, "gain": 1.3}],
    "adjust_hue": [{"hue_factor": 0.1}, {"hue_factor": -0.5}],
    "adjust_saturation": [{"saturation_factor": 0.4}, {"saturation_factor": 1.6}],
    "adjust_sharpness": [{"sharpness_factor": 0.2}, {"sharpness_factor": 3.1}],
    "affine": [
        {"angle": 10.0, "translate": [3, -2], "scale": 1.1, "shear": [5.0, 0.0]},
        {
            "angle": -40.0,
            "translate": [0, 0],
            "scale": 0.7,
            "shear": [0.0, 9.0],
            "interpolation": THEIR_F.InterpolationMode.BILINEAR,
            "fill": 7,
        },
    ],
    "autocontrast": [{}],
    "equalize": [{}],
    "gaussian_blur": [
        {"kernel_size": 3},
        {"kernel_size": [5, 3], "sigma": [0.7, 1.9]},
        {"kernel_size": (1, 7), "sigma": [2.2]},
        {"kernel_size": [9], "sigma": 1.1},
        {"kernel_size": 4},
        {"kernel_size": 5, "sigma": -1.0},
    ],
    "perspective": [
        {"startpoints": START, "endpoints": END},
        {"startpoints": START, "endpoints": END, "interpolation": THEIR_F.InterpolationMode.NEAREST, "fill": 9.5},
    ],
    "resize": [
        {"size": [20, 31]},
        {"size": 17, "interpolation": THEIR_F.InterpolationMode.BICUBIC},
        {"size": [5, 90], "antialias": False},
    ],
    "resized_crop": [{"top": 1, "left": 0, "height": 9, "width": 40, "size": [20, 12]}],
    "rgb_to_grayscale": [{"num_output_channels": 1}, {"num_output_channels": 3}],
    "rotate": [
        {"angle": 23.0},
        {"angle": 31.0, "expand": True, "fill": 3, "interpolation": THEIR_F.InterpolationMode.BILINEAR},
        {"angle": 90},
    ],
    "solarize": [{"threshold": 99.7}, {"threshold": 255}],
}


def outcome(call: Callable[[], Any]) -> Any:
    """A call's result with everything that can be seen of it, or its error."""
    try:
        made = call()
    except Exception as error:
        return type(error), str(error)
    return type(made), made.dtype, tuple(made.shape), made.stride(), made.as_subclass(torch.Tensor).tolist()


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """uint8 tensors ``(…, 1 or 3, H, W)`` as people have them: batches, none in them, views, channels last, video."""
    leading = draw(st.sampled_from(((), (), (1,), (3,), (0,), (2, 2))))
    shape = *leading, draw(st.sampled_from((1, 3, 3))), draw(st.integers(1, 40)), draw(st.integers(1, 50))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    made = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    form = draw(st.sampled_from(("plain", "plain", "channels_last", "view", "expanded")))
    if form == "channels_last" and made.ndim == 4:
        made = made.contiguous(memory_format=torch.channels_last)
    elif form == "view" and shape[-1] > 3:  # torch reads elsewhere where a column alone has a stride of its own
        made = made.flip(-1)[..., ::2]
    elif form == "expanded" and leading == (3,):
        made = made[:1].expand(shape)
    classes = [torch.Tensor, tv_tensors.Image, *([tv_tensors.Video] if made.ndim > 3 else [])]
    kind = draw(st.sampled_from(classes))
    return made if kind is torch.Tensor else kind(made)


def test_every_kernel_has_a_call() -> None:
    assert set(CALLS) == set(v2_tensors.KERNELS)


@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str) -> None:
    @SETTINGS
    @given(tensors(), st.sampled_from(CALLS[name]))
    def check(image: Any, given_arguments: dict[str, Any]) -> None:
        known = outcome(lambda: getattr(THEIR_F, name)(image, **given_arguments))
        if known[0] is RuntimeError and "INTERNAL ASSERT" in known[1]:  # of torch's own, for a batch of one column
            return
        before = image.clone()
        assert outcome(lambda: getattr(v2.functional, name)(image, **given_arguments)) == known
        assert torch.equal(image, before)

    check()


@pytest.mark.needs_core
@pytest.mark.parametrize("name", CALLS)
def test_batches_go_through_the_core(name: str) -> None:
    batch = torch.randint(0, 256, (3, 3, 33, 47), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    made = v2_tensors.KERNELS[name](batch, **CALLS[name][0])
    if made is None:  # this torch rounds as the core doesn't
        assert core.isa() == "portable" or name == "resize"
    else:
        assert torch.equal(made, getattr(THEIR_F, name)(batch, **CALLS[name][0]))


TRANSFORMS: dict[str, tuple[Any, ...]] = {
    "AutoAugment": (),
    "ColorJitter": (0.4, 0.4, 0.4, 0.1),
    "GaussianBlur": ((5, 7), (0.3, 2.0)),
    "RandAugment": (),
    "RandomAdjustSharpness": (2, 1.0),
    "RandomAffine": (10, (0.1, 0.1)),
    "RandomAutocontrast": (1.0,),
    "RandomEqualize": (1.0,),
    "RandomGrayscale": (1.0,),
    "RandomPerspective": (0.5, 1.0),
    "RandomPhotometricDistort": (),
    "RandomResizedCrop": (16,),
    "RandomRotation": (30,),
    "RandomSolarize": (100, 1.0),
    "Resize": ((20, 22),),
    "TrivialAugmentWide": (),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("kind", ["Tensor", "Image", "Video"])
def test_transforms(name: str, kind: str) -> None:
    batch = torch.randint(0, 256, (4, 3, 40, 50), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    image = batch if kind == "Tensor" else getattr(tv_tensors, kind)(batch)

    def called(namespace: Any, seed: int) -> Any:
        torch.manual_seed(seed)
        transform = namespace.Compose([getattr(namespace, name)(*TRANSFORMS[name]), namespace.RandomHorizontalFlip()])
        return outcome(lambda: transform(image)), torch.get_rng_state().tolist()

    for seed in range(8):
        assert called(v2, seed) == called(theirs, seed)


def test_torchscript_compiles_torchvisions() -> None:
    image = torch.randint(0, 256, (2, 3, 40, 50), dtype=torch.uint8)
    scripted: Any = torch.jit.script(v2.functional.resize)
    assert torch.equal(scripted(image, [20, 20]), THEIR_F.resize(image, [20, 20]))


def test_a_users_kernel_is_registered_for_both() -> None:
    class Mine(tv_tensors.TVTensor):
        pass

    @v2.functional.register_kernel(v2.functional.autocontrast, Mine)
    def kernel(image: Any) -> str:
        return "mine"

    image = torch.zeros(3, 4, 5).as_subclass(Mine)
    assert v2.functional.autocontrast(image) == THEIR_F.autocontrast(image) == "mine"
    assert v2.RandomAutocontrast(1.0)(image) == "mine"


@pytest.mark.needs_core
def test_torchvision_gets_no_names_of_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its functions took none up to 0.24 at least."""
    checked = THEIR_F._geometry._check_interpolation

    def check(interpolation: object) -> Any:
        if isinstance(interpolation, str):
            raise ValueError(f"{interpolation} is no InterpolationMode")
        return checked(interpolation)

    image = torch.randint(0, 256, (3, 21, 34), dtype=torch.uint8)
    at_once = {
        "resize": {"size": [8, 9]},
        "rotate": {"angle": 20.0},
        "perspective": {"startpoints": START, "endpoints": END},
    }
    expected = {name: getattr(THEIR_F, name)(image, **arguments) for name, arguments in at_once.items()}
    natively = v2_tensors.resizes_natively("bilinear")
    monkeypatch.setattr(THEIR_F._geometry, "_check_interpolation", check)
    assert v2_tensors.resizes_natively.__wrapped__("bilinear") == natively
    for name, arguments in at_once.items():
        made = v2_tensors.KERNELS[name](image, **arguments)
        assert made is None or torch.equal(made, expected[name])


@pytest.mark.parametrize(
    "options", [{}, {"severity": 10, "chain_depth": 3, "interpolation": THEIR_F.InterpolationMode.NEAREST, "fill": 7}]
)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", ["tensor", "image", "picture"])
def test_aug_mix_runs_on_planes_and_keeps_the_strides(
    kind: str, channels: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 70, channels), np.uint8)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    picture = PIL.Image.fromarray(pixels[..., 0] if channels == 1 else pixels)
    image = {"tensor": tensor, "image": tv_tensors.Image(tensor), "picture": picture}[kind]
    run = v2_tensors.run
    seen: list[bool] = []

    def watched(name: str, given: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        seen.append(given.is_contiguous())
        return run(name, given, *args, **kwargs)

    monkeypatch.setattr(v2_tensors, "run", watched)
    for seed in range(5):
        torch.manual_seed(seed)
        expected, after = theirs.AugMix(**options)(image), torch.get_rng_state()
        torch.manual_seed(seed)
        mixed = v2.AugMix(**options)(image)
        assert torch.equal(torch.get_rng_state(), after)
        assert type(mixed) is type(expected)
        assert np.array_equal(np.asarray(mixed), np.asarray(expected))
        if isinstance(mixed, torch.Tensor):
            assert mixed.stride() == expected.stride()
    assert seen
    assert all(seen)
