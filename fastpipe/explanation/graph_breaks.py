"""Reasons why a transform can't be planned, and what its owner can do about it, in `explain`'s words.

Nothing here decides anything: `fastpipe.transforms._base.drawable` does, and this only puts its reasons into words.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fastpipe.transforms import autoaugment, transforms
from fastpipe.transforms._base import drawable
from fastpipe.transforms.adapters import RECIPES, drawn_by_itself, planned, why_not
from fastpipe.transforms.named_arrays import run_of

_OWN = {name: getattr(module, name) for module in (transforms, autoaugment) for name in module.__all__}
_V2 = "torchvision.transforms.v2"
_OURS_AND_KNOWN = ("fastpipe.", *RECIPES)
_ADDRESS = re.compile(r"( object)? at 0x[0-9a-fA-F]+")
_DRAW = "draw(self, shape, generators)"
_GIVE_DRAW = (
    f"give its class a method {_DRAW} that draws the random numbers and returns the steps, as docs/extending.md shows: "
    "then it is planned too"
)
_SEVERAL = "it gives several images, and a plan makes one"
_WITHOUT_DRAW = {
    "FiveCrop": (_SEVERAL, "fine for evaluation, where it comes last; for training use fastpipe.MultiView"),
    "TenCrop": (_SEVERAL, "fine for evaluation, where it comes last; for training use fastpipe.MultiView"),
    "LinearTransformation": ("it works on the finished tensor", "put it last: then nothing is lost"),
    "ToPILImage": (
        "it turns a tensor back into an image",
        "leave it out, and the ToTensor before it: the transforms before ToTensor all take images",
    ),
}
_LAST = "put it last: then nothing is lost"
_WITHOUT_DRAW_V2 = _WITHOUT_DRAW | {
    "AugMix": ("it mixes several versions of the image", _LAST),
    "GaussianNoise": ("it draws a number for each pixel", _LAST),
    "JPEG": ("it compresses pixels", _LAST),
    "Lambda": (
        "what a Lambda's function does isn't known before it runs",
        "put it behind the others: what comes before it is planned",
    ),
}


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """The transform that ends a plan.

    Attributes:
        transform: it, in one line.
        cause: ``"albumentations"``, ``"dataset"`` (its own code makes samples), ``"draw"``, ``"foreign"``, ``"hook"``,
            ``"lambda"``, ``"member"``, ``"pixels"``, ``"subclass"``, ``"timm"`` or ``"torchvision"``.
        reason: why its random numbers can't be drawn from the image's size.
        advice: what mends it, one sentence each, the best first.
    """

    transform: str
    cause: str
    reason: str
    advice: tuple[str, ...]


def one_line(transform: Any) -> str:
    """A transform's repr without line breaks and addresses."""
    inner = transform.func if isinstance(transform, functools.partial) else transform
    if inspect.isroutine(inner):
        return f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', inner)}".removeprefix("__main__.")
    return _ADDRESS.sub("", _joined(repr(transform)))


def _joined(text: str) -> str:
    """Lines as one, with a comma between those that were told apart by standing below each other."""
    joined = ""
    for line in (" ".join(line.split()) for line in text.splitlines()):
        if line.startswith((")", "]", "}")):
            joined = joined.removesuffix(",") + line
        elif joined.endswith(("(", "[", "{")) or not (joined and line):
            joined += line
        else:
            joined += (" " if joined.endswith(",") else ", ") + line
    return joined


def named_with_library(transform: Any) -> str:
    """`one_line` of a planned transform; with the library's name for another library's."""
    library = type(transform).__module__.partition(".")[0]
    text, adapter = one_line(transform), planned(transform)
    note = getattr(adapter, "note", None)
    if isinstance(note, str) and adapter is not transform:
        return f"{text}, which {note}"
    if library == "albumentations":
        return f"albumentations' {text}, planned"
    return text if library == "fastpipe" or adapter is transform else f"{library}'s {text}, planned"


def shortened(transform: Any, length: int = 100) -> str:
    """`one_line`, or only the class's name where that is longer."""
    text = one_line(transform)
    return text if len(text) <= length else f"{type(transform).__name__}(…)"


def diagnose(transform: Any) -> GraphBreak:
    """The reason that keeps a transform that isn't drawable from being planned."""
    return GraphBreak(one_line(transform), *_cause_reason_advice(transform))


