"""`endurance.py` on a few files: it keeps its promises, and notices when one is broken."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().with_name("endurance.py")
SMALL = ["--files", "90", "--height", "40", "--epochs", "3", "--workers", "2", "--batch-size", "8", "--bad", "0.1"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers that are forked find a module of a test's own")


@pytest.fixture(scope="module")
def endurance():
    pytest.importorskip("psutil")
    spec = importlib.util.spec_from_file_location("endurance", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


def test_nothing_is_lost(endurance, tmp_path, capsys):
    endurance.main([*SMALL, "--json", str(tmp_path / "figures.json")])
    outcomes = json.loads((tmp_path / "figures.json").read_text())
    assert [outcome["policy"] for outcome in outcomes] == ["skip", "replace"]
    for outcome in outcomes:
        # Three epochs are too few to tell growth from warming up.
        assert all(kept for promise, kept in outcome["kept"].items() if promise != "memory")
        assert (outcome["good"], outcome["bad"]) == (81, 9)
        assert [epoch["skipped"] + epoch["replaced"] for epoch in outcome["epochs"]] == [9, 9, 9]
    assert "once: kept" in capsys.readouterr().out


def test_a_lost_sample_is_noticed(endurance, monkeypatch, capsys):
    given = endurance.fastpipe.DataLoader.__iter__

    def all_but_the_last(self):
        batches = list(given(self))
        return iter(batches[:-1])

    monkeypatch.setattr(endurance.fastpipe.DataLoader, "__iter__", all_but_the_last)
    assert endurance.main([*SMALL[:-6], "--epochs", "1", "--workers", "0"]) == 1
    assert "once: BROKEN" in capsys.readouterr().out


def test_growth_is_noticed(endurance):
    assert endurance.flat([50, 90, 100, 101, 99, 100, 101, 101])
    assert not endurance.flat([50, 90, 100, 101, 103, 104, 105, 106])
