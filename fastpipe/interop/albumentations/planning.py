"""Plans albumentations' transforms: those that only need an image's shape are drawn before the decoding.

albumentations' own code draws and computes everything, with its own generators. The transforms at the beginning of a
`Compose` get an image that has a shape but no pixels, and their work on pixels is recorded. Then the region that they
need is decoded, and they are applied to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import albumentations as A
import numpy as np
from albumentations.core import composition, transforms_interface, utils
from numpy.typing import NDArray

from fastpipe.interop import Foreign
from fastpipe.interop.albumentations.motions import ENTRIES, Motion, Params, place
from fastpipe.interop.albumentations.normalizing import is_normalize, normalized
from fastpipe.interop.albumentations.seeds import ONE_AT_A_TIME
from fastpipe.interop.transforms.known_code import has_code, member
from fastpipe.transforms.named_arrays import Pixels, pixels_of_array, pixels_of_arrays
from fastpipe.types import Size

Array: TypeAlias = NDArray[Any]
Data: TypeAlias = dict[str, Any]
"""The named values that a transform takes and returns."""

CONTAINERS = tuple(
    getattr(A, name)
    for name in ("Compose", "OneOf", "OneOrOther", "RandomOrder", "Sequential", "SomeOf")
    if hasattr(A, name)
)
"""Containers whose own code runs on stand-ins of their members, which record their work on pixels."""

_STACKED, _NOT_PLANNED = "masks", frozenset({"images", "volume", "volumes", "mask3d", "masks3d"})


def run(transform: Foreign, data: Data) -> Data:
    """Computes ``transform(**data)``, where `Pixels` may stand for arrays; threads take turns."""
    if not core_is_known():
        windows = {}
    else:
        named = {name: _pixels(transform, name, value) for name, value in data.items()}
        windows = {name: pixels for name, pixels in named.items() if pixels is not None}
    with ONE_AT_A_TIME:
        call = Call(windows) if windows and _fits(transform, data, windows) else None
        root = None if call is None else call.root(transform)
        if call is None or root is None:
            whole = {name: value.whole() if isinstance(value, Pixels) else value for name, value in data.items()}
            results: Data = transform(**whole)
            return results
        return call.result(root(**{**data, **call.blanks()}))


def planned_members(transform: Foreign) -> tuple[Foreign, ...]:
    """The leading transforms that are drawn before the decoding; may be empty."""
    members = transform.transforms if type(transform) is A.Compose else [transform]
    return tuple(members[: _planned_count(members)])


# -- which transforms are planned


def why_not(kind: type) -> str:
    """Why an object of a class of albumentations isn't planned."""
    if not core_is_known() or (kind in ENTRIES and not is_known(kind)):
        return f"this albumentations, {A.__version__}, has other code than the one that fastpipe knows"
    if kind in ENTRIES or kind in CONTAINERS:
        return "it has members or options that are not planned"
    return "its result isn't known before albumentations has run it on the pixels"


@lru_cache(maxsize=128)
def is_known(kind: type) -> bool:
    """True if a class only needs an image's shape: it has an entry, and the code for which the entry was written."""
    entry = ENTRIES.get(kind)
    return entry is not None and has_code((*methods_of(kind), *entry.functions), entry.fingerprint)


def motion_of(transform: Foreign, params: Params, size: Size) -> Motion:
    """The motion of a planned transform with drawn parameters, on an image of a size."""
    motion: Motion = ENTRIES[type(transform)].recipe(transform, params, size)
    return motion


@lru_cache(maxsize=1)
def core_is_known() -> bool:
    """True if the code with which this albumentations calls transforms is the one that this module was written for."""
    return has_code(_core_functions(), _CORE)


_NEITHER = ("apply_to_bboxes", "apply_to_images", "apply_to_keypoints", "apply_to_volume", "apply_to_mask3d")


def methods_of(kind: type) -> Iterator[object]:
    """Yields the methods of a class and its bases that draw, or that process images and masks."""
    for base in kind.__mro__:
        if base is object or base.__module__.startswith("albumentations.core"):  # covered by `_core_functions`
            continue
        for name, value in sorted(vars(base).items()):
            function = inspect.unwrap(value.__func__ if isinstance(value, staticmethod) else value)
            if inspect.isfunction(function) and not name.startswith(("__", *_NEITHER, "apply_to_masks3d")):
                yield function


