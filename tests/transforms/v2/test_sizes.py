"""Sizes of what v2's functions give of tensors, known without a run of torchvision's kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchvision.transforms.v2.functional as theirs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2 as their_v2

from fastpipe.tensor_kernels.v2_tensors import rotated_size
from fastpipe.transforms import v2
from fastpipe.transforms.v2._planned import steps_of
from fastpipe.types import Generators, ImageShape

SIDES = st.integers(1, 90)
ANGLES = st.one_of(st.integers(-8, 8).map(lambda turns: 45 * turns), st.floats(-400, 400, width=32))
POINTS = st.none() | st.lists(st.integers(-20, 120), min_size=2, max_size=2)


@settings(max_examples=300, deadline=None)
@given(SIDES, SIDES, ANGLES, st.booleans(), POINTS)
@example(20, 30, 90, True, [3, 5])
@example(20, 30, -270.0, True, None)
def test_rotated_tensors(height: int, width: int, angle: float, expand: bool, center: list[int] | None) -> None:
    arguments: dict[str, Any] = {"angle": angle, "expand": expand, "center": center}
    image, mask = torch.zeros(1, height, width), tv_tensors.Mask(torch.zeros(2, height, width, dtype=torch.uint8))
    size = rotated_size((height, width), **arguments, fill=3)
    assert size == tuple(theirs.rotate(image, **arguments).shape[-2:])
    assert size == tuple(theirs.rotate(mask, **arguments).shape[-2:])


@pytest.mark.parametrize("before", [theirs.pil_to_tensor, theirs.to_image], ids=["tensor", "image"])
@pytest.mark.parametrize(
    "transform",
    [
        their_v2.RandomRotation(20, their_v2.InterpolationMode.BILINEAR),
        their_v2.RandomRotation((80, 100), expand=True),
        their_v2.RandomGrayscale(1.0),
        their_v2.Grayscale(1),
    ],
    ids=["rotated", "expanded", "gray", "one channel"],
)
def test_no_kernel_runs_to_find_a_size(monkeypatch: pytest.MonkeyPatch, transform: Any, before: Any) -> None:
    """It would run without pixels, by torch's Python code, for longer than with them."""
    image = Image.new("RGB", (40, 30), (200, 100, 50))
    planned = v2.Compose([v2.PILToTensor() if before is theirs.pil_to_tensor else v2.ToImage(), transform])
    with monkeypatch.context() as patches:
        patches.setattr(theirs._geometry, "_apply_grid_transform", _never)
        patches.setattr(theirs._color, "_rgb_to_grayscale_image", _never)
        assert len(steps_of(planned, ImageShape(30, 40, 3), Generators())) > 1
    torch.manual_seed(0)
    ours = planned(image)
    torch.manual_seed(0)
    assert torch.equal(ours, transform(before(image)))


def _never(*_: object, **__: object) -> None:
    raise AssertionError("runs a kernel")
