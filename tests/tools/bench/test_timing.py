"""Times are taken in turns, and compared round by round."""

from __future__ import annotations

import sys

import pytest
from torchvision_here import torchvision

from fastpipe.errors import FastpipeError
from fastpipe.tools.import_torchvision import import_torchvision
from fastpipe.tools.timing import take_turns


def test_rounds_are_interleaved_and_the_first_is_not_timed() -> None:
    calls: list[tuple[str, int]] = []

    def call(name: str):
        def one_pass(number: int) -> float:
            calls.append((name, number))
            return float(number)

        return one_pass

    said: list[tuple[int, int, str]] = []
    times = take_turns({name: call(name) for name in "ab"}, 2, lambda *step: said.append(step))
    turns = ["a", "b", "b", "a", "a", "b"]  # another is the first in each round
    assert calls == [(who, at // 2) for at, who in enumerate(turns)]
    assert [timing.rounds_us for timing in times.values()] == [(1.0, 2.0)] * 2
    rounds = ["warming up", "warming up", "round 1 of 2", "round 1 of 2", "round 2 of 2", "round 2 of 2"]
    words = [f"{which}: {who}" for which, who in zip(rounds, turns, strict=True)]
    assert said == [(done, 6, what) for done, what in enumerate([*words, "done"])]


def test_torchvision_missing_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert import_torchvision() is torchvision
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(FastpipeError, match="torchvision, which doesn't load here"):
        import_torchvision()
