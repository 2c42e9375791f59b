"""Photos to lose, and a guard: what hangs fails instead."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import corpus
import pytest

HANG_S = 120


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    """Far beyond what any of these tests takes: this is no time limit, but a hang must be a failure."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def fail(*_: object) -> None:
        raise AssertionError(f"this hangs: nothing for {HANG_S} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(HANG_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """24 JPEGs in two classes, ``class0/00.jpg`` to ``class1/23.jpg``, which the test may damage."""
    root = tmp_path / "photos"
    for number in range(24):
        path = root / f"class{number // 12}" / f"{number:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(corpus.jpeg(40 + number, 60, seed=number))
    return root
