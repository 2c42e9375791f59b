"""The scripts of `benchmarks/` that belong to the reader benchmark run from end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastpipe.config import MachineConfig
from fastpipe.tools.bench.samples import make_folder

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


def run_script(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=_utf8(), check=False)


def _utf8() -> dict[str, str]:
    return {**os.environ, "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "given"
    make_folder(root, 1, 3, kinds=("jpeg-420", "png", "jpeg-444"), sizes=((120, 161),))
    return root


@pytest.mark.slow
def test_readers(photos: Path) -> None:
    ran = run_script("readers.py", photos, "--readers", "pil", "--workers", 0, "--rounds", 1, "--json", "-")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["formats"]["jpeg"]["images"] == 2


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
    for promise in ("regions equal Pillow's", "DataLoader"):
        assert promise in ran.stdout
    assert " NO " not in ran.stdout
    assert "\x1b" not in ran.stdout
    assert MachineConfig.load(out / "config.toml").readers.keys() == {"jpeg", "png"}
    assert not MachineConfig.path().exists()
    assert sorted(photos.rglob("*")) == before
    assert not [*home.rglob("*")]
    again = run_script("demo.py", photos, "--out", out)
    assert again.returncode == 1
    assert "exists already" in again.stderr


@pytest.mark.slow
def test_the_demo_on_nothing(tmp_path: Path) -> None:
    ran = run_script("demo.py", tmp_path / "missing")
    assert ran.returncode == 1
    assert ran.stderr.startswith("demo: error: there is no")
