"""A transform that isn't torchvision's, for the tools that compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fastpipe import transforms as T


@pytest.fixture
def off_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes an ``ElasticTransform`` some of whose values are off by one."""
    plain = T.functional.elastic_transform

    def changed(image: Any, *arguments: Any, **options: Any) -> Any:
        result = plain(image, *arguments, **options)
        result[::3, ::2] ^= 1
        return result

    monkeypatch.setattr(T.functional, "elastic_transform", changed)
    return T.ElasticTransform
