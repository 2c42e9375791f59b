"""A store, and growing datasets on it that fetch in the test's own process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from growing.growing_store import SIZE, Store, go_on

import fastpipe
from fastpipe import transforms as T
from fastpipe.growing import prefetch_process
from fastpipe.growing.dataset import GrowingDataset
from fastpipe.sources import Cache


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetching is done in this process, where the test says so or somebody waits, and a few samples at a time."""
    monkeypatch.setattr(GrowingDataset, "_fetch", lambda self: None)
    monkeypatch.setattr(GrowingDataset, "_wait", lambda self: go_on(self, 1))
    monkeypatch.setattr(GrowingDataset, "__getstate__", lambda self: {**self.__dict__, "_here": None})
    monkeypatch.setattr(prefetch_process, "_AT_ONCE", 4)


@pytest.fixture
def make(here: None, store: Store, tmp_path: Path) -> Callable[..., GrowingDataset]:
    def make(capacity: int = 1000, start: int = 10, growth: float = 1.5) -> GrowingDataset:
        cache = Cache(tmp_path / "cache", capacity * SIZE)
        source = fastpipe.ImageFolder(store, T.PILToTensor(), index=None)
        return GrowingDataset(source, cache, start=start, growth=growth, seed=5)

    return make
