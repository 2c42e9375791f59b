"""Bytes and a recipe to the finished sample; no random number is drawn here."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from fastpipe import readers
from fastpipe.config import MachineConfig
from fastpipe.pipeline.laps import lap
from fastpipe.pipeline.plan import DecodePlan, Fidelity, plan_decode
from fastpipe.pipeline.scaled import ScaledResize
from fastpipe.readers import MaxPixels
from fastpipe.types import Header, Recipe

__all__ = ["run", "run_plan", "to_pil"]


def run(
    data: bytes,
    recipe: Recipe,
    *,
    header: Header | None = None,
    reader: str | None = None,
    config: MachineConfig | None = None,
    fidelity: Fidelity = "torchvision",
    source: str = "<bytes>",
    max_pixels: MaxPixels = "auto",
) -> Any:
    """Decodes only what the recipe needs and does what it says.

    Args:
        data: the whole file.
        recipe: what `Pipeline.draw` drew for an image of this size.
        header: the parsed header, where the caller has it already.
        reader: a reader's name; None for the config's choice.
        config: the machine's config; None for the one on disk.
        fidelity: ``"torchvision"`` or ``"fast"``.
        source: what an error calls the file.
        max_pixels: what an image may have, as `fastpipe.readers.read_image` says.

    Returns:
        What the last step gives: a uint8 array ``(H, W, C)`` or, after a conversion, a tensor ``(C, H, W)``. The
        array may be a view of this thread's decode buffer: it is valid until the thread's next decode.
    """
    plan = plan_decode(recipe, fidelity)
    lap("plan")
    return run_plan(data, plan, header=header, reader=reader, config=config, source=source, max_pixels=max_pixels)


def run_plan(
    data: bytes,
    plan: DecodePlan,
    *,
    header: Header | None = None,
    reader: str | None = None,
    config: MachineConfig | None = None,
    source: str = "<bytes>",
    max_pixels: MaxPixels = "auto",
) -> Any:
    """Decodes what the plan asks for and runs its steps; arguments and result as `run`'s."""
    image: Any
    image, got = readers.decode(
        data, plan.request, header=header, reader=reader, config=config, source=source, max_pixels=max_pixels
    )
    lap("decode")
    for step in plan.steps:
        image = step.apply_to(image, got) if isinstance(step, ScaledResize) else step.apply(image)
        lap(step)
    return image


def to_pil(image: Any) -> Any:
    """An array ``(H, W)`` or ``(H, W, 1 or 3)``, also in a list, as PIL images of their own; others as they are."""
    if isinstance(image, list):
        return [to_pil(view) for view in image]
    if not isinstance(image, np.ndarray):
        return image
    pixels = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
    return Image.fromarray(np.array(pixels, order="C"))  # a copy: the array may be the thread's decode buffer
