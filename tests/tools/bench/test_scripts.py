"""`scripts/demo` runs from end to end."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torchvision_here import torchvision

from fastpipe.config import MachineConfig
from fastpipe.tools.bench.samples import make_folder

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


def run_script(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=_utf8(), check=False)


def demo_module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """`benchmarks/demo.py`, imported."""
    spec = importlib.util.spec_from_file_location("demo", BENCHMARKS / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "demo", module)  # dataclasses look there for their module
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec.loader.exec_module(module)
    return module


def _utf8() -> dict[str, str]:
    return {**os.environ, "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "given"
    make_folder(root, 1, 3, kinds=("jpeg-420", "png", "jpeg-444"), sizes=((120, 161),))
    return root


@pytest.mark.slow
def test_the_demo_on_photos_of_the_user_s_leaves_nothing_but_its_folder(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(photos.rglob("*"))
    out, home = tmp_path / "out", tmp_path / "home"
    home.mkdir()
    for name in ("FASTPIPE_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA"):
        monkeypatch.setenv(name, str(home))
    ran = run_script("demo.py", photos, "--out", out, "--rounds", 1)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    table = ran.stdout.partition("fastpipe beside torchvision")[2].splitlines()
    rows = [line.split("|")[1].strip() for line in table if line.startswith("|")]
    assert {"samples, training, uint8", "samples, training, float", "samples, evaluation, float"} <= set(rows)
    workers = [name.partition(", ")[2] for name in rows if "worker" in name]
    assert workers == ["fastpipe run", "imports swapped", "fastpipe.DataLoader"]
    told = " ".join(ran.stdout.split())  # the caption has lines as long as the table's
    assert "imports swapped: fastpipe's ImageFolder and transforms in torch's DataLoader" in told
    after = ran.stdout.partition("Comparing finished samples")[2]
    assert [f"Timing {what}: round 1 of 1 ..." in after for what in ("one process", "loaders with workers")] == [
        True,
        True,
    ]
    assert "NOT EQUAL" not in ran.stdout
    assert "\x1b" not in ran.stdout
    assert MachineConfig.load(out / "config.toml").readers.keys() == {"jpeg", "png"}
    assert not MachineConfig.path().exists()
    assert sorted(photos.rglob("*")) == before
    assert not [*home.rglob("*")]
    again = run_script("demo.py", photos, "--out", out)
    assert again.returncode == 1
    assert "exists already" in again.stderr


def test_the_demo_counts_one_changed_bit_as_another_sample(monkeypatch: pytest.MonkeyPatch, photos: Path) -> None:
    demo = demo_module(monkeypatch)

    def compared() -> list[tuple[str, bool | None]]:
        return [(row.result, row.good) for row in demo.compare_samples({"all": photos}, MachineConfig(), torchvision)]

    assert compared() == [("all 3 equal", True)] * 3
    plain = demo.fastpipe.ImageFolder.__getitem__

    def changed(dataset: Any, index: int) -> Any:
        image, label = plain(dataset, index)
        if index == 1:
            image.view(torch.uint8).view(-1)[7] ^= 1
        return image, label

    monkeypatch.setattr(demo.fastpipe.ImageFolder, "__getitem__", changed)
    assert compared() == [("2 of 3: NOT EQUAL", False)] * 3


@pytest.mark.slow
def test_the_demo_on_nothing(tmp_path: Path) -> None:
    ran = run_script("demo.py", tmp_path / "missing")
    assert ran.returncode == 1
    assert ran.stderr.startswith("demo: error: there is no")