def _cause_reason_advice(transform: Any) -> tuple[str, str, tuple[str, ...]]:
    kind = type(transform)
    home = kind.__module__.partition(".")[0]
    is_v1 = kind.__module__.startswith("torchvision.transforms.") and not kind.__module__.startswith(_V2)
    if kind is transforms.Lambda or (is_v1 and kind.__name__ == "Lambda"):
        return "lambda", "what a Lambda's function does isn't known before it runs", _about_function(transform.lambd)
    if home == "fastpipe" and kind.__name__ == "Albumentations":
        return _about_albumentations(transform.transform, "its seed is drawn when it is called")
    if run_of(transform) is not None:
        return _about_albumentations(transform, "albumentations draws from generators of its own")
    is_v2 = kind.__module__.startswith(("fastpipe.transforms.v2", _V2))
    known = _WITHOUT_DRAW_V2 if is_v2 else _WITHOUT_DRAW
    if kind.__name__ in known and (is_v2 or is_v1 or _OWN.get(kind.__name__) is kind):
        reason, tip = known[kind.__name__]
        return "pixels", reason, (tip,)
    if getattr(transform, "_forward_hooks", None) or getattr(transform, "_forward_pre_hooks", None):
        return "hook", "a hook is registered on it, which only its forward runs", ("remove the hook",)
    member = next((one for one in _members(transform) if not drawable(one)), None)
    if member is not None:
        inner = diagnose(member)
        name = f"{kind.__name__} holds {shortened(member)}"
        return "member", f"{name}, and that can't be planned: {inner.reason}", inner.advice
    own_reason = vars(type(planned(transform))).get("why_not")
    if isinstance(own_reason, str):
        return "pixels", own_reason, ("draw in make_params, by the sizes alone", _LAST)
    replaced = _replaced(transform)
    if replaced:
        base, names = replaced
        several = "these" if len(names) > 1 else "this"
        advice = (f"override draw as well, {_DRAW}, so that it does what your {names[0]} does",)
        return "subclass", f"it changes {', '.join(names)} of {base}, whose draw knows nothing of {several}", advice
    if home in ("timm", "torchvision"):
        return home, why_not(transform), (_LAST,)
    if "draw" in {name for base in kind.__mro__ for name in vars(base)}:
        return "draw", "its method draw is another one than fastpipe's", (f"define it as {_DRAW}, or rename yours",)
    if isinstance(transform, torch.nn.Sequential):
        return "foreign", "torch.nn.Sequential runs its members itself", ("take fastpipe.transforms.Compose",)
    return "foreign", f"it has no {_DRAW}, so its result is only known once it has run", _about_function(transform)


def _members(transform: Any) -> Sequence[Any]:
    """The members of a composite of fastpipe's own."""
    if not any(getattr(planned(transform), name, None) for name in ("_can_draw", "_plans_itself")):
        return ()
    members = getattr(transform, "transforms", None)
    if members is not None:
        return tuple(members)
    inner = getattr(transform, "transform", None)
    return () if inner is None or isinstance(transform, torch.nn.Module) else (inner,)


def _replaced(transform: Any) -> tuple[str, list[str]] | None:
    """The fastpipe class that a subclass is of, and the methods of it that the subclass replaces."""
    lineage = type(transform).__mro__
    position = next((i for i, base in enumerate(lineage) if base.__module__.startswith(_OURS_AND_KNOWN)), None)
    if position is None:
        return None
    base = lineage[position]
    if base.__module__.startswith("fastpipe.") and not hasattr(base, "draw"):
        return None
    changed = {name for cls in lineage[:position] for name in vars(cls)} | set(getattr(transform, "__dict__", ()))
    methods = [name for name in sorted(changed) if callable(getattr(base, name, None))]
    names = [name for name in methods if not name.startswith("__") or name == "__call__"]
    return (base.__name__, names) if names else None


def _about_function(function: Any) -> tuple[str, ...]:
    inner = function.func if isinstance(function, functools.partial) else function
    code = getattr(inner, "__code__", None) or getattr(vars(type(inner)).get("__call__"), "__code__", None)
    tips = []
    if code is not None and "convert" in code.co_names:
        tips.append('if it is there for convert("RGB"): leave it out, every image is RGB already')
    if inspect.isroutine(inner):
        return (*tips, f"write a class in its place, with __call__ and {_DRAW}, as docs/extending.md shows")
    return (*tips, _GIVE_DRAW)


def drawn_by_library(transform: Any) -> tuple[Any, ...]:
    """The members of an albumentations transform, also of a wrapped one, that it draws before an image is decoded."""
    is_wrapped = type(transform).__module__ == "fastpipe.transforms.albumentations"
    return drawn_by_itself(transform.transform if is_wrapped else transform)


def _about_albumentations(transform: Any, why: str) -> tuple[str, str, tuple[str, ...]]:
    if drawn_by_itself(transform):
        return "albumentations", f"{why}: it is called sample by sample", ()
    first = next(iter(getattr(transform, "transforms", ())), transform)
    reason = f"{why}, and its beginning isn't planned: of {type(first).__name__}, {why_not(first)}"
    return "albumentations", reason, ("where the order doesn't matter, put crops and flips first: these are planned",)
