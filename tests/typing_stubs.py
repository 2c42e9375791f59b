"""The types of the functions and of v2's names, for type checkers, made of the signatures that are there when they run.

Run as a program, ``python tests/typing_stubs.py``, it writes the stubs; the tests ask for the same.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchvision_here import module

import fastpipe.transforms.functional as v1
import fastpipe.transforms.v2 as v2
import fastpipe.transforms.v2.functional as v2_functional

PACKAGE = Path(v1.__file__).parents[2]
HEAD = '''# ruff: noqa
"""Types for type checkers; written by tests/typing_stubs.py."""

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any, Literal, TypeAlias, TypeVar

import PIL.Image
import torch
from torchvision import tv_tensors
from torchvision.transforms import AutoAugmentPolicy as _TorchvisionPolicy
from torchvision.transforms import InterpolationMode as _TorchvisionMode

from fastpipe.ops.interpolation import InterpolationMode as InterpolationMode
from fastpipe.transforms.autoaugment import AutoAugmentPolicy as AutoAugmentPolicy
from fastpipe.types import Array, Image

_Image = TypeVar("_Image", bound=Image)
_Interpolation: TypeAlias = InterpolationMode | _TorchvisionMode | int
_Policy: TypeAlias = AutoAugmentPolicy | _TorchvisionPolicy
_Function: TypeAlias = Callable[..., Any]
'''
"""Every name of torchvision's is Any to a type checker that doesn't find torchvision, or types in it."""
NAMES = {
    **{kind: kind.__name__ for kind in (bool, dict, float, int, str, type, collections.abc.Sequence)},
    type(None): "None",
    inspect.Parameter.empty: "Any",
    Any: "Any",
    None: "None",
    object: "object",
}
FROM_NUMBERS = {list[int]: "int | Sequence[int]", list[float]: "float | Sequence[float]"}
"""Parameters that TorchScript knows as lists of numbers; the functions also take one number."""
UNTYPED = {
    ("pil_to_tensor", "pic"): "PIL.Image.Image | Array",
    ("to_grayscale", "img"): "_Image",
    ("to_grayscale", "num_output_channels"): "int",
    ("to_grayscale", "return"): "_Image",
    ("to_pil_image", "pic"): "torch.Tensor | Array",
    ("to_pil_image", "mode"): "str | None",
    ("to_pil_image", "return"): "PIL.Image.Image",
    ("to_tensor", "inpt"): "PIL.Image.Image | Array",
}
"""Arguments and results for which torchvision's signatures have no type, or Any."""


HOMES = {
    "fastpipe.ops.interpolation": {"InterpolationMode": "_Interpolation"},
    "numbers": {"Number": "Number"},
    "numpy": {"ndarray": "Array"},
    "PIL.Image": {"Image": "PIL.Image.Image"},
    "torch": {"Tensor": "torch.Tensor", "dtype": "torch.dtype"},
    "torch.nn.modules.container": {"ModuleList": "torch.nn.ModuleList"},
    "torchvision.transforms.autoaugment": {"AutoAugmentPolicy": "_Policy"},
    "torchvision.transforms.functional": {"InterpolationMode": "_Interpolation"},
    "torchvision.tv_tensors._bounding_boxes": {
        name: f"tv_tensors.{name}" for name in ("BoundingBoxes", "BoundingBoxFormat")
    },
    "torchvision.tv_tensors._image": {"Image": "tv_tensors.Image"},
    "torchvision.tv_tensors._keypoints": {"KeyPoints": "tv_tensors.KeyPoints"},
}
"""Classes in signatures, by their module, as the stubs name them."""


def typed(annotation: Any) -> str:
    """An annotation as a stub has it; ``Any`` for a class that `HOMES` doesn't have."""
    if annotation is collections.abc.Sequence:
        return "Sequence[Any]"
    if isinstance(annotation, typing.Hashable) and annotation in NAMES:
        return NAMES[annotation]
    origin, given = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        found = list(dict.fromkeys(FROM_NUMBERS.get(one) or typed(one) for one in given))
        return "Any" if "Any" in found else " | ".join(found)
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, given))}]"
    if origin in (list, tuple, dict, collections.abc.Sequence):
        return f"{NAMES.get(origin, getattr(origin, '__name__', 'Any'))}[{', '.join(map(typed, given))}]"
    if origin is collections.abc.Callable or annotation is typing.Callable:
        return "_Function"
    home, name = getattr(annotation, "__module__", ""), getattr(annotation, "__name__", "")
    return HOMES.get(home, {}).get(name, "Any")


