"""An MT19937Stream's numbers are torch's numbers, and it leaves torch's states."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision_here import torchvision
from transform_cases import (
    as_pil,
    picture,
    same,
    seeded,
)

import fastpipe.transforms as T
from fastpipe.rng import StreamGenerators, TorchStream, drawing, keyed_generators
from fastpipe.rng import float32 as float32_module
from fastpipe.rng import mt19937 as mt19937_module
from fastpipe.rng.mt19937 import MT19937Stream, matches_torch
from fastpipe.transforms.pipeline import compile_pipeline
from fastpipe.types import Generators, ImageShape

V = torchvision.transforms
SEEDS = [0, 1, 7, 2**31, 2**32 - 1, 2**32, 2**32 + 7, 2**53 + 1, 2**63 - 1]


def one_by_one(generator: torch.Generator, kind: str, *bounds: Any) -> Any:
    """Draws a number from torch itself."""
    if kind == "uniform":
        return torch.empty([1]).uniform_(*bounds, generator=generator).item()
    if kind == "rectangle_sides":
        area, *logarithms = bounds
        ratio = torch.exp(torch.empty([1]).uniform_(*logarithms, generator=generator)).item()
        return round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
    if kind == "randint":
        return torch.randint(*bounds, [1], generator=generator).item()
    if kind == "randperm":
        return torch.randperm(*bounds, generator=generator).tolist()
    return torch.rand([1], generator=generator).item()


def test_this_torch_is_known() -> None:
    assert matches_torch()  # else every other test would hold torch against itself


floats = st.floats(-1e6, 1e6, width=32)
draws = st.one_of(
    st.tuples(st.just("rand")),
    st.tuples(st.just("uniform"), floats, floats).map(lambda x: (x[0], *sorted(x[1:]))),
    st.tuples(st.just("rectangle_sides"), st.floats(0, 1e6), st.floats(-5, 0), st.floats(0, 5)),
    st.tuples(st.just("randint"), st.integers(-5, 5), st.integers(6, 2**33)),
    st.tuples(st.just("randint"), st.just(0), st.sampled_from([2**28 - 1, 2**28, 2**32 - 1, 2**32, 2**63 - 1])),
    st.tuples(st.just("randperm"), st.integers(0, 9)),
    st.tuples(st.just("randn")),
    st.tuples(st.just("skip"), st.sampled_from([1, 100, 155, 156, 157, 467, 622, 623, 624, 625, 1300])),
    st.tuples(st.just("flush")),
)


@given(seed=st.one_of(st.sampled_from(SEEDS), st.integers(0, 2**63 - 1)), kinds=st.lists(draws, max_size=30))
@settings(max_examples=7 * settings.default.max_examples, deadline=None)
@pytest.mark.parametrize("own", [False, True])
def test_any_draws_in_any_order(own: bool, seed: int, kinds: list[Any]) -> None:
    theirs = seeded(seed)
    stream = MT19937Stream.seeded(seed) if own else MT19937Stream(seeded(seed))
    for kind, *bounds in kinds:
        if kind == "flush":
            assert same(stream.generator(), theirs)
        elif kind == "randn":  # one now, one kept in the state for later
            assert torch.equal(torch.randn([1], generator=stream.generator()), torch.randn([1], generator=theirs))
        elif kind == "skip":
            expected = torch.rand(*bounds, generator=theirs).tolist()
            assert [stream.rand() for _ in range(*bounds)] == expected
        else:
            assert getattr(stream, kind)(*bounds) == one_by_one(theirs, kind, *bounds)
    assert same(stream.generator(), theirs)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_streams_have_the_same_methods_and_numbers(seed: int) -> None:
    plain, stream, theirs = TorchStream(seeded(seed)), MT19937Stream(seeded(seed)), seeded(seed)
    for p in (0.2, 0.5, 0.9):
        expected = torch.rand([1], generator=theirs)
        assert plain.bernoulli(p) == stream.bernoulli(p) == bool(expected < p)
        expected = torch.rand([1], generator=theirs)
        assert plain.exceeds(p) == stream.exceeds(p) == bool(expected > p)
    for kind, *bounds in (
        ("rand",),
        ("uniform", -0.3, 1.7),
        ("rectangle_sides", 5e4, -0.3, 0.3),
        ("randint", 3, 77),
        ("randint", 0, 2**63 - 1),
        ("randperm", 5),
    ):
        assert getattr(plain, kind)(*bounds) == getattr(stream, kind)(*bounds) == one_by_one(theirs, kind, *bounds)
    noise = torch.empty([2, 3]).normal_(generator=theirs)
    assert torch.equal(plain.randn([2, 3]), noise)
    assert torch.equal(stream.randn([2, 3]), noise)
    assert same(plain.generator(), theirs)
    assert same(stream.generator(), theirs)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("bounds", [(0.0, 1.175494351e-38), (-1.175494351e-38, 0.0)])
def test_numbers_that_torch_draws_first_of_all_take_no_word_twice(own: bool, bounds: tuple[float, float]) -> None:
    theirs = seeded(0)
    stream = MT19937Stream.seeded(0) if own else MT19937Stream(seeded(0))
    stream.generator()
    assert stream.rectangle_sides(1e5, *bounds) == one_by_one(theirs, "rectangle_sides", 1e5, *bounds)
    assert same(stream.generator(), theirs)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_position_of_a_block(seed: int) -> None:
    theirs = seeded(seed)
    source = seeded(seed)
    stream = MT19937Stream(source)
    for position in range(1300):
        assert stream.rand() == torch.rand([1], generator=theirs).item()
        stream.flush()
        assert same(source, theirs), position
        assert same(MT19937Stream.seeded(seed).generator(), seeded(seed))
    late = MT19937Stream.seeded(seed)
    assert [late.rand() for _ in range(1300)] == torch.rand(1300, generator=seeded(seed)).tolist()
    assert same(late.generator(), theirs)


def test_a_state_that_moves_in_between() -> None:
    source, theirs = seeded(3), seeded(3)
    stream = MT19937Stream(source)
    for turn in range(400):
        assert stream.randint(0, 1000) == torch.randint(0, 1000, [1], generator=theirs).item()
        stream.flush()
        for generator in (source, theirs):
            if turn % 3 == 0:
                torch.randn(turn % 40, generator=generator)
            if turn % 50 == 49:
                generator.manual_seed(turn)
            if turn % 70 == 69:
                generator.set_state(seeded(8).get_state())
    assert same(source, theirs)


@pytest.mark.slow
@given(
    low=st.one_of(st.floats(-1e35, 1e35), st.floats(-1, 1), st.sampled_from([0.0, -0.0, 1.0, 2.0**-24, 3.0])),
    width=st.one_of(st.floats(0, 1e30), st.floats(0, 2), st.sampled_from([0.0, 1e-45, 2.0**-23, 2.0**-30, 1e-38])),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=25 * settings.default.max_examples, deadline=None)
def test_uniform_rounds_as_torch_does(low: float, width: float, seed: int) -> None:
    theirs, stream = seeded(seed), MT19937Stream(seeded(seed))
    expected = torch.empty([100]).uniform_(low, low + width, generator=theirs).tolist()
    assert [stream.uniform(low, low + width) for _ in range(100)] == expected
    assert same(stream.generator(), theirs)


@given(
    mantissas=st.tuples(st.integers(2**23, 2**24 - 1), st.integers(2**23, 2**24 - 1), st.integers(0, 2**24 - 1)),
    exponent=st.integers(-60, 60),
    sign=st.sampled_from([-1, 1]),
)
@settings(max_examples=50 * settings.default.max_examples, deadline=None)
def test_one_rounding(mantissas: tuple[int, int, int], exponent: int, sign: int) -> None:
    """The sum in exact arithmetic, rounded once to float32, also where float64 can't hold it."""
    from fractions import Fraction

    if not float32_module.arithmetic().fused:
        pytest.skip("this processor rounds twice")
    start, width = math.ldexp(sign * mantissas[0], -24), math.ldexp(mantissas[1], exponent)
    fraction = math.ldexp(mantissas[2], -24)
    exact = Fraction(fraction) * Fraction(width) + Fraction(start)
    assert float32_module.multiply_add(fraction, width, start) == nearest_float32(exact)


