"""A torch without the private names by which it is asked for modes computes everything itself."""

from __future__ import annotations

import pytest
import torch

from fastpipe.torch_modes import follows_calls, torch_modes_active


@pytest.mark.parametrize("name", ["_len_torch_dispatch_stack", "_get_tracing_state", "_functorch"])
def test_a_torch_that_cant_be_asked_follows_calls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not follows_calls()
    monkeypatch.delattr(torch._C, name)
    assert follows_calls()
    assert torch_modes_active()


def test_a_torch_without_a_stack_of_modes_sees_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not torch_modes_active()
    monkeypatch.delattr(torch._C, "_len_torch_function_stack")
    assert torch_modes_active()
