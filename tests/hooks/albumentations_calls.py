"""Calls of albumentations' transforms with the hooks and without."""

from __future__ import annotations

from typing import Any

import albumentations as A
import corpus
import numpy as np
from albumentations.pytorch import ToTensorV2

from fastpipe.hooks.ledger import LEDGER
from fastpipe.plain_way import plainly

LARGE = corpus.photo(131, 157)
SITE = ("function", "albumentations.Normalize")


def images() -> int:
    return LEDGER.site(*SITE).images


def both(transform: Any, seed: int = 7, /, **data: Any) -> tuple[Any, Any]:
    """A transform's results with the hooks and without them, from the same state of its generators."""
    transform.set_random_seed(seed)
    made = transform(**data)
    after = transform.py_random.getstate(), transform.random_generator.bit_generator.state
    transform.set_random_seed(seed)
    with plainly():
        expected = transform(**data)
    assert after == (transform.py_random.getstate(), transform.random_generator.bit_generator.state)
    return made, expected


def assert_same(made: Any, expected: Any) -> None:
    made, expected = np.asarray(made), np.asarray(expected)
    assert made.dtype == expected.dtype
    assert made.strides == expected.strides
    assert made.tobytes() == expected.tobytes()


def pair(*before: Any, **options: Any) -> Any:
    return A.Compose([*before, A.Normalize(), ToTensorV2()], **options)
