"""Plans torchvision's v2 transforms: their own code draws on an image without pixels, as in fastpipe's v2."""

from __future__ import annotations

import torchvision.transforms.v2 as theirs

from fastpipe.transforms.adapters import planned


class _Members:
    """The members of a container as adapters, which torchvision's code calls with images without pixels."""

    def __get__(self, instance: object, owner: type | None = None) -> object:
        own = vars(instance)
        members = own["transforms"] if "transforms" in own else own["_modules"]["transforms"]
        return [planned(member) for member in members]

    def __set__(self, instance: object, value: object) -> None:
        vars(instance)["transforms"] = value


_CONTAINERS = ("Compose", "RandomApply", "RandomChoice", "RandomOrder")


def _classes() -> dict[type, type]:
    from fastpipe.transforms import v2
    from fastpipe.transforms.v2._planned import planned_class

    def adapter_class(base: type) -> type:
        members = {"transforms": _Members()} if base.__name__ in _CONTAINERS else {}
        return planned_class(base, __name__, __slots__=("original",), **members)

    adapters = {}
    for name in theirs.__dict__:
        base, ours = getattr(theirs, name), getattr(v2, name, None)
        if isinstance(ours, type) and issubclass(ours, theirs.Transform) and ours is not base:
            adapters[base] = adapter_class(base)
            if name in _CONTAINERS:  # our containers may hold torchvision's transforms
                adapters[ours] = adapters[base]
    return adapters


TABLE: dict[type, type] = {}
"""The class that draws for each of torchvision's; empty with a torchvision that is too old for fastpipe's v2."""

_too_old = ""

try:
    TABLE |= _classes()
except ImportError as error:
    _too_old = str(error)


def why_not(kind: type) -> str:
    """Why an object of a class of torchvision's isn't planned."""
    return _too_old or "it draws or calculates in a way that fastpipe doesn't know"
