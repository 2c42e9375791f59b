"""Operations on uint8 tensors by the core: torchvision's own bytes, and torch where there is no such image."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastpipe import core
from fastpipe.tensor_kernels import planes
from fastpipe.transforms import functional as F
from fastpipe.transforms.functional import InterpolationMode

pytestmark = pytest.mark.needs_core

SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
FACTORS = st.floats(0, 8) | st.sampled_from((0.0, 1.0, 0.1, 1.9, 1e30, 1e35))
FILLS = st.none() | st.sampled_from(([0.0], [255.0], [12.5])) | st.just([1.0, 77.25, 254.0])
MODES = st.sampled_from((InterpolationMode.NEAREST, InterpolationMode.BILINEAR))
ANGLES = st.floats(-180, 180) | st.sampled_from((0.0, 90.0, 45.0))
SHEARS = st.lists(st.floats(-60, 60), min_size=2, max_size=2)

CALLS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "adjust_brightness": st.fixed_dictionaries({"brightness_factor": FACTORS}),
    "adjust_contrast": st.fixed_dictionaries({"contrast_factor": FACTORS}),
    "adjust_saturation": st.fixed_dictionaries({"saturation_factor": FACTORS}),
    "adjust_sharpness": st.fixed_dictionaries({"sharpness_factor": FACTORS}),
    "rgb_to_grayscale": st.fixed_dictionaries({"num_output_channels": st.sampled_from((1, 3))}),
    "solarize": st.fixed_dictionaries({"threshold": st.floats(-10, 255)}),
    "adjust_gamma": st.fixed_dictionaries({"gamma": st.floats(0.1, 4), "gain": st.floats(0.5, 2)}),
    "autocontrast": st.just({}),
    "equalize": st.just({}),
    "affine": st.fixed_dictionaries(
        {
            "angle": ANGLES,
            "translate": st.lists(st.integers(-60, 60), min_size=2, max_size=2),
            "scale": st.floats(0.2, 5),
            "shear": SHEARS,
            "interpolation": MODES,
            "fill": FILLS,
        }
    ),
    "rotate": st.fixed_dictionaries({"angle": ANGLES, "interpolation": MODES, "expand": st.booleans(), "fill": FILLS}),
    "perspective": st.fixed_dictionaries(
        {
            "startpoints": st.just([[0, 0], [30, 0], [30, 30], [0, 30]]),
            "endpoints": st.just([[3, 5], [29, 1], [26, 33], [-4, 27]]),
            "interpolation": MODES,
            "fill": FILLS,
        }
    ),
}


@st.composite
def images(draw: st.DrawFn) -> torch.Tensor:
    """``(..., 1 or 3, H, W)``: of noise, or of few values."""
    shape = (*(1,) * draw(st.integers(0, 2)), draw(st.sampled_from((1, 3))), draw(st.integers(1, 40)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    low = draw(st.integers(0, 255))
    high = draw(st.integers(low + 1, 256))
    return torch.randint(low, high, (*shape, draw(st.integers(1, 90))), dtype=torch.uint8, generator=generator)


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same function without the core's help."""

    def call(name: str, image: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        with monkeypatch.context() as patch:
            patch.setattr(planes, "takes", lambda image: False)
            made: torch.Tensor = getattr(F, name)(image, **kwargs)
            return made

    return call


@pytest.mark.parametrize("name", CALLS)
def test_the_bytes_are_torchs(name: str, by_torch: Any) -> None:
    @SETTINGS
    @given(image=images(), kwargs=CALLS[name])
    def check(image: torch.Tensor, kwargs: dict[str, Any]) -> None:
        if image.shape[-3] == 1 and len(kwargs.get("fill") or ()) == 3:
            kwargs = {**kwargs, "fill": [7.0]}
        if image.ndim == 5 and name in ("affine", "rotate", "perspective", "equalize"):
            image = image[0]
        before = image.clone()
        assert planes.takes(image)
        assert torch.equal(getattr(F, name)(image, **kwargs), by_torch(name, image, **kwargs))
        assert torch.equal(image, before)

    check()


def test_autocontrast_of_every_range(by_torch: Any) -> None:
    for low in range(0, 256, 3):
        for high in range(low, 256):
            image = torch.arange(low, high + 1, dtype=torch.uint8).view(1, 1, -1)
            assert torch.equal(F.autocontrast(image), by_torch("autocontrast", image))


def test_the_gray_of_every_color(by_torch: Any) -> None:
    values = torch.arange(256, dtype=torch.uint8)
    for red in range(0, 256, 5):
        image = torch.cartesian_prod(values[red : red + 5], values, values).T.reshape(3, -1, 256).contiguous()
        assert torch.equal(F.rgb_to_grayscale(image), by_torch("rgb_to_grayscale", image))


def test_the_contrast_of_a_large_image(by_torch: Any) -> None:
    """Whose gray values' sum float32 doesn't hold: torch adds them up."""
    image = torch.randint(100, 256, (3, 700, 900), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    for factor in (0.3, 1.7):
        made = F.adjust_contrast(image, factor)
        assert torch.equal(made, by_torch("adjust_contrast", image, contrast_factor=factor))


@pytest.mark.parametrize("name", CALLS)
def test_batches(name: str, by_torch: Any) -> None:
    @SETTINGS
    @given(count=st.integers(0, 3), channels=st.sampled_from((1, 3)), kwargs=CALLS[name], seed=st.integers(0, 10**6))
    def check(count: int, channels: int, kwargs: dict[str, Any], seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        batch = torch.randint(0, 256, (count, channels, 23, 37), dtype=torch.uint8, generator=generator)
        if channels == 1 and len(kwargs.get("fill") or ()) == 3:
            kwargs = {**kwargs, "fill": [7.0]}
        if not count:
            assert not planes.takes(batch)
            return
        made, known = getattr(F, name)(batch, **kwargs), by_torch(name, batch, **kwargs)
        assert torch.equal(made, known)
        assert made.stride() == known.stride()

    check()


class Named(torch.Tensor):
    pass


def test_other_tensors_are_torchs_own() -> None:
    image = torch.randint(0, 256, (3, 12, 17), dtype=torch.uint8)
    others = [image.float(), image.to(torch.int16), image.mT, image[:, :, ::2], image[None].expand(2, 3, 12, 17)]
    others += [image[0], image[:2], image[:, :0], image.as_subclass(Named), image.to("meta")]
    assert planes.takes(image)
    assert not any(map(planes.takes, others))
    assert type(F.adjust_brightness(image.as_subclass(Named), 1.2)) is Named
    batch = torch.stack([image, 255 - image])
    found = torch.func.vmap(lambda one: F.adjust_saturation(one, 1.4))(batch)
    assert torch.equal(found, torch.stack([F.adjust_saturation(one, 1.4) for one in batch]))


def test_another_default_device_changes_nothing() -> None:
    image = torch.randint(0, 256, (3, 12, 17), dtype=torch.uint8)
    calls = (
        lambda: F.adjust_saturation(image, 1.4),
        lambda: F.adjust_brightness(image, 1.4),
        lambda: F.rotate(image, 7.0, InterpolationMode.BILINEAR, fill=[3.0]),
        lambda: F.rgb_to_grayscale(image),
    )
    known = [call() for call in calls]
    with torch.device("meta"):
        made = [call() for call in calls]
    assert all(map(torch.equal, made, known))


def test_a_trace_records_torchs_operations() -> None:
    image = torch.randint(0, 256, (3, 12, 17), dtype=torch.uint8)
    traced = torch.jit.trace(lambda one: F.autocontrast(F.adjust_brightness(one, 0.4)), (image,))
    other = 255 - image
    assert torch.equal(traced(other), F.autocontrast(F.adjust_brightness(other, 0.4)))


def test_what_cannot_be_a_byte_is_left_to_torch(by_torch: Any) -> None:
    image = torch.randint(0, 256, (3, 12, 17), dtype=torch.uint8)
    grid = torch.zeros(1, 12, 17, 2)
    for fill in ([300.0], [-1.0], [1.0, 2.0]):
        assert planes.sampled(image, (12, 17), "bilinear", fill, grid) is None
    assert planes.sampled(image, (12, 17), "bilinear", None, grid.double()) is None
    assert planes.sampled(image, (12, 17), "bilinear", None, torch.full((1, 3, 2), float("nan"))) is None
    assert planes.sampled(image, (12, 17), "bicubic", None, grid) is None
    assert planes.mixed([image], torch.ones(1, dtype=torch.float64)) is None
    assert planes.mixed([image, image[:, :5]], torch.tensor([0.5, 0.5])) is None
    assert planes.changed(core.Kind.TENSOR_SATURATION, image, float("inf")) is None