def nearest_float32(exact: Any) -> float:
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return float(min(around, key=lambda x: (abs(type(exact)(float(x)) - exact), int(x.view(np.uint32)) & 1)))


def test_one_rounding_of_ties() -> None:
    """Sums that float64 would round to the middle between two float32 numbers, and then to the wrong one."""
    from fractions import Fraction

    if not float32_module.arithmetic().fused:
        pytest.skip("this processor rounds twice")
    count = 0
    for k, bits, sign in itertools.product(range(30, 60), (1, 3, 2**23 + 1, 2**24 - 1), (-1, 1)):
        start = sign * (1.0 + 2**-23)
        for width in (2.0**-24 * (1 + 2**-23), 2.0**-24 * (1 - 2**-24), math.ldexp(bits, -k)):
            for fraction in (1 - 2**-23, 1 - 2**-24, 0.5, 0.5 + 2**-24, 2**-24):
                exact = Fraction(fraction) * Fraction(width) + Fraction(start)
                value = float32_module.multiply_add(fraction, width, start)
                assert value == nearest_float32(exact)
                count += float(np.float32(float(exact))) != value
    assert count  # where plain rounding would have been wrong


@pytest.mark.parametrize("bounds", [(1.0, 0.5), (0.0, math.inf), (math.nan, 1.0), (-3e38, 3e38), (0, 1e39)])
def test_ranges_that_torch_refuses(bounds: tuple[float, float]) -> None:
    stream, theirs = MT19937Stream(seeded(1)), seeded(1)
    assert stream.rand() == torch.rand([1], generator=theirs).item()
    with pytest.raises(RuntimeError) as expected:
        one_by_one(theirs, "uniform", *bounds)
    with pytest.raises(RuntimeError) as actual:
        stream.uniform(*bounds)
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]
    with pytest.raises(RuntimeError):
        stream.randint(3, 3)
    assert stream.rand() == torch.rand([1], generator=theirs).item()
    assert same(stream.generator(), theirs)


