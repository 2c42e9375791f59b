"""Bad files are counted rarely, and too many of them are noticed at once."""

from __future__ import annotations

import numpy as np
import pytest

from fastpipe.datasets import bad_files
from fastpipe.datasets.bad_files import REPLACED, SKIPPED, BadFileRecord


def _shared_with(record: BadFileRecord) -> BadFileRecord:
    """The record as another process has it."""
    other = object.__new__(BadFileRecord)
    other.count = record.count
    other._use(record._memory)
    return other


@pytest.mark.parametrize("processes", [1, 2, 7, 16])
@pytest.mark.parametrize("most", [0, 0.5, 1, 3.7, 100, 5000])
def test_too_many_bad_files_are_noticed_with_the_first(processes: int, most: float) -> None:
    first = BadFileRecord(10_000)
    records = [first, *(_shared_with(first) for _ in range(processes - 1))]
    order = np.random.default_rng(0).permutation(10_000)
    for done, index in enumerate(order.tolist(), 1):
        record = records[done % processes]
        record.mark(index, SKIPPED if index % 2 else REPLACED)
        count = record.exceeding(most)
        if done <= most:
            assert count == 0
        else:
            assert count == done or (processes > 1 and count == 0 and done <= most + processes)
        if count:
            return
    raise AssertionError("it was never noticed")


def test_the_marks_are_not_read_for_each_bad_file(monkeypatch: pytest.MonkeyPatch) -> None:
    record = BadFileRecord(100_000)
    counts = []
    monkeypatch.setattr(bad_files.np, "count_nonzero", lambda marks: counts.append(1) or int(marks.sum()))
    for index in range(9_000):
        record.mark(index, SKIPPED)
        assert record.exceeding(10_000) == 0
    assert len(counts) < 100


def test_an_epoch_of_another_size_is_counted_anew() -> None:
    record = BadFileRecord(1000)
    for index in range(5):
        record.mark(index, SKIPPED)
        assert record.exceeding(900) == 0
    assert record.exceeding(4) == 5