def _core_functions() -> Iterator[object]:
    """Yields the functions involved in a transform's call; None for each that other versions lack."""
    for home, names in _CORE_FUNCTIONS:
        yield from (member(home, name) for name in names.split())


_CORE_FUNCTIONS = (
    (member(transforms_interface, "BasicTransform"), "__call__ apply_with_params should_apply update_transform_params"),
    (member(transforms_interface, "BasicTransform"), "get_params get_params_dependent_on_data"),
    (member(transforms_interface, "DualTransform"), "apply_to_mask apply_to_masks"),
    (member(A, "NoOp"), "apply"),
    (member(A, "Compose"), "__call__ preprocess _preprocess_masks postprocess"),
    (member(composition, "BaseCompose"), "check_data_post_transform _track_transform_params"),
    *((kind, "__call__") for kind in CONTAINERS[1:]),
    (utils, "ensure_contiguous_output get_shape get_image_shape"),
)


_CORE = "ee7b795ed8b92692"


def _planned_count(members: Foreign) -> int:
    if not core_is_known():
        return 0
    return next((number for number, member in enumerate(members) if not is_planned(member)), len(members))


def is_planned(transform: Foreign) -> bool:
    """True if a transform, or all members of a container, need an image's shape alone."""
    kind: Foreign = type(transform)
    if kind in CONTAINERS:
        members = transform.transforms
        return not transform.replay_mode and len(members) > 0 and all(map(is_planned, members))
    if not is_known(kind) or transform.replay_mode or transform.deterministic:
        return False
    return METHODS.isdisjoint(vars(transform))


METHODS = frozenset(name for name in dir(A.DualTransform) if inspect.isfunction(getattr(A.DualTransform, name)))
"""Methods that change a transform's work if an object has them as attributes."""


# -- pixels


def _pixels(transform: Foreign, name: str, value: object) -> Pixels | None:
    """Wraps a named value with pixels, which are only read once the needed region is known; None for other values."""
    if isinstance(value, Pixels):
        return value
    kind = transform._additional_targets.get(name, name)
    if kind in ("image", "mask") and isinstance(value, np.ndarray) and value.ndim in (2, 3):
        return pixels_of_array(value)
    if kind == _STACKED and isinstance(value, np.ndarray) and value.ndim in (3, 4):
        return pixels_of_array(value, several=True)
    if kind == _STACKED and isinstance(value, (list, tuple)) and value:
        shapes = {mask.shape if isinstance(mask, np.ndarray) else () for mask in value}
        return pixels_of_arrays(value) if len(shapes) == 1 and len(shapes.pop()) in (2, 3) else None
    return None


def _fits(transform: Foreign, data: Mapping[str, object], windows: Mapping[str, Pixels]) -> bool:
    """True if all windows have the image's size, and no other value has pixels."""
    kinds = {name: transform._additional_targets.get(name, name) for name in data}
    if "image" not in windows or not _NOT_PLANNED.isdisjoint(kinds.values()):
        return False
    others = [data[name] for name, kind in kinds.items() if kind in ("image", "mask", _STACKED) and name not in windows]
    if not all(value is None or (isinstance(value, (list, tuple)) and not value) for value in others):
        return False
    if type(transform) is not A.Compose and any(pixels.as_list for pixels in windows.values()):
        return False
    return all(pixels.size == windows["image"].size for pixels in windows.values())


class _Noted(NamedTuple):
    """The recorded work of a transform on pixels."""

    transform: Foreign
    params: Params  # its drawn parameters
    motion: Motion  # its motion for these parameters
    size: Size  # the size of its input image


