"""The core's hue of tensors, in every instruction set, against torchvision's own; and what it touches."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torchvision_here import module

from fastpipe import core
from fastpipe.core.planes import Hue, adjust_hue

SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
V1, V2 = (module(f"torchvision.transforms.{name}") for name in ("_functional_tensor", "v2.functional"))
FLAGS = st.sets(st.sampled_from([*Hue])).map(lambda flags: Hue(sum(flags)))


def colors(shape: tuple[int, ...], of_floats: bool, seed: int) -> torch.Tensor:
    """Colours of which many are gray, have two equal channels, or values of exactly 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    image = torch.rand(shape, generator=generator)
    kinds = torch.randint(0, 8, (*shape[:-3], 1, *shape[-2:]), generator=generator)
    image = torch.where(kinds == 0, image[..., :1, :, :], image)
    image = torch.where(kinds == 1, image.round(), image)
    image = torch.where(kinds == 2, (image * 3).round() / 3, image)
    image = torch.where(kinds == 3, image * 1e-38, image)  # numbers without full precision
    return image if of_floats else (image * 255.99).to(torch.uint8)


@SETTINGS
@given(st.integers(0, 3), st.integers(1, 9), st.integers(1, 300), FLAGS, st.floats(-0.5, 0.5), st.integers(0, 10**6))
def test_values_are_torchvisions(
    context: core.Context, images: int, height: int, width: int, flags: Hue, by: float, seed: int
) -> None:
    """Nothing around the result is written."""
    image = colors((images, 3, height, width), Hue.FLOATS in flags, seed)
    given_image = image.movedim(1, -1).contiguous() if Hue.FROM_PIXELS in flags else image
    memory = torch.full((image.numel() + 20,), 7, dtype=image.dtype)
    out = memory[10:-10]
    assert adjust_hue(context, given_image.data_ptr(), (images, height, width), out.data_ptr(), by, flags)
    if images:
        expected = (V1 if Hue.V1 in flags else V2).adjust_hue(image, by)
        expected = expected.movedim(1, -1) if Hue.TO_PIXELS in flags else expected
        assert torch.equal(out.view(expected.shape), expected)
    assert memory[:10].tolist() == memory[-10:].tolist() == [7] * 10


def test_all_colors(context: core.Context) -> None:
    """Every sixth value of each channel, in steps of 15 degrees and between them."""
    values = torch.arange(0, 256, 6, dtype=torch.uint8)
    image = torch.cartesian_prod(values, values, values).T.reshape(3, len(values), -1).contiguous()
    for flags, theirs in ((Hue.BYTES, V2), (Hue.V1, V1), (Hue.FLOATS, V2), (Hue.FLOATS | Hue.V1, V1)):
        given_image = image / 255 if Hue.FLOATS in flags else image
        out = torch.empty_like(given_image)
        for by in (-0.5, -1 / 24, 1 / 3, 0.123456789):
            shape = 1, *image.shape[1:]
            assert adjust_hue(context, given_image.data_ptr(), shape, out.data_ptr(), by, flags)
            assert torch.equal(out, theirs.adjust_hue(given_image, by))


@pytest.mark.parametrize("value", [-0.0, -1e-40, -0.5, 1.0000001, 2.0, float("inf"), float("-inf"), float("nan")])
def test_floats_beyond_0_and_1_are_refused(context: core.Context, value: float) -> None:
    image = torch.rand(3, 20, 31)
    out = torch.empty_like(image)
    for place in (0, 619, 620, 1859):
        spoiled = image.clone()
        spoiled.view(-1)[place] = value
        for flags in (Hue.FLOATS, Hue.FLOATS | Hue.V1, Hue.FLOATS | Hue.FROM_PIXELS):
            assert not adjust_hue(context, spoiled.data_ptr(), (1, 20, 31), out.data_ptr(), 0.1, flags)


def test_what_is_no_image_is_refused(context: core.Context) -> None:
    at = torch.zeros(60).data_ptr()
    for shape in ((-1, 4, 4), (1, 0, 4), (1, 4, -4)):
        assert not adjust_hue(context, at, shape, at, 0.1, Hue.BYTES)
    for by in (0.51, -0.51, float("nan")):
        assert not adjust_hue(context, at, (1, 4, 4), at, by, Hue.BYTES)
    assert not adjust_hue(context, at, (1, 4, 4), at, 0.1, 16)  # type: ignore[arg-type]
