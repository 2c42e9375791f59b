"""Gives a generator to torch's random functions in this thread, for code that passes none, such as torchvision's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch.overrides import TorchFunctionMode

from fastpipe.rng.state import plain
from fastpipe.types import Generators

_FUNCTIONS = (
    *("_sample_dirichlet", "_standard_gamma", "bernoulli", "binomial", "multinomial", "normal", "poisson", "rand"),
    *("rand_like", "randint", "randint_like", "randn", "randn_like", "randperm"),
)
_METHODS = (
    *("bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial", "normal_"),
    *("random_", "uniform_"),
)


def _takes_generator(name: str) -> bool:
    """True if this version of torch's function takes a ``generator``; ``rand_like`` doesn't in older versions."""
    schemas_of = getattr(torch._C, "_jit_get_schemas_for_operator", None)
    schemas = [] if schemas_of is None else schemas_of(f"aten::{name}")
    return not schemas or any(argument.name == "generator" for schema in schemas for argument in schema.arguments)


_RANDOM = frozenset(
    [getattr(torch, name) for name in filter(_takes_generator, _FUNCTIONS)]
    + [getattr(torch.Tensor, name) for name in _METHODS]
)


class _GeneratorMode(TorchFunctionMode):
    """Gives a generator to each call of torch's random functions without one, in this thread."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func in _RANDOM and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self.generator}
        return func(*args, **kwargs)


def torch_draws_from(generators: Generators) -> AbstractContextManager[object]:
    """Makes torch's random functions without a generator draw from these within the block, in this thread."""
    source = plain(generators).torch
    return nullcontext() if source is None or source is torch.default_generator else _GeneratorMode(source)
