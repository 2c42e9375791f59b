"""Motions of albumentations' transforms: the size of the result, and the part of the image that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import albumentations as A
import numpy as np
from albumentations.augmentations.crops import functional as crop_functions
from albumentations.augmentations.geometric import functional as geometric_functions

from fastpipe.interop import Foreign
from fastpipe.interop.transforms.known_code import KnownCode
from fastpipe.types import Box, Size, Turn

Params: TypeAlias = Mapping[str, Any]
"""Drawn parameters, by albumentations' names."""


class Motion(NamedTuple):
    """How a transform with drawn parameters moves pixels."""

    size: Size  # height and width of the result
    crop: Box | None = None  # the part of the image that it reads; None for the whole image
    parameter: str = ""  # the name of the parameter with the crop's left, top, right and bottom
    turn: Turn | None = None  # the turn or flip, for a result of the same pixels
    resizes: bool = True  # a part of the result can't be made from a part of the crop
    refused: bool = False  # the crop isn't inside the image, so that albumentations raises when it is applied

    def needs(self, part: Box, size: Size) -> Box:
        """The part of an image of that size from which a part of the result is made."""
        if self.turn is not None:
            return part.turned_back(self.turn, self.size)
        if self.crop is None:
            return Box(0, 0, *size)
        if self.resizes:
            return self.crop
        return Box(self.crop.top + part.top, self.crop.left + part.left, part.height, part.width)

    def gives(self, held: Box, part: Box, size: Size) -> Box:
        """The part of the result made from the part `held` of the image, if ``part`` of the result is needed."""
        if self.turn is not None:
            swapped, rows_back, columns_back = self.turn
            inverse = (True, columns_back, rows_back) if swapped else self.turn
            return held.turned_back(inverse, size)
        return part if self.crop is not None and not self.resizes else Box(0, 0, *self.size)

    def local(self, params: Params, held: Box, part: Box, size: Size) -> Params:
        """The parameters for the part `held` of an image of that size."""
        if self.crop is None:
            return params
        box = self.needs(part, size)
        left, top = box.left - held.left, box.top - held.top
        return {**params, self.parameter: (left, top, left + box.width, top + box.height)}


def place(steps: Sequence[tuple[Motion, Size]], size: Size) -> tuple[Box, list[tuple[Box, Box]]]:
    """The part of an image of that size that a sequence of motions, each with its input's size, needs.

    Returns:
        The part; and for each motion, the part of its input that is decoded, and the part of its result that is needed.
    """
    wanted: list[Box] = []
    part = Box(0, 0, *(steps[-1][0].size if steps else size))
    for motion, gets in reversed(steps):
        wanted.append(part)
        part = motion.needs(part, gets)
    wanted.reverse()
    held, places = part, []
    for (motion, gets), wants in zip(steps, wanted, strict=True):
        places.append((held, wants))
        held = motion.gives(held, wants, gets)
    return part, places


# -- for each class: the motion for drawn parameters and an image's size

_STAYS = (False, False, False)


def _box(corners: Sequence[float], size: Size) -> Box | None:
    """Makes a box of left, top, right and bottom; None if it isn't inside the image, which albumentations refuses."""
    left, top, right, bottom = map(int, corners)
    box = Box(top, left, bottom - top, right - left)
    return box if box.height > 0 and box.width > 0 and box.inside(size) else None


def _cropped(transform: object, params: Params, size: Size) -> Motion:
    corners = params["crop_coords"]
    left, top, right, bottom = map(int, corners)
    result = Size(max(bottom - top, 0), max(right - left, 0))
    if params.get("pad_params") is not None:
        return Motion(result)
    box = _box(corners, size)
    return Motion(result, box, "crop_coords", resizes=False, refused=box is None)


def _cropped_and_resized(transform: Foreign, params: Params, size: Size) -> Motion:
    result = Size(*(transform.size if hasattr(transform, "size") else (transform.height, transform.width)))
    box = _box(params["crop_coords"], size)
    return Motion(result, box, "crop_coords", refused=box is None)


def _cropped_and_padded(transform: Foreign, params: Params, size: Size) -> Motion:
    result = size if transform.keep_size else Size(*params["result_shape"])
    corners = params["crop_params"]
    box = None if corners is None else _box(corners, size)
    return Motion(result, box, "crop_params", refused=box is None and corners is not None)


def _turned_by(transform: object, params: Params, size: Size) -> Motion:
    kind: object = type(transform)
    turn = _turn_of(kind, params.get("group_element"), params.get("factor"))
    return Motion(Size(size.width, size.height) if turn[0] else size, turn=turn)


