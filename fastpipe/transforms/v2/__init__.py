"""torchvision's v2 transforms: same names, parameters, random numbers and results, for images, boxes, masks and video.

``from fastpipe.transforms import v2`` replaces ``from torchvision.transforms import v2``, its module ``functional``
included. The classes derive from torchvision's, which must be installed (0.21 or later). In a dataset of fastpipe they
are drawn before the image is decoded, and fastpipe's programs make the pixels; the same holds for loaded PIL images, in
classes and functions.

Unlike torchvision's they also take uint8 arrays ``(H, W)`` and ``(H, W, C)`` as images, like `fastpipe.transforms`: the
result for an array is an array.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

try:
    import torchvision.transforms.v2 as _theirs
except (ImportError, RuntimeError) as error:  # RuntimeError for a torchvision that was built for another torch
    raise ImportError(
        f"fastpipe.transforms.v2 is made of torchvision's classes, and torchvision can't be imported ({error}): "
        "pip install 'torchvision>=0.21', in the version that fits your torch. fastpipe.transforms, the v1 transforms, "
        "needs no torchvision."
    ) from error
if not hasattr(_theirs.Transform, "make_params"):
    raise ImportError(
        "fastpipe.transforms.v2 is made of the classes of torchvision 0.21 or later, and torchvision "
        f"{version('torchvision')} is installed: install a newer one, with the torch that fits it. "
        "fastpipe.transforms, the v1 transforms, works with this one."
    )

from fastpipe.ops.interpolation import InterpolationMode
from fastpipe.transforms.autoaugment import AutoAugmentPolicy
from fastpipe.transforms.v2 import functional
from fastpipe.transforms.v2._planned import planned_class

if TYPE_CHECKING:
    from torchvision.transforms.v2 import *  # noqa: F403


def check_type(obj: object, types_or_checks: object) -> bool:
    """True if an object is an instance of any of some classes, or any of some functions returns True for it.

    Args:
        obj: any object.
        types_or_checks: classes, and functions of the object.
    """
    return bool(_theirs.check_type(obj, types_or_checks))


def has_any(flat_inputs: list[Any], *types_or_checks: object) -> bool:
    """True if any part of a sample is an instance of one of the classes, or one of the functions accepts it."""
    return bool(_theirs.has_any(flat_inputs, *types_or_checks))


def has_all(flat_inputs: list[Any], *types_or_checks: object) -> bool:
    """True if each of the classes has an instance, and each function accepts a value, among a sample's parts."""
    return bool(_theirs.has_all(flat_inputs, *types_or_checks))


_OWN = {"AutoAugmentPolicy": AutoAugmentPolicy, "InterpolationMode": InterpolationMode, "functional": functional}
_OWN |= {one.__name__: one for one in (check_type, has_all, has_any)}

__all__ = [name for name in vars(_theirs) if not name.startswith("_")]

for _name in __all__:
    _value = _OWN.get(_name) or getattr(_theirs, _name)
    if isinstance(_value, type) and issubclass(_value, _theirs.Transform) and _value is not _theirs.Transform:
        _value = planned_class(_value, __name__)
    globals()[_name] = _value


def __getattr__(name: str) -> Any:
    # Names that aren't public are torchvision's; libraries use some of them.
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return getattr(_theirs, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*__all__, "functional"})
