"""Describes why a transform can't be planned, for `explain`.

`fastpipe.transforms._base.drawable` decides whether it can; this module only puts the reasons into words.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fastpipe.plain_lookup import bases_of, class_attribute, module_of, own_attribute, own_attributes
from fastpipe.transforms._base import drawable
from fastpipe.transforms.adapters import RECIPES, drawn_by_itself, planned, why_not
from fastpipe.transforms.albumentations import Albumentations
from fastpipe.transforms.named_arrays import named_arrays_of

_OURS_AND_KNOWN = ("fastpipe.", *RECIPES)
_ADDRESS = re.compile(r"( object)? at 0x[0-9a-fA-F]+")
_SEVERAL = "it gives several images, and a plan makes one; fastpipe.MultiView plans several views"
_WANT_PIXELS = {
    "AugMix": "it mixes several versions of the image",
    "FiveCrop": _SEVERAL,
    "GaussianNoise": "it draws a number for each pixel",
    "JPEG": "it compresses pixels",
    "LinearTransformation": "it works on the finished tensor",
    "TenCrop": _SEVERAL,
    "ToPILImage": "it turns a tensor back into an image",
}
_UNKNOWN = "nobody knows what it does before it has run"


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """The first transform that isn't planned."""

    transform: str  # the transform in one line
    reason: str  # why its random numbers can't be drawn from the image's size
    is_loading: bool = False  # whether it is code that loads images or makes samples instead of a transform


def one_line(transform: object) -> str:
    """A transform's repr without line breaks and addresses."""
    inner = transform.func if isinstance(transform, functools.partial) else transform
    if inspect.isroutine(inner):
        return f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', inner)}".removeprefix("__main__.")
    return _ADDRESS.sub("", _joined(repr(transform)))


def _joined(text: str) -> str:
    """Joins the lines of a repr to one line, with commas between members that had a line each."""
    joined = ""
    for line in (" ".join(line.split()) for line in text.splitlines()):
        if line.startswith((")", "]", "}")):
            joined = joined.removesuffix(",") + line
        elif joined.endswith(("(", "[", "{")) or not (joined and line):
            joined += line
        else:
            joined += (" " if joined.endswith(",") else ", ") + line
    return joined


def named_with_library(transform: object) -> str:
    """`one_line` of a planned transform, with the library's name if it isn't fastpipe's."""
    library = type(transform).__module__.partition(".")[0]
    text, adapter = one_line(transform), planned(transform)
    if library == "albumentations":
        return f"albumentations' {text}, planned"
    return text if library == "fastpipe" or adapter is transform else f"{library}'s {text}, planned"


def shortened(transform: object, length: int = 100) -> str:
    """`one_line`, or only the class's name if that is longer than `length`."""
    text = one_line(transform)
    return text if len(text) <= length else f"{type(transform).__name__}(…)"


def diagnose(transform: object) -> GraphBreak:
    """Describes why a transform that isn't drawable can't be planned."""
    return GraphBreak(one_line(transform), _reason(transform))


def _reason(transform: Any) -> str:
    kind = type(transform)
    home = module_of(kind).partition(".")[0]
    if kind is Albumentations:
        return _about_albumentations(transform.transform, "its seed is drawn when it is called")
    if named_arrays_of(transform) is not None:
        return _about_albumentations(transform, "albumentations draws from generators of its own")
    if home in ("fastpipe", "torchvision") and kind.__name__ in _WANT_PIXELS:
        return _WANT_PIXELS[kind.__name__]
    if own_attribute(transform, "_forward_hooks") or own_attribute(transform, "_forward_pre_hooks"):
        return "a hook is registered on it, which only its forward runs"
    member = next((one for one in _members(transform) if not drawable(one)), None)
    if member is not None:
        return f"{kind.__name__} holds {shortened(member)}, and that can't be planned: {_reason(member)}"
    replaced = _replaced(transform)
    if replaced:
        return replaced
    if home in ("timm", "torchvision") and kind.__name__ != "Lambda":
        return why_not(transform)
    return _UNKNOWN


def _members(transform: object) -> Sequence[object]:
    """The members of a known composite; empty for other transforms."""
    if not any(class_attribute(planned(transform), name) for name in ("_can_draw", "_plans_itself")):
        return ()
    members = getattr(transform, "transforms", None)
    if members is not None:
        return tuple(members)
    inner = getattr(transform, "transform", None)
    return () if inner is None or isinstance(transform, torch.nn.Module) else (inner,)


def _replaced(transform: object) -> str:
    """Names the methods of a known class that a subclass replaces; empty for any other object."""
    lineage = bases_of(type(transform))
    position = next((i for i, base in enumerate(lineage) if module_of(base).startswith(_OURS_AND_KNOWN)), None)
    if position is None:
        return ""
    base = lineage[position]
    if base.__module__.startswith("fastpipe.") and not hasattr(base, "draw"):
        return ""
    changed = {name for cls in lineage[:position] for name in own_attributes(cls)} | set(own_attributes(transform))
    methods = [name for name in sorted(changed) if callable(getattr(base, name, None))]
    names = [name for name in methods if not name.startswith("__") or name == "__call__"]
    return f"it changes {', '.join(names)} of {base.__name__}" if names else ""


def drawn_by_library(transform: object) -> tuple[object, ...]:
    """The members of an albumentations transform, wrapped or not, that are drawn before an image is decoded."""
    return drawn_by_itself(transform.transform if type(transform) is Albumentations else transform)


def _about_albumentations(transform: object, why: str) -> str:
    if drawn_by_itself(transform):
        return f"{why}: it is called sample by sample"
    first = next(iter(getattr(transform, "transforms", ())), transform)
    return f"{why}, and its beginning isn't planned: of {type(first).__name__}, {why_not(first)}"
