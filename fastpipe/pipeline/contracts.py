"""What is promised for each drawn operation: how far its pixels may be from torchvision's on PIL images.

One table, which `explain` prints and `verify` holds a user's own files to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastpipe.pipeline.fused import LookUp, ToNormalizedTensor, ToPlanarTensor
from fastpipe.pipeline.scaled import ScaledResize
from fastpipe.pipeline.views import Views
from fastpipe.transforms.steps import Call
from fastpipe.types import Step

__all__ = ["APPROXIMATE", "EXACT", "OWN", "ROUNDING", "WARP", "Contract", "contracts_of"]


@dataclass(frozen=True, slots=True)
class Contract:
    """One promise.

    Attributes:
        name: a word for it.
        text: in a sentence.
        limit: the largest difference of a pixel value, in 1/255; None where it isn't bounded by a number.
    """

    name: str
    text: str
    limit: float | None = None


EXACT = Contract("exact", "equals torchvision bit for bit", 0)
ROUNDING = Contract("rounding", "within 1/255 of torchvision", 1)
WARP = Contract("warp", "as near to torchvision-on-PIL as torchvision's tensor backend")
APPROXIMATE = Contract("approximate", "approximate: benchmarks/fidelity.py has the error")
OWN = Contract("own", "its own pixels")

_ROUNDED = frozenset({"adjust_contrast", "adjust_saturation", "adjust_sharpness", "gaussian_blur"})
_WARPED = frozenset({"adjust_hue", "affine", "elastic_transform", "perspective", "rotate"})
# Pillow's other filters are Pillow's own code, and nearest moves pixels only.
_AVERAGED = frozenset({"bilinear", "bicubic"})


def contracts_of(step: Step) -> tuple[Contract, ...]:
    """The promises for a step on a uint8 array: one, or for several views of an image each that occurs."""
    if isinstance(step, Views):
        found = [contract for steps in step.views for inner in steps for contract in contracts_of(inner)]
        return tuple(dict.fromkeys(found)) or (EXACT,)
    if isinstance(step, ScaledResize):
        return (APPROXIMATE,)
    if isinstance(step, Call):
        return (_of_call(step),)
    promise = getattr(step, "promise", None)
    if isinstance(promise, str):
        return (Contract(OWN.name, promise),)
    return (EXACT,) if isinstance(step, (LookUp, ToNormalizedTensor, ToPlanarTensor)) else (OWN,)


def _of_call(call: Call) -> Contract:
    if call.op in _WARPED:
        return WARP
    if call.op in _ROUNDED:
        return ROUNDING
    if call.op in ("resize", "resized_crop"):
        return ROUNDING if _interpolation(call) in _AVERAGED else EXACT
    return EXACT


def _interpolation(call: Call) -> str:
    mode: Any = dict(call.args).get("interpolation", "bilinear")
    return str(getattr(mode, "value", {0: "nearest", 2: "bilinear", 3: "bicubic"}.get(mode, mode)))
