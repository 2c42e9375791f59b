"""Asks whether an object is an image, an array or a tensor, without importing the library that has the class."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from PIL import Image
    from typing_extensions import TypeIs


def is_pillow_image(thing: object) -> TypeIs[Image.Image]:
    """True for an image of Pillow's."""
    return _is_a("PIL.Image", "Image", thing)


def is_array(thing: object) -> TypeIs[NDArray[np.generic]]:
    """True for numpy's arrays, of any class."""
    return _is_a("numpy", "ndarray", thing)


def is_tensor(thing: object) -> TypeIs[torch.Tensor]:
    """True for torch's tensors, of any class."""
    return _is_a("torch", "Tensor", thing)


def _is_a(module: str, name: str, thing: object) -> bool:
    kind: type | tuple[()] = getattr(sys.modules.get(module), name, ())
    return issubclass(type(thing), kind)  # not `isinstance`, which asks people's objects for ``__class__``
