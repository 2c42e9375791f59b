"""``Normalize`` by the core, alone and with the ``ToTensorV2`` after it."""

from __future__ import annotations

import sys
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastpipe.core.factors import normalized_by_factor
from fastpipe.interop import Foreign
from fastpipe.interop.transforms.known_code import has_code, member
from fastpipe.plain_way import plainly

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeIs

Pixels: TypeAlias = NDArray[np.uint8]
Floats: TypeAlias = NDArray[np.float32]

COMPOSITION, PIXELS, PYTORCH = (
    "albumentations.core.composition",
    "albumentations.augmentations.pixel.transforms",
    "albumentations.pytorch.transforms",
)
"""The modules of ``Compose``, ``Normalize`` and ``ToTensorV2``."""

_NORMALIZE = "9e5c6fe19016e82a"
"""Fingerprint of the functions of albucore with which ``Normalize`` computes."""
_PAIR = "202d13e9d165f38d"
"""Fingerprint of albumentations' code from the input of ``Normalize`` to the tensor that `Compose` returns."""
_BETWEEN = (
    (COMPOSITION, "Compose.__call__ Compose.check_data_post_transform Compose._track_transform_params"),
    (COMPOSITION, "Compose.postprocess BasicTransform.__call__ BasicTransform.apply_with_params"),
    (COMPOSITION, "BasicTransform.should_apply BasicTransform.get_params_dependent_on_data"),
    (PIXELS, "Normalize.apply"),
    (PYTORCH, "ToTensorV2.apply"),
    ("albumentations.core.utils", "get_shape"),
)


def takes(img: object, mean: object, factor: object) -> bool:
    """True for a uint8 array ``(H, W, 3)``, and means and factors of its channels."""
    return _is_photo(img) and _has_channels(mean) and _has_channels(factor)


def normalized(img: object, mean: object, factor: object) -> Floats | None:
    """``(img - mean) * factor``; None for other images than `takes` accepts, without pixels, or without the core."""
    if not (_is_photo(img) and _has_channels(mean) and _has_channels(factor)):
        return None
    return normalized_by_factor(img, mean, factor)


def _is_photo(img: object) -> TypeIs[Pixels]:
    return type(img) is np.ndarray and img.dtype == np.uint8 and img.shape[2:] == (3,)


def _has_channels(values: object) -> TypeIs[Floats]:
    return type(values) is np.ndarray and values.dtype == np.float32 and values.shape == (3,)


def is_known_normalize(normalize: object) -> bool:
    """True if albucore's ``normalize`` is the one that `normalized` was written for."""
    home = sys.modules.get(getattr(normalize, "__module__", ""))
    return has_code([member(home, name) for name in ("normalize", "normalize_lut")], _NORMALIZE)


class Pair(NamedTuple):
    """A ``Normalize`` and the ``ToTensorV2`` after it."""

    normalize: Foreign
    to_tensor: Foreign

    def plainly(self, pixels: Pixels, mean: Floats, factor: Floats) -> torch.Tensor:
        """The tensor of pixels, made by albumentations' own functions."""
        with plainly():
            tensor: torch.Tensor = self.to_tensor.apply(sys.modules[PIXELS].normalize(pixels, mean, factor))
            return tensor


def is_normalize(transform: Foreign) -> bool:
    """True for a ``Normalize`` by fixed means and deviations."""
    module = sys.modules.get(PIXELS)
    return module is not None and type(transform) is module.Normalize and transform.normalization == "standard"


def has_three_channels(normalize: Foreign) -> bool:
    """True for a ``Normalize`` with a mean and a deviation of each of three channels."""
    return _has_channels(normalize.mean_np) and _has_channels(normalize.denominator)


def is_to_tensor(transform: object) -> bool:
    """True for a ``ToTensorV2``."""
    module = sys.modules.get(PYTORCH)
    return module is not None and type(transform) is module.ToTensorV2


def last_pair(compose: Foreign) -> Pair | None:
    """The last pair of a `Compose`; None for a subclass, or if the members were changed on their instances."""
    composition = sys.modules.get(COMPOSITION)
    if composition is None or type(compose) is not composition.Compose or not pair_is_known():
        return None
    for pair in reversed([*pairwise(compose.transforms)]):
        normalize, to_tensor = pair
        if is_to_tensor(to_tensor) and type(normalize) is sys.modules[PIXELS].Normalize:
            return Pair(*pair) if is_normalize(normalize) and all(map(is_as_made, pair)) else None
    return None


def is_as_made(transform: object) -> bool:
    """True if no method of the instance is replaced, so that it does what its class does."""
    own = vars(transform)
    return "apply_with_params" not in own and own["_key2func"].get("image") == getattr(transform, "apply", None)


@lru_cache(maxsize=1)
def pair_is_known() -> bool:
    """True if this albumentations makes tensors with the code that this module was written for."""
    return has_code(_between(), _PAIR) and is_known_normalize(member(sys.modules.get(PIXELS), "normalize"))


def _between() -> list[object]:
    """The functions from the input of ``Normalize`` to the tensor; None for each that this version lacks."""
    return [member(sys.modules.get(home), path) for home, paths in _BETWEEN for path in paths.split()]
