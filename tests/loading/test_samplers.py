"""Samplers: permutations that are permutations and look random, ranks that share them out, exact resume."""

from __future__ import annotations

import hashlib
import math
import struct
import subprocess
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler as TorchDistributedSampler

from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.loading.permutation import Permutation
from fastpipe.loading.samplers import DistributedSampler, RandomSampler, ShuffledSampler

LENGTHS = st.one_of(st.integers(0, 40), st.integers(0, 9_000))


def chi_square_bound(degrees: int) -> float:
    """Far in the tail (about 5 standard deviations): a fixed seed either passes for good or something is wrong."""
    return degrees + 5 * math.sqrt(2 * degrees) + 10


def walked(length, position, key):
    """Where a permutation has a position, in Python's integers."""
    rows = math.isqrt(length - 1) + 1
    columns = -(-length // rows)
    rounds = 32 if length <= 4096 else 8
    text = b"fastpipe permutation " + ",".join(map(str, key)).encode()
    keys = struct.unpack(f"<{rounds}Q", hashlib.shake_128(text).digest(8 * rounds))

    def hashed(value, key):
        value ^= key
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        return (value ^ value >> 27) * 0x94D049BB133111EB % 2**64 >> 32

    while True:
        row, column = divmod(position, columns)
        for turn, one in enumerate(keys):
            if turn % 2 == 0:
                row = (row + (hashed(column, one) * rows >> 32)) % rows
            else:
                column = (column + (hashed(row, one) * columns >> 32)) % columns
        position = row * columns + column
        if position < length:
            return position


def whole(length, key):
    return Permutation(length, key).at(np.arange(length)).tolist()


class TestPermutation:
    @given(LENGTHS, st.integers(-(2**70), 2**70), st.integers(0, 1000))
    def test_is_a_permutation_for_every_length_and_key(self, length, seed, epoch):
        assert sorted(whole(length, (seed, epoch))) == list(range(length))

    @given(st.integers(1, 2**62), st.integers(0, 2**64), st.data())
    def test_is_one_to_one_and_in_range_at_any_length(self, length, seed, data):
        positions = data.draw(st.lists(st.integers(0, length - 1), unique=True, max_size=50))
        indices = Permutation(length, (seed,)).at(np.array(positions, dtype=np.uint64))
        assert len(set(indices.tolist())) == len(positions)
        assert all(0 <= index < length for index in indices.tolist())

    def test_one_by_one_equals_in_blocks(self):
        permutation = Permutation(10_007, (1, 2))
        order = whole(10_007, (1, 2))
        assert [permutation.at(np.array([i])).item() for i in range(0, 10_007, 97)] == order[::97]

    @given(LENGTHS, st.integers(0, 9), st.integers(0, 2**70))
    def test_is_the_network_that_its_module_describes_walked_cell_by_cell(self, length, at, seed):
        key = (seed, 3)
        if length:
            at %= length
            assert Permutation(length, key).at(np.array([at])).item() == walked(length, at, key)

    @pytest.mark.parametrize("length", [-1, 2**62 + 1])
    def test_bad_length(self, length):
        with pytest.raises(DatasetError, match="give a length"):
            Permutation(length, (0,))

    @pytest.mark.parametrize("length", [2, 3, 4])
    def test_every_order_of_a_few_is_about_equally_likely(self, length):
        counts = Counter(tuple(whole(length, (seed, 5))) for seed in range(3_000))
        expected = 3_000 / math.factorial(length)
        chi_square = sum((n - expected) ** 2 for n in counts.values()) / expected
        assert len(counts) == math.factorial(length)
        assert chi_square < chi_square_bound(math.factorial(length) - 1)

    @pytest.mark.parametrize("length", [100, 5_000, 65_536, 1_000_003])
    def test_looks_random(self, length):
        for seed in range(4):
            order = Permutation(length, (seed, 0)).at(np.arange(min(length, 200_000)))
            n, bins = len(order), 10
            spots = np.arange(n) * bins // n
            table = np.histogram2d(spots, order * bins // length, bins=bins)[0]
            expected = np.outer(table.sum(1), table.sum(0)) / n
            assert ((table - expected) ** 2 / expected).sum() < chi_square_bound((bins - 1) ** 2)
            for lag in (1, 2, 3, 64, math.isqrt(length), math.isqrt(length) + 1):
                if lag < n // 2:
                    correlation = np.corrcoef(order[:-lag], order[lag:])[0, 1]
                    assert abs(correlation) < 5 / math.sqrt(n - lag) + 2 / n

    def test_low_bits_and_fixed_points(self):
        """A weak network leaves parity or many indices where they were."""
        fixed = []
        for seed in range(200):
            order = Permutation(4_097, (seed,)).at(np.arange(4_097))
            fixed.append(int((order == np.arange(4_097)).sum()))
            same_parity = ((order % 2) == (np.arange(4_097) % 2)).mean()
            assert abs(same_parity - 0.5) < 5 * 0.5 / math.sqrt(4_097)
        assert abs(np.mean(fixed) - 1) < 5 / math.sqrt(200)  # Poisson with mean 1

    def test_keys_give_unrelated_orders(self):
        orders = [np.array(whole(3_000, key)) for key in [(0, 0), (0, 1), (1, 0), (0,), (2**64, 0)]]
        for i, one in enumerate(orders):
            for other in orders[:i]:
                assert (one == other).sum() < 12
                assert abs(np.corrcoef(one, other)[0, 1]) < 5 / math.sqrt(3_000)

    def test_order_is_fixed_for_good(self):
        """A saved position means nothing if another version gives another order."""
        assert whole(10, (0, 0)) == FIRST_TEN
        assert Permutation(100_000_000, (7, 3)).at(np.array([0, 1, 99_999_999])).tolist() == OF_A_HUNDRED_MILLION


FIRST_TEN = [8, 3, 7, 1, 0, 5, 9, 4, 2, 6]
OF_A_HUNDRED_MILLION = [35050195, 36748546, 34238693]


class TestShuffledSampler:
    def test_every_index_once_and_epochs_differ(self):
        sampler = ShuffledSampler(5_000, seed=3)
        first = list(sampler)
        assert sorted(first) == list(range(5_000))
        second = list(sampler)  # counts its epochs by itself
        assert sampler.epoch == 1
        assert second != first
        assert sorted(second) == list(range(5_000))
        sampler.set_epoch(0)
        assert list(sampler) == first
        assert list(sampler) == second
        assert list(ShuffledSampler(list(range(5_000)), seed=3)) == first
        assert list(ShuffledSampler(5_000, seed=4)) != first

    def test_memory_does_not_grow_with_the_length(self):
        tracemalloc.start()
        iterator = iter(ShuffledSampler(100_000_000))
        for _ in range(10_000):
            next(iterator)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 10_000_000

    @pytest.mark.parametrize("position", [0, 1, 4_095, 4_096, 9_998, 9_999])
    def test_resumes_exactly(self, position):
        sampler = ShuffledSampler(9_999, seed=1)
        sampler.set_epoch(5)
        whole = list(sampler)
        sampler.set_epoch(5)
        iterator = iter(sampler)
        for _ in range(position):
            next(iterator)
        state = sampler.state_dict()
        assert state["position"] == position
        resumed = ShuffledSampler(9_999, seed=1)
        resumed.load_state_dict(state)
        resumed.set_epoch(5)  # as a training loop does that goes on at epoch 5
        assert list(resumed) == whole[position:]
        assert list(resumed) == list(sampler)  # the next iteration starts at the front of the next epoch

    def test_behind_a_finished_epoch_comes_the_next(self):
        sampler = ShuffledSampler(50)
        iterator = iter(sampler)
        whole = [next(iterator) for _ in range(50)]
        inside = ShuffledSampler(50)
        inside.load_state_dict(sampler.state_dict())
        assert list(inside) == []  # the loop over this epoch was in its last turn
        assert next(iterator, None) is None
        behind = ShuffledSampler(50)
        behind.load_state_dict(sampler.state_dict())
        second = list(behind)
        assert second == list(inside) == list(sampler)
        assert second != whole

    def test_another_epoch_forgets_the_position(self):
        sampler = ShuffledSampler(100)
        sampler.load_state_dict({"length": 100, "seed": 0, "epoch": 2, "position": 60})
        sampler.set_epoch(3)
        assert len(list(sampler)) == 100

    def test_state_of_another_run_is_refused(self):
        state = ShuffledSampler(100, seed=1).state_dict()
        with pytest.raises(DatasetError, match="seed=1"):
            ShuffledSampler(100, seed=2).load_state_dict(state)
        with pytest.raises(DatasetError, match="length=100"):
            ShuffledSampler(101, seed=1).load_state_dict(state)
        with pytest.raises(DatasetError, match="outside an epoch"):
            ShuffledSampler(100, seed=1).load_state_dict({**state, "position": 101})

    def test_in_the_stock_loader(self):
        loader = DataLoader(torch.arange(100), batch_size=7, sampler=ShuffledSampler(100), num_workers=0)
        assert sorted(torch.cat(list(loader)).tolist()) == list(range(100))


class TestDistributedSampler:
    @given(st.integers(1, 300), st.integers(1, 12), st.booleans(), st.integers(0, 5))
    def test_shares_are_torchs(self, length, ranks, drop_last, seed):
        """Torch's own sampler, on the same common order, says who gets what."""
        ours = [DistributedSampler(length, ranks, r, True, seed, drop_last) for r in range(ranks)]
        order = whole(length, (seed, 0))
        theirs = [TorchDistributedSampler(range(length), ranks, r, False, seed, drop_last) for r in range(ranks)]
        for one, other in zip(ours, theirs, strict=True):
            assert len(one) == len(other)
            assert list(one) == [order[i] for i in other]
            assert isinstance(one, TorchDistributedSampler)

    @given(st.integers(1, 300), st.integers(1, 12), st.booleans())
    def test_in_order(self, length, ranks, drop_last):
        for rank in range(ranks):
            ours = DistributedSampler(length, ranks, rank, shuffle=False, drop_last=drop_last)
            theirs = TorchDistributedSampler(range(length), ranks, rank, shuffle=False, drop_last=drop_last)
            assert list(ours) == list(theirs)

    @given(st.integers(1, 2_000), st.integers(1, 9))
    def test_ranks_are_disjoint_and_complete(self, length, ranks):
        shares = [list(DistributedSampler(length, ranks, rank, seed=4)) for rank in range(ranks)]
        given_out = Counter(index for share in shares for index in share)
        assert set(given_out) == set(range(length))
        assert sum(given_out.values()) == -(-length // ranks) * ranks
        if length >= ranks:
            cut = [list(DistributedSampler(length, ranks, rank, seed=4, drop_last=True)) for rank in range(ranks)]
            assert max(Counter(index for share in cut for index in share).values()) == 1

    def test_resumes_exactly_on_each_rank(self):
        for rank in range(3):
            sampler = DistributedSampler(10_000, 3, rank, seed=9)
            sampler.set_epoch(2)
            whole = list(sampler)
            resumed = DistributedSampler(10_000, 3, rank, seed=9)
            resumed.load_state_dict(sampler.state_dict(position=1_234))
            assert list(resumed) == whole[1_234:]
        with pytest.raises(DatasetError, match="seed=9"):
            DistributedSampler(10_000, 4, 0, seed=8).load_state_dict(sampler.state_dict(position=3))

    def test_needs_ranks(self):
        with pytest.raises((RuntimeError, ValueError), match=r"process group|distributed package"):
            DistributedSampler(10)


TWO_RANKS = """
import torch.distributed as dist
from fastpipe.loading.samplers import DistributedSampler

dist.init_process_group("gloo")
sampler = DistributedSampler(1001, seed=5)
sampler.set_epoch(3)
shares = [None, None]
dist.all_gather_object(shares, list(sampler))
if dist.get_rank() == 0:
    assert len(shares[0]) == len(shares[1]) == 501
    assert set(shares[0]) | set(shares[1]) == set(range(1001))
    assert len(set(shares[0]) & set(shares[1])) == 1  # the one index that pads 1001 to 1002
    print("SHARED OUT")
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without torch.distributed")
@pytest.mark.skipif(sys.platform == "win32", reason="torchrun's rendezvous needs libuv there, which wheels lack")
def test_two_ranks_under_torchrun(tmp_path):
    script = tmp_path / "ranks.py"
    script.write_text(TWO_RANKS)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    assert "SHARED OUT" in result.stdout


@pytest.mark.parametrize("kind", [ShuffledSampler, RandomSampler])
def test_the_warning_of_another_length_names_the_users_line(kind):
    with pytest.warns(FastpipeWarning, match="has length=12, the state was saved with length=10") as caught:
        kind(12).load_state_dict(kind(10).state_dict(), allow_changes=True)
    assert [one.filename for one in caught] == [__file__]
