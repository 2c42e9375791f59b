"""`benchmarks/harness.py` compares what it times, and tells it in its table and its JSON."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    threads = torch.get_num_threads()
    import harness as module

    yield module
    torch.set_num_threads(threads)
    sys.modules.pop("harness", None)


def measured(harness: ModuleType, *words: str):
    return harness.Benchmark(harness.command_line(None).parse_args(["photos", "--rounds", "2", *words]), "a title")


def drawn() -> Iterator[torch.Tensor]:
    yield torch.rand(3)


def drawn_by_itself() -> Iterator[torch.Tensor]:
    yield torch.rand(1, 3)[0]


def drawn_once_more() -> Iterator[torch.Tensor]:
    yield from drawn()
    random.random()


def other_values() -> Iterator[torch.Tensor]:
    yield torch.rand(3) + 1


def test_what_makes_the_same_is_equal(harness, tmp_path, capsys):
    bench = measured(harness, "--json", str(tmp_path / "figures.json"))
    bench.row("draws", {"first": drawn, "second": drawn_by_itself}, 1, mark=2.0)
    bench.finish(more="than that")
    printed = capsys.readouterr().out
    assert "draws" in printed
    assert "yes" in printed
    kept = json.loads((tmp_path / "figures.json").read_text())
    assert kept["more"] == "than that"
    row = kept["rows"]["draws"]
    assert (row["equal"], row["mark"]) == (True, 2.0)
    assert {who: len(rounds) for who, rounds in row["rounds_us"].items()} == {"first": 2, "second": 2}


@pytest.mark.parametrize("other", [drawn_once_more, other_values])
def test_other_values_and_other_end_states_are_told_and_end_the_run(harness, other, capsys):
    bench = measured(harness)
    bench.row("draws", {"first": drawn, "second": other}, 1)
    with pytest.raises(SystemExit, match="not equal: draws"):
        bench.finish()
    assert "NO" in capsys.readouterr().out


def test_a_contender_that_need_not_be_equal_is_left_alone(harness):
    bench = measured(harness)
    bench.row("draws", {"first": drawn, "second": other_values, "third": drawn}, 1, equal=["third"])
    bench.finish()


def test_what_is_expected_may_be_what_no_contender_makes(harness):
    bench = measured(harness)
    bench.row("draws", {"first": other_values, "second": drawn}, 1, equal=["second"], reference=drawn)
    bench.finish()
    again = measured(harness)
    again.row("draws", {"first": drawn, "second": drawn}, 1, equal=["second"], reference=other_values)
    with pytest.raises(SystemExit):
        again.finish()


def test_only_what_was_asked_for_is_measured(harness, capsys):
    bench = measured(harness, "--only", "flip")
    bench.row("crop", {"first": drawn}, 1)
    with pytest.raises(SystemExit, match="no row has 'flip' in its name"):
        bench.finish()
    bench.row("Flips", {"first": drawn}, 1)
    bench.finish()
    assert "crop" not in capsys.readouterr().out


def test_ratios_are_those_of_the_rounds(harness):
    from fastpipe.tools.timing import summarize

    bench = measured(harness)
    bench.add("a: one", {"slow": summarize([8.0, 80.0, 8.0]), "fast": summarize([2.0, 20.0, 4.0])}, None, mark=4)
    bench.add("a: other", {"slow": summarize([9.0]), "fast": summarize([9.0])}, None, mark=1.5)
    bench.add("alone", {"fast": summarize([9.0])}, None)
    assert bench.times("a: one", "fast", "slow") == 4
    assert bench.means() == {"a": {"slow": pytest.approx(2)}}
    assert bench.below_mark() == ["a: other: 1.00, mark 1.5"]


def test_rows_of_one_group_and_the_same_contenders_share_a_table(harness):
    from fastpipe.tools.timing import summarize

    bench, one = measured(harness), summarize([1.0])
    bench.add("a: some", {"x": one, "y": one}, None)
    bench.add("a: others", {"z": one}, None)
    bench.add("b: some", {"x": one, "y": one}, None)
    bench.add("a: all of them", {"x": one, "w": one, "y": one}, None)
    tables = bench.tables()
    assert [[column.header for column in table.columns] for table in tables] == [
        ["", "x", "w", "y"],
        ["", "z"],
        ["", "x", "y"],
    ]
    assert [table.row_count for table in tables] == [2, 1, 1]
