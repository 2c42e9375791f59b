"""A transform that isn't torchvision's, for the tools that compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from fastpipe import transforms as T


@pytest.fixture
def off_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes an ``ElasticTransform`` some of whose values are off by one."""
    plain = T.functional.elastic_transform

    def changed(image: Any, *arguments: Any, **options: Any) -> Any:
        result = plain(image, *arguments, **options)
        if isinstance(result, torch.Tensor):  # a step on the way of an image
            return result
        pixels = np.array(result)
        pixels[::3, ::2] ^= 1
        return pixels if isinstance(result, np.ndarray) else Image.fromarray(pixels)

    monkeypatch.setattr(T.functional, "elastic_transform", changed)
    return T.ElasticTransform