def test_exp_of_one_number_and_of_many() -> None:
    arguments = torch.empty([20_000]).uniform_(-3, 3, generator=seeded(1))
    many, stream = torch.exp(arguments).tolist(), MT19937Stream(seeded(1))
    assert [mt19937_module._exp(stream.uniform(-3, 3)) for _ in range(20_000)] == many
    assert many[:500] == [torch.exp(one).item() for one in arguments[:500].split(1)]


@pytest.mark.parametrize("wrong", ["_tempered", "multiply_add", "float32"])
def test_other_arithmetic_is_found_out(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = float32_module if wrong == "float32" else mt19937_module
    right = getattr(module, wrong)
    matches_torch.cache_clear()
    float32_module.span_of.cache_clear()
    monkeypatch.setattr(module, wrong, lambda *args: right(*args) * 1 + (1 if wrong == "_tempered" else 1e-3))
    assert not matches_torch()
    monkeypatch.undo()
    matches_torch.cache_clear()
    float32_module.span_of.cache_clear()
    assert matches_torch()


def test_other_dtypes_and_devices_are_left_to_torch() -> None:
    pipeline = compile_pipeline(T.Compose([T.RandomResizedCrop(9), T.AutoAugment(), T.RandAugment()]))
    shape = ImageShape(30, 40)
    torch.set_default_dtype(torch.float64)
    try:
        with drawing() as held:
            assert type(held) is Generators
        assert type(keyed_generators(3)) is Generators
        for seed in range(40):
            torch.manual_seed(seed)
            theirs = V.RandomResizedCrop(9).get_params(as_pil(picture(30, 40)), (0.08, 1.0), (3 / 4, 4 / 3))
            torch.manual_seed(seed)
            crop = pipeline.draw(shape).steps[0]
            assert theirs == (crop["top"], crop["left"], crop["height"], crop["width"])
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("cpu"), drawing() as held:
        assert type(held) is Generators
    with drawing() as held:
        assert type(held) is StreamGenerators


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_other_processors(capability: str) -> None:
    """torch's kernels for older processors round twice: there too the stream has its numbers."""
    code = """
import torch
from fastpipe.rng.float32 import arithmetic
from fastpipe.rng.mt19937 import MT19937Stream, matches_torch
assert matches_torch()
theirs, stream = torch.Generator().manual_seed(5), MT19937Stream.seeded(5)
for low, high in ((0.08, 1.0), (-30.3, 17.1), (0.3, 1.7), (100, 100.1), (-1e5, 1e-3)):
    for _ in range(500):
        assert stream.uniform(low, high) == torch.empty(1).uniform_(low, high, generator=theirs).item()
print(arithmetic().fused)
"""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=120)
