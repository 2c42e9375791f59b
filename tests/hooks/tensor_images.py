"""Images of ``torchvision.io`` with and without pixels, and everything that can be seen of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision_io_here
from PIL import Image
from torchvision_here import module, torchvision

from fastpipe.plain_way import plainly

v1, v2, F = map(module, ("torchvision.transforms", "torchvision.transforms.v2", "torchvision.transforms.v2.functional"))
tv_tensors, tio = torchvision.tv_tensors, torchvision.io

MARKS = [
    pytest.mark.skipif(bool(torchvision_io_here.why_not()), reason=torchvision_io_here.why_not()),
    pytest.mark.usefixtures("hooks_without_checks"),
]
"""The ``pytestmark`` of modules whose tests open these images."""

PHOTO = corpus.jpeg(97, 131, "420", seed=5)
FILES = {name: data for name, data in corpus.files().items() if "huge" not in name}

KINDS = {
    "4:4:4": corpus.jpeg(40, 50, "444"),
    "4:2:2": corpus.jpeg(41, 51, "422"),
    "4:1:1": corpus.jpeg(41, 51, "411"),
    "gray": corpus.save(Image.fromarray(corpus.photo(40, 50)).convert("L"), "JPEG"),
    "progressive": corpus.save(corpus.photo(40, 50), "JPEG", progressive=True),
    "RGB": corpus.save(corpus.photo(40, 50), "JPEG", keep_rgb=True),
    "PNG": corpus.save(corpus.photo(40, 50), "PNG"),
    "gray PNG": corpus.save(Image.fromarray(corpus.photo(40, 50)).convert("L"), "PNG"),
}


def as_tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def opened(data: bytes = PHOTO, **options: Any) -> Any:
    return tio.decode_image(as_tensor(data), **options)


def plainly_opened(data: bytes = PHOTO, **options: Any) -> Any:
    with plainly():
        return opened(data, **options)


def shown(value: Any) -> Any:
    """Everything that can be seen of a value."""
    if isinstance(value, torch.Tensor):
        facts = value.dtype, value.shape, value.stride(), value.requires_grad, value.is_inference(), value.tolist()
        return *facts, type(value)  # behind a look
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.strides, value.tobytes()
    if isinstance(value, Image.Image):
        return value.mode, value.size, value.tobytes()
    if isinstance(value, (list, tuple)):
        return type(value), [shown(one) for one in value]
    if isinstance(value, dict):
        return {name: shown(one) for name, one in value.items()}
    return value


def outcome(action: Callable[[], Any]) -> Any:
    """The result or the error of a call."""
    try:
        return shown(action())
    except Exception as error:
        return type(error), str(error)
