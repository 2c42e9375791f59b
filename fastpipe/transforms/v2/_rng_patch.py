"""Patches torch's random functions in this thread: torchvision's code, which names no generator, draws from ours."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fastpipe.rng import plain
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


class drawing_from:
    """``with drawing_from(generators):`` torchvision draws what fastpipe would, and the generators move on."""

    def __init__(self, generators: Generators) -> None:
        source = plain(generators).torch
        self._mode = None if source is None or source is torch.default_generator else _GeneratorMode(source)

    def __enter__(self) -> None:
        if self._mode is not None:
            self._mode.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        if self._mode is not None:
            self._mode.__exit__(*error)  # type: ignore[no-untyped-call]
