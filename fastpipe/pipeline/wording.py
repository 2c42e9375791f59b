"""Drawn steps in words, for people: what a recipe does to an image, without its every argument.

The words keep to ASCII and the degree sign, which every font has, Pillow's own among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fastpipe.pipeline.fused import LookUp
from fastpipe.pipeline.views import Views
from fastpipe.transforms.augmix import Mixture
from fastpipe.transforms.functional.sizes import padding_ltrb
from fastpipe.transforms.steps import Call
from fastpipe.types import Step

__all__ = ["in_words", "steps_in_words"]

_CONVERSIONS = frozenset({"convert_image_dtype", "normalize", "pil_to_tensor", "to_pil_image", "to_tensor"})


def steps_in_words(steps: Iterable[Step]) -> list[str]:
    """A phrase for each step that changes what is seen: conversions to tensors and normalising are left out."""
    phrases: list[str] = []
    for step in steps:
        if isinstance(step, LookUp):
            phrases += steps_in_words(step.calls)
        elif not (isinstance(step, Call) and step.op in _CONVERSIONS):
            phrases.append(in_words(step))
    return phrases


def in_words(step: Step) -> str:
    """A step as a phrase such as ``"mirrored left-right"`` or ``"brightness x 1.31"``."""
    if isinstance(step, Views):
        return " | ".join(", ".join(steps_in_words(steps)) or "as it is" for steps in step.views)
    if isinstance(step, Mixture):
        chains = [", ".join(map(in_words, chain)) or "itself" for chain in step.chains]
        parts = [f"{weight:.0%} ({text})" for weight, text in zip(step.weights[1:], chains, strict=True)]
        return " + ".join((f"mixed of {step.weights[0]:.0%} itself", *parts))
    if isinstance(step, Call) and step.op in _PHRASES:
        return _PHRASES[step.op](**dict(step.args))
    return str(step).replace("×", "x").replace("→", ">")


def _resize(size: Any, interpolation: Any = None, max_size: int | None = None, **_: Any) -> str:
    sides = list(size) if isinstance(size, (list, tuple)) else [size]
    text = f"resized to {sides[0]}x{sides[1]}" if len(sides) == 2 else f"shorter side resized to {sides[0]}"
    if max_size is not None:
        text += f", longer to {max_size} at most"
    mode = str(getattr(interpolation, "value", "bilinear"))
    return text if mode == "bilinear" else f"{text} ({mode})"


def _pad(padding: Any, fill: Any = 0, padding_mode: str = "constant") -> str:
    left, top, right, bottom = padding_ltrb(padding)
    same = left == top == right == bottom
    sides = str(left) if same else f"{left}, {top}, {right}, {bottom} (left, top, right, bottom)"
    return f"padded by {sides}" + ("" if padding_mode == "constant" else f", {padding_mode}")


def _affine(angle: float, translate: Any, scale: float, shear: Any, **_: Any) -> str:
    parts = []
    if angle:
        parts.append(_rotate(angle))
    if any(translate):
        parts.append(f"shifted by {translate[0]:g}, {translate[1]:g} px")
    if scale != 1:
        parts.append(f"scaled x {scale:.3g}")
    shears = list(shear) if isinstance(shear, (list, tuple)) else [shear]
    if any(shears):
        parts.append("sheared by " + ", ".join(f"{degrees:.1f}°" for degrees in shears))
    return ", ".join(parts) or "affine, nothing moved"


def _rotate(angle: float, **_: Any) -> str:
    way = "counter-clockwise" if angle > 0 else "clockwise"
    return f"turned {abs(angle):.1f}° {way}"


def _perspective(startpoints: Any, endpoints: Any, **_: Any) -> str:
    moved = [
        max(abs(a - b) for a, b in zip(start, end, strict=True))
        for start, end in zip(startpoints, endpoints, strict=True)
    ]
    return f"perspective, corners moved by up to {max(moved)} px"


def _blur(kernel_size: Any, sigma: Any = None) -> str:
    sigmas = list(sigma) if isinstance(sigma, (list, tuple)) else [sigma]
    return "blurred" if None in sigmas else f"blurred, sigma {max(sigmas):.2f}"


def _gray(num_output_channels: int = 1) -> str:
    return "made gray"


_PHRASES: dict[str, Callable[..., str]] = {
    "adjust_brightness": lambda brightness_factor: f"brightness x {brightness_factor:.2f}",
    "adjust_contrast": lambda contrast_factor: f"contrast x {contrast_factor:.2f}",
    "adjust_gamma": lambda gamma, gain=1: f"gamma {gamma:.2f}" + ("" if gain == 1 else f", gain {gain:.2f}"),
    "adjust_hue": lambda hue_factor: f"hue shifted by {hue_factor:+.3f}",
    "adjust_saturation": lambda saturation_factor: f"saturation x {saturation_factor:.2f}",
    "adjust_sharpness": lambda sharpness_factor: f"sharpness x {sharpness_factor:.2f}",
    "affine": _affine,
    "autocontrast": lambda: "contrast stretched",
    "center_crop": lambda output_size: (
        "cropped in the middle"
        if isinstance(output_size, int)
        else f"cropped to the middle {output_size[0]}x{output_size[-1]}"
    ),
    "convert_image_dtype": lambda dtype: f"converted to {str(dtype).removeprefix('torch.')}",
    "crop": lambda top, left, height, width: f"cropped to {height}x{width} from row {top}, column {left}",
    "elastic_transform": lambda displacement, **_: "warped elastically",
    "equalize": lambda: "histogram equalized",
    "erase": lambda i, j, h, w, v, **_: f"erased {h}x{w} at row {i}, column {j}",
    "gaussian_blur": _blur,
    "hflip": lambda: "mirrored left-right",
    "invert": lambda: "inverted",
    "normalize": lambda mean, std, **_: "normalised",
    "pad": _pad,
    "perspective": _perspective,
    "pil_to_tensor": lambda: "to a uint8 tensor",
    "posterize": lambda bits: f"posterized to {bits} bits",
    "resize": _resize,
    "rgb_to_grayscale": _gray,
    "rotate": _rotate,
    "solarize": lambda threshold: f"solarized from {threshold:.0f}",
    "to_grayscale": _gray,
    "to_tensor": lambda: "to a float tensor",
    "vflip": lambda: "mirrored top-bottom",
}
