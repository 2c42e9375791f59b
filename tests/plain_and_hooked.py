"""An epoch of torch's own loader, plainly and with `fastpipe.install`: the same batches and end states."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

import fastpipe
from fastpipe.rng import GeneratorStates


def assert_same(one: Any, other: Any) -> None:
    """Two batches are the same: classes, values, and the layout of tensors in memory."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
        assert torch.equal(one, other)
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other, strict=True)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        assert_same(list(one.values()), list(other.values()))
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    else:
        assert one == other


def epoch(dataset: Any, seed: int = 0, **options: Any) -> tuple[list[Any], GeneratorStates]:
    """The batches of 8 shuffled samples, and where the generators are then."""
    torch.manual_seed(seed)
    random.seed(seed)
    batches = list(DataLoader(dataset, **{"batch_size": 8, "shuffle": True, **options}))
    return batches, GeneratorStates.of()


def assert_as_plain(dataset: Any, seed: int = 0, *, check: int = 0, **options: Any) -> list[Any]:
    """The loader's batches by our way, which are those of torch alone; so are the generators' end states."""
    expected, state = epoch(dataset, seed, **options)
    with fastpipe.install(check=check):
        made, after = epoch(dataset, seed, **options)
    assert_same(made, expected)
    assert after.draws_like(state)
    return made
