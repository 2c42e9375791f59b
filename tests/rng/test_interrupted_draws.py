"""Draws that a signal's handler breaks off."""

from __future__ import annotations

import threading
from concurrent import futures
from typing import Any

import numpy as np
import pytest
import torch
from interrupts import is_interrupted
from transform_cases import picture

import fastpipe.transforms as T
from fastpipe.rng import generators as generators_module
from fastpipe.rng import mt19937 as mt19937_module
from fastpipe.transforms.pipeline import compile_pipeline
from fastpipe.types import ImageShape


def test_draws_whose_end_was_interrupted_are_forgotten_once_the_user_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    flush, transform, image = mt19937_module.MT19937Stream.flush, T.RandomCrop(9), picture(61, 83)
    torch.manual_seed(3)
    expected, after = T.Compose([transform])(image), torch.get_rng_state()

    def interrupted(stream: Any) -> None:
        if stream._read:  # a signal handler raises where the block writes its draws
            raise KeyboardInterrupt
        flush(stream)

    torch.manual_seed(8)
    with monkeypatch.context() as patched:
        patched.setattr(mt19937_module.MT19937Stream, "flush", interrupted)
        with pytest.raises(KeyboardInterrupt):
            T.Compose([transform])(image)
    torch.manual_seed(3)
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(T.Compose([transform])(image)), daemon=True)
    thread.start()
    thread.join(60)
    np.testing.assert_array_equal(made[0], expected)  # no lock is held any more
    assert torch.equal(torch.get_rng_state(), after)


def test_draws_that_are_interrupted_anywhere_are_forgotten_once_the_user_seeds() -> None:
    """With the same seed, too; and other threads may draw."""
    pipeline = compile_pipeline(T.Compose([T.RandomHorizontalFlip(), T.RandomCrop(9)]))

    def drawn() -> tuple[str, torch.Tensor]:
        torch.manual_seed(3)
        return repr(pipeline.draw(ImageShape(61, 83))), torch.get_rng_state()

    expected, after = drawn()
    with futures.ThreadPoolExecutor(1) as other:
        at = 1
        while is_interrupted(drawn, at, generators_module, mt19937_module):
            found, state = other.submit(drawn).result(60)
            assert found == expected, at
            assert torch.equal(state, after)
            at += 1
    assert at > 40