@lru_cache(maxsize=64)
def _turn_of(kind: type, group_element: object, factor: object) -> Turn:
    """The turn of a class, found by applying it to an image of four pixels."""
    image = np.arange(4, dtype=np.uint8).reshape(2, 2)
    theirs = kind(p=1).apply(image, group_element=group_element, factor=factor)
    for swapped, rows_back, columns_back in product((False, True), repeat=3):
        turned = (image.T if swapped else image)[:: -1 if rows_back else 1, :: -1 if columns_back else 1]
        if np.array_equal(turned, theirs):
            return swapped, rows_back, columns_back
    raise LookupError(f"{kind.__name__} doesn't turn an image")


def _resized(transform: Foreign, params: Params, size: Size) -> Motion:
    return Motion(Size(transform.height, transform.width))


def _scaled_to_a_side(transform: object, params: Params, size: Size) -> Motion:
    return Motion(Size(*(max(1, round(side * params["scale"])) for side in size)))


def _scaled(transform: object, params: Params, size: Size) -> Motion:
    return Motion(Size(*(int(side * params["scale"]) for side in size)))


def _padded(transform: object, params: Params, size: Size) -> Motion:
    top, bottom, left, right = (params[f"pad_{side}"] for side in ("top", "bottom", "left", "right"))
    if not (top or bottom or left or right):
        return Motion(size, turn=_STAYS)
    return Motion(Size(size.height + top + bottom, size.width + left + right))


def _stays(transform: object, params: Params, size: Size) -> Motion:
    return Motion(size, turn=_STAYS)


MotionOf = Callable[[Foreign, Params, Size], Motion]

_PADDING = "get_padding_params", "adjust_padding_by_position"


def _function(name: str) -> object:
    return getattr(crop_functions, name, None) or getattr(geometric_functions, name, None)


def _known(name: str, fingerprint: str, motion: MotionOf, *functions: str) -> KnownCode:
    """A class that asks for an image's shape alone, with functions of albumentations' that it is made of."""
    return KnownCode(A, name, fingerprint, motion, tuple(map(_function, functions)))


_ENTRIES = (
    _known("AtLeastOneBBoxRandomCrop", "176c7feb04d55316", _cropped, "crop"),
    _known("BBoxSafeRandomCrop", "aa8094951c1bc396", _cropped, "crop", "get_crop_coords"),
    _known("CenterCrop", "564bd024c9dbdf9a", _cropped, "crop", "get_center_crop_coords", *_PADDING),
    _known("Crop", "21a8b4d50f352ada", _cropped, "crop", *_PADDING),
    _known("CropAndPad", "62a646429b7a7ebf", _cropped_and_padded, "crop", "crop_and_pad"),
    _known("D4", "a4b7a0a0a339997b", _turned_by),
    _known("HorizontalFlip", "f1f7bec3818ba44f", _turned_by),
    _known("LongestMaxSize", "a742627c1ff139af", _scaled_to_a_side, "resize"),
    _known("NoOp", "e4a6a0577479b2b4", _stays),
    _known("Pad", "dfc31e17176f8f77", _padded, "pad_with_params"),
    _known("PadIfNeeded", "b3091f76275692e5", _padded, "pad_with_params", *_PADDING),
    _known("RandomCrop", "3a2fd02a1121e12f", _cropped, "crop", "get_crop_coords", *_PADDING),
    _known("RandomCropFromBorders", "91e0def844a3f8c1", _cropped, "crop"),
    _known("RandomCropNearBBox", "2b13e7de4cd97bca", _cropped, "crop", "get_center_crop_coords"),
    _known(
        "RandomResizedCrop",
        "b8f535e650efe493",
        _cropped_and_resized,
        "crop",
        "get_crop_coords",
        "get_center_crop_coords",
        "resize",
    ),
    _known("RandomRotate90", "38c2a157b734051d", _turned_by),
    _known("RandomScale", "81e910f0f2821389", _scaled, "scale", "resize"),
    _known("RandomSizedBBoxSafeCrop", "c58f919b48799d74", _cropped_and_resized, "crop", "get_crop_coords", "resize"),
    _known("RandomSizedCrop", "ffa9e46c74a053d8", _cropped_and_resized, "crop", "get_crop_coords", "resize"),
    _known("Resize", "91a92bc16b89d64d", _resized, "resize"),
    _known("SmallestMaxSize", "c06d04e892fc4b08", _scaled_to_a_side, "resize"),
    _known("SquareSymmetry", "a4b7a0a0a339997b", _turned_by),
    _known("Transpose", "e1a73b6c77e7c399", _turned_by),
    _known("VerticalFlip", "a27b247a4631ecb6", _turned_by),
)
ENTRIES: dict[type, KnownCode] = {getattr(A, entry.name): entry for entry in _ENTRIES if hasattr(A, entry.name)}
"""The classes that ask for an image's shape alone: a `MotionOf` each."""
