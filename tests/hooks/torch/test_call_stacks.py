"""Call stacks that torch keeps for a device's errors: the lines of ``traceback.format_stack``, formatted when read."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import fastpipe
from fastpipe.hooks.torch.call_stacks import CallStack
from fastpipe.plain_way import plainly


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    with fastpipe.install(check=0):
        yield


MODULES = [getattr(torch, name, None) for name in ("cuda", "xpu", "mtia")]
KEEPING = [module for module in MODULES if hasattr(module, "traceback")]
"""The installed torch's modules that keep stacks: torch 2.6's ``mtia`` keeps none."""


@pytest.mark.parametrize("module", KEEPING, ids=lambda module: module.__name__)
def test_lines_are_the_standard_library_s(module: Any) -> None:
    def deeper(depth: int) -> list[Any]:
        # Both from one line.
        return deeper(depth - 1) if depth else [one.format_stack() for one in (module.traceback, traceback)]

    kept, expected = deeper(5)
    assert type(kept) is CallStack
    assert "".join(kept) == "".join(expected)
    assert [*kept] == [kept[place] for place in range(len(kept))] == expected
    assert kept[-2:] == expected[-2:]


def test_of_a_frame_and_with_limits() -> None:
    ours, frame = torch.cuda.traceback, sys._getframe()
    both = [[*one.format_stack(frame)] for one in (ours, traceback)]
    assert both[0] == both[1]
    both = [one.format_stack(limit=2) for one in (ours, traceback)]
    assert both[0] == both[1]
    assert ours.extract_stack is traceback.extract_stack
    with plainly():
        assert type(ours.format_stack()) is list


def test_a_frame_s_variables_are_not_kept() -> None:
    class Large:
        pass

    def seeded() -> tuple[Any, Any]:
        import weakref

        large = Large()
        return torch.cuda.traceback.format_stack(), weakref.ref(large)

    stack, there = seeded()
    assert there() is None
    assert "seeded" in "".join(stack)


def test_the_error_shows_where_a_device_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(torch.cuda, "_queued_calls", calls)
    torch.cuda._lazy_call(lambda: None)
    (_, stack), *others = calls
    assert not others
    assert "test_the_error_shows_where_a_device_was_asked" in "".join(stack)
    fastpipe.uninstall()
    assert torch.cuda.traceback is traceback