class Call:
    """One call of a transform, whose pixels are decoded later.

    Args:
        windows: the values with pixels, by name.
    """

    def __init__(self, windows: Mapping[str, Pixels]) -> None:
        self.windows = windows
        self.noted: list[_Noted] = []
        self.size = Size(*windows["image"].size)
        self._made = False
        self._last: Foreign = None

    def root(self, transform: Foreign) -> Container | _StandIn | None:
        """Makes a stand-in for the transform whose leading members record their work; None if there are none."""
        if type(transform) is not A.Compose:
            return stand_in(transform, self) if _planned_count([transform]) else None
        members = transform.transforms
        count = _planned_count(members)
        if not count:
            return None
        first = [stand_in(member, self) for member in members[:count]]
        self._last = first[-1]
        rest = (_Normalize(member, self) if _is_faster(member) else member for member in members[count:])
        return Container(transform, self, [*first, *rest])

    def blanks(self) -> dict[str, Array]:
        return {name: self.blank(name) for name in self.windows}

    def blank(self, name: str) -> Array:
        """An array with the current shape of a named one, in one byte of memory."""
        pixels = self.windows[name]
        if pixels.several:
            shape = (pixels.shape[0], *self.size, *pixels.shape[3:])
        else:
            shape = (*self.size, *pixels.shape[2:])
        array: Array = np.ndarray(shape, np.uint8, b"\0", strides=(0,) * len(shape))
        return array

    def note(self, transform: object, params: Params) -> None:
        motion = motion_of(transform, params, self.size)
        self.noted.append(_Noted(transform, params, motion, self.size))
        self.size = motion.size
        if motion.refused or min(motion.size) < 1:
            self._pixels("image")  # raises albumentations' error

    def data_after(self, member: _StandIn, data: Data) -> Data:
        """The data after a member; with pixels after the last member that records."""
        return self._with_pixels(data) if member is self._last else data

    def _with_pixels(self, data: Data) -> Data:
        """The data, with pixels to which the recorded transforms were applied."""
        if self._made:
            return data
        self._made = True
        return {name: self._pixels(name) if name in self.windows else value for name, value in data.items()}

    def result(self, data: Data) -> Data:
        """The data that the call returns."""
        data = self._with_pixels(data)  # in case the call ended before the last recording member
        for name, pixels in self.windows.items():
            if pixels.as_list:
                data[name] = list(data[name])
        return data

    def _pixels(self, name: str) -> Array:
        pixels = self.windows[name]
        box, places = place([(one.motion, one.size) for one in self.noted], Size(*pixels.size))
        array: Array = pixels.load(box)
        loaded = array
        for one, (held, part) in zip(self.noted, places, strict=True):
            params = one.motion.local(one.params, held, part, one.size)
            array = utils.ensure_contiguous_output(array)
            array = utils.ensure_contiguous_output(one.transform._key2func[name](array, **params))
        return np.array(array) if np.may_share_memory(array, loaded) else array


class _StandIn:
    """Stands for an object of albumentations, whose own code runs except for methods that a subclass replaces."""

    __slots__ = ("_call", "_original")
    _call: Call
    _original: Foreign

    def __init__(self, original: object, call: Call) -> None:
        set_ = object.__setattr__
        set_(self, "_original", original)
        set_(self, "_call", call)

    @property  # type: ignore[misc]
    def __class__(self) -> Foreign:  # albumentations records its name
        return type(self._original)

    def __getattr__(self, name: str) -> Foreign:
        return getattr(self._original, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._original, name, value)

    def __call__(self, *args: object, **data: object) -> Data:
        return self._call.data_after(self, type(self._original).__call__(self, *args, **data))


class Container(_StandIn):
    """Stands for a container, with stand-ins as its members."""

    __slots__ = ("transforms",)

    def __init__(self, original: object, call: Call, members: list[Foreign]) -> None:
        super().__init__(original, call)
        object.__setattr__(self, "transforms", members)


class _Member(_StandIn):
    """Stands for a transform: records its work on pixels; other values are processed by its own code."""

    __slots__ = ()

    def apply_with_params(self, params: Data, *args: object, **data: object) -> Data:
        transform, call = self._original, self._call
        call.note(transform, params)
        windows = call.windows
        other = {name: value for name, value in data.items() if name not in windows}
        results = transform.apply_with_params(params, **other) if other else other
        return {name: call.blank(name) if name in windows else results[name] for name in data}


def stand_in(transform: Foreign, call: Call) -> _StandIn:
    """Stands for a transform, or for a container with stand-ins as its members."""
    if type(transform) in CONTAINERS:
        return Container(transform, call, [stand_in(one, call) for one in transform.transforms])
    return _Member(transform, call)


# -- at the end


def _is_faster(transform: Foreign) -> bool:
    return is_normalize(transform) and not transform.deterministic


class _Normalize(_StandIn):
    """`Normalize` by the core for RGB images: faster than albumentations, with the same floats."""

    __slots__ = ()

    def apply_with_params(self, params: Data, *args: object, **data: object) -> Data:
        image = normalized(data.get("image"), self.mean_np, self.denominator)
        if image is not None:
            data["image"] = None
        results: Data = self._original.apply_with_params(params, *args, **data)
        return results if image is None else {**results, "image": image}
