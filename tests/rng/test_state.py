"""Generators are put back where they were, keyed ones are seeded alike, and streams are those of a worker."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import fastpipe
from fastpipe.rng import (
    GeneratorStates,
    Streams,
    copied_generators,
    keyed_generators,
    keyed_globals,
    preserved_globals,
    rewound,
    rewound_on,
    sample_key,
)
from fastpipe.rng.torch_patch import torch_draws_from
from fastpipe.types import Generators


def draw() -> tuple[float, ...]:
    return float(torch.rand(1)), float(torch.randn(1)), random.random(), random.gauss(0, 1), float(np.random.rand())


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    draw()  # a second normal number is kept in the states


@pytest.mark.parametrize("within", [preserved_globals, lambda: keyed_globals(7)])
@pytest.mark.parametrize("fails", [False, True])
def test_the_global_generators_are_put_back(within: Any, fails: bool) -> None:
    before = GeneratorStates.of()
    expected = draw()
    before.restore()
    try:
        with within():
            assert (draw() == expected) is (within is preserved_globals)
            if fails:
                raise KeyError
    except KeyError:
        pass
    assert GeneratorStates.of().draws_like(before)
    assert draw() == expected


@pytest.mark.parametrize("key", [0, 5, 2**63 + 1, 2**64 - 1])
def test_keyed_generators_and_keyed_globals_draw_alike(key: int) -> None:
    generators = keyed_generators(key)
    with keyed_globals(key):
        assert torch.equal(torch.rand(9, generator=generators.torch), torch.rand(9))
        assert generators.python.random() == random.random()
        assert GeneratorStates.of(generators).draws_like(GeneratorStates.of())
        random.random()
        assert not GeneratorStates.of(generators).draws_like(GeneratorStates.of())
        torch.rand(1, generator=generators.torch)
    with keyed_globals(key):
        numbers = draw()
    torch.manual_seed(key & 2**63 - 1)
    random.seed(key)
    np.random.seed(key & 2**32 - 1)
    assert draw() == numbers


def test_copied_generators_leave_the_global_ones() -> None:
    before = GeneratorStates.of()
    copied = copied_generators()
    drawn = torch.rand(3, generator=copied.torch), copied.python.random()
    assert GeneratorStates.of().draws_like(before)
    assert torch.equal(torch.rand(3), drawn[0])
    assert random.random() == drawn[1]


@pytest.mark.parametrize("own", [False, True])
def test_one_error_rewinds(own: bool) -> None:
    generator = torch.Generator().manual_seed(4) if own else None
    states = Generators(generator)
    before = GeneratorStates.of(states)
    for error, rewinds in ((KeyError, True), (ValueError, False), (None, False)):
        before = GeneratorStates.of(states)
        try:
            with rewound(KeyError, states) if own else rewound_on(KeyError):
                torch.rand(5, generator=generator)
                if error is not None:
                    raise error("it")
        except (KeyError, ValueError) as raised:
            assert type(raised) is error  # noqa: PT017 - which of the two is the point
        assert GeneratorStates.of(states).draws_like(before) is rewinds


def test_nothing_else_sets_the_global_generators() -> None:
    package = Path(fastpipe.__file__).parent
    exempt = {package / "progress_bar.py"}  # imported without torch
    for path in {*package.rglob("*.py")} - {*(package / "rng").glob("*.py")} - exempt:
        assert not re.search(r"set_rng_state|random\.(setstate|set_state|seed)\(", path.read_text("utf-8")), path


def test_keys_do_not_repeat() -> None:
    keys = {sample_key(s, e, i) for s in (-1, 0, 1, 2**70) for e in range(20) for i in range(200)}
    assert len(keys) == 4 * 20 * 200


class _Draws(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[float, ...]:
        return draw()


def test_streams_are_worker_0s() -> None:
    streams = Streams(123)
    before = GeneratorStates.of()
    with streams.in_place():
        found = draw()
    assert GeneratorStates.of().draws_like(before)
    state = streams.save()
    generator = torch.Generator()
    with mock.patch.object(torch.Tensor, "random_", lambda self, **_: self.fill_(123)):
        batches = list(torch.utils.data.DataLoader(_Draws(), None, num_workers=1, generator=generator))
    assert tuple(batches[0]) == found
    with Streams(state).in_place():
        assert draw() == tuple(batches[1])


@pytest.mark.parametrize(
    "draws",
    [
        lambda: torch.empty(3).exponential_(),
        lambda: torch.empty(3).log_normal_(),
        lambda: torch.empty(3).cauchy_(),
        lambda: torch.empty(3).geometric_(0.3),
        lambda: torch.poisson(torch.full((3,), 4.0)),
        lambda: torch.binomial(torch.full((3,), 9.0), torch.full((3,), 0.5)),
        lambda: torch._standard_gamma(torch.full((3,), 2.0)),
        lambda: torch.rand(3),
    ],
)
def test_code_that_names_no_generator_draws_from_the_given_one(draws: Any) -> None:
    before = torch.get_rng_state()
    with torch_draws_from(Generators(torch.Generator().manual_seed(8))):
        found = draws()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    assert torch.equal(found, draws())
