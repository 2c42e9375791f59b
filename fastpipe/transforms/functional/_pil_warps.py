"""Affine and perspective warps of PIL images; interpolations are Pillow's integers.

Derived from torchvision (BSD-3-Clause, see NOTICE) and equal to its PIL backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PIL import Image

from fastpipe.transforms.functional._pil_common import check_image, fill_per_band

__all__ = ["affine", "perspective", "rotate"]


def _fill(fill: Any, img: Any) -> Any:
    return fill_per_band(fill, len(img.getbands()), integer=img.mode != "F")


def affine(
    img: Any, matrix: Sequence[float], interpolation: int = Image.Resampling.NEAREST, fill: Any = None
) -> Image.Image:
    """Args: ``matrix``: from output to input pixels, the first two rows."""
    check_image(img)
    fillcolor = _fill(fill, img)
    method = Image.Transform.AFFINE
    return img.transform(img.size, method, matrix, interpolation, fillcolor=fillcolor)  # type: ignore[no-any-return]


def rotate(
    img: Any,
    angle: float,
    interpolation: int = Image.Resampling.NEAREST,
    expand: bool = False,
    center: Any = None,
    fill: Any = None,
) -> Image.Image:
    check_image(img)
    fillcolor = _fill(fill, img)
    return img.rotate(angle, interpolation, expand, center, fillcolor=fillcolor)  # type: ignore[no-any-return]


def perspective(
    img: Any, perspective_coeffs: Sequence[float], interpolation: int = Image.Resampling.BICUBIC, fill: Any = None
) -> Image.Image:
    check_image(img)
    fillcolor = _fill(fill, img)
    method = Image.Transform.PERSPECTIVE
    return img.transform(  # type: ignore[no-any-return]
        img.size, method, perspective_coeffs, interpolation, fillcolor=fillcolor
    )
