"""What every test shares: one thread per library, so that tests measure nothing and fight over nothing."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
# No deadline: speed belongs in benchmarks, and a slow machine is not a failed test.
settings.register_profile("fastpipe", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
settings.load_profile("fastpipe")


@pytest.fixture(autouse=True)
def _own_config(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own config, cache or reader choice."""
    home = tmp_path_factory.mktemp("fastpipe-home")
    monkeypatch.setenv("FASTPIPE_CONFIG", str(home / "config.toml"))
    monkeypatch.setenv("FASTPIPE_CACHE", str(home / "cache"))
    monkeypatch.delenv("FASTPIPE_READER", raising=False)
