"""Gives a generator to torch's random functions in this thread, for code that names none, such as torchvision's."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fastpipe.rng.state import plain
from fastpipe.types import Generators

_RANDOM = frozenset(
    {
        torch.rand,
        torch.randn,
        torch.randint,
        torch.randperm,
        torch.normal,
        torch.multinomial,
        torch.bernoulli,
        torch._sample_dirichlet,
        torch.Tensor.uniform_,
        torch.Tensor.normal_,
        torch.Tensor.random_,
        torch.Tensor.bernoulli_,
        torch.Tensor.multinomial,
        torch.Tensor.bernoulli,
    }
)


class _GeneratorMode(TorchFunctionMode):
    """Gives a generator to each of torch's random functions that is called without one in this thread."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _RANDOM and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self.generator}
        return func(*args, **kwargs)


def torch_draws_from(generators: Generators) -> AbstractContextManager[Any]:
    """Within the block, functions of torch's that name no generator draw from these, in this thread."""
    source = plain(generators).torch
    return nullcontext() if source is None or source is torch.default_generator else _GeneratorMode(source)
