"""Builds torchvision's transform for one of fastpipe's: class by class, with the same attributes."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from fastpipe.interop.graph_breaks import shortened
from fastpipe.transforms.converted import seen_through
from fastpipe.transforms.multi_view import MultiView


def mirror(transform: Any, notes: list[str]) -> Any:
    """Rebuilds a transform of torchvision's classes, which have the same attributes, in v1 and in v2.

    A transform that isn't exactly of a class of fastpipe's is used as it is; unless it is torchvision's, `notes` gets a
    sentence about it.
    """
    transform = seen_through(transform)
    kind = type(transform)
    if kind is MultiView:
        views = [mirror(one, notes) for one in transform.transforms]
        return _PlainViews(views if isinstance(transform.transform, list) else views[0], transform.n)
    if kind is torch.nn.Sequential:
        return torch.nn.Sequential(*(mirror(member, notes) for member in transform))
    source, target = (_class_like(kind, library) for library in ("fastpipe.transforms", "torchvision.transforms"))
    if target is kind:
        return transform
    if target is None or source is not kind:
        notes.append(f"{shortened(transform)} has no counterpart in torchvision: it runs as it is on both sides")
        return transform
    if _is_altered(transform):
        notes.append(f"{shortened(transform)} has a method or hook of its own: it runs as it is on both sides")
        return transform
    twin = object.__new__(target)
    vars(twin).update(vars(transform))
    members = getattr(transform, "transforms", None)
    if isinstance(members, torch.nn.ModuleList):
        modules = torch.nn.ModuleList([mirror(member, notes) for member in members])
        twin._modules = {**transform._modules, "transforms": modules}
    elif isinstance(members, (list, tuple)):
        twin.transforms = [mirror(member, notes) for member in members]
    return twin


class _PlainViews(MultiView):
    """A `MultiView` that calls its transforms as they are, as torchvision's can't become programs."""

    def __call__(self, img: object) -> list[object]:
        return [view(img) for view in self._each()]


def _class_like(kind: type, library: str) -> Any:
    """The class of the same name in a library's transforms, v2's for a class of v2; None if there is none."""
    version = ".v2" if ".transforms.v2" in kind.__module__ else ""
    return getattr(importlib.import_module(library + version), kind.__name__, None)


def _is_altered(transform: object) -> bool:
    hooks = getattr(transform, "_forward_hooks", None) or getattr(transform, "_forward_pre_hooks", None)
    return bool(hooks) or any(name in vars(transform) for name in _METHODS)


_METHODS = ("__call__", "forward", "get_params", "make_params", "transform")