def parameters(function: Any, *, image: str = "", method: bool = False) -> str:
    shown = ["self"] if method else []
    given = list(inspect.signature(function, eval_str=True).parameters.values())[1 if method else 0 :]
    starred = False
    for number, one in enumerate(given):
        kind = FROM_NUMBERS.get(one.annotation) or typed(one.annotation)
        kind = UNTYPED.get((function.__name__, one.name), kind) if kind == "Any" else kind
        kind = "_Image" if number == 0 and image and one.name == image else kind
        if one.name == "fill" and kind == "int | float":
            kind = "float | Sequence[float]"
        if one.kind is one.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            starred = True
            shown.append(f"{'*' if one.kind is one.VAR_POSITIONAL else '**'}{one.name}: {kind}")
            continue
        if one.default is None and "None" not in kind and kind != "Any":
            kind += " | None"
        shown.append(f"{one.name}: {kind}{'' if one.default is one.empty else ' = ...'}")
    return ", ".join(shown)


def function(name: str, made: Any) -> str:
    signature = inspect.signature(made, eval_str=True)
    first = next(iter(signature.parameters.values()), None)
    takes_image = first is not None and first.name in ("img", "image", "inpt", "video") and first.annotation is not Any
    given = typed(signature.return_annotation)
    given = UNTYPED.get((name, "return"), given) if given == "Any" else given
    is_image = takes_image and given == "torch.Tensor"
    several = takes_image and given.startswith("tuple[torch.Tensor")
    result = "_Image" if is_image else given.replace("torch.Tensor", "_Image") if several else given
    image = first.name if first is not None and (is_image or several) else ""
    if first is not None and takes_image and not image:
        return f"def {name}({parameters(made).replace('torch.Tensor', 'Image', 1)}) -> {given}: ...\n"
    return f"def {name}({parameters(made, image=image)}) -> {result}: ...\n"


def functions(library: Any) -> str:
    lines = [HEAD, "\n"]
    for name in sorted(library.__all__):
        made = getattr(library, name)
        if inspect.isroutine(made):
            lines.append(function(name, made))
        elif name != "InterpolationMode":
            lines.append(f"{name}: Any\n")
    private = (name for name, value in vars(library).items() if name[0] == "_" != name[1] and inspect.isroutine(value))
    lines += [function(name, getattr(library, name)) for name in sorted(private) if library is v1]
    return "".join(lines)


def classes() -> str:
    lines = [HEAD, "from fastpipe.transforms.v2 import functional as functional\n\n"]
    theirs = module("torchvision.transforms.v2")
    kinds = [name for name in v2.__all__ if hasattr(getattr(v2, name), "forward")]
    lines.append("class Transform(torch.nn.Module):\n    def __call__(self, *inputs: Any) -> Any: ...\n")
    lines.append("    def forward(self, *inputs: Any) -> Any: ...\n")
    lines.append("    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]: ...\n")
    lines.append("    def transform(self, inpt: Any, params: dict[str, Any]) -> Any: ...\n")
    lines.append("    def __getattr__(self, name: str) -> Any: ...\n\n")
    for name in sorted({*kinds} - {"Transform"}):
        init = parameters(getattr(theirs, name).__init__, method=True)
        lines.append(f"class {name}(Transform):\n    def __init__({init}) -> None: ...\n")
        members = "    transforms: Any\n" if name in ("Compose", "RandomApply", "RandomChoice", "RandomOrder") else ""
        lines.append(f"{members}\n")
    lines += [function(name, getattr(v2, name)) for name in sorted(v2.__all__) if inspect.isfunction(getattr(v2, name))]
    return "".join(lines)


def stubs() -> Iterator[tuple[Path, str]]:
    yield PACKAGE / "transforms/functional/__init__.pyi", functions(v1)
    yield PACKAGE / "transforms/v2/functional.pyi", functions(v2_functional)
    yield PACKAGE / "transforms/v2/__init__.pyi", classes()


if __name__ == "__main__":
    for path, text in stubs():
        path.write_text(text, encoding="utf-8")
