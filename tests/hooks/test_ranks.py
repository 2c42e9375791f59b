"""Ranks that torchrun and Lightning start as processes of their own have the hooks, too."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_scripts import run_python

from fastpipe.hooks import ranks
from fastpipe.hooks.patches import Patches

SCRIPT = """
import os, sys
from fastpipe.hooks import is_installed
with open(os.environ["RANK"], "w") as file:
    print(is_installed(), sys.argv, __name__, file=file)
"""

COMMAND = ("-m", "fastpipe", "run", "--check", "2")


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Patches]:
    monkeypatch.setattr(ranks.LAUNCH, "command", COMMAND)
    monkeypatch.setattr(ranks.LAUNCH, "is_launcher", False)
    patches = Patches()
    yield patches
    patches.undo()


@pytest.fixture
def launched(hooks: Patches, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """The programs, and their arguments, that torchrun is asked to start ranks of."""
    launcher = importlib.import_module("torch.distributed.launcher.api")
    programs: list[tuple[str, list[str]]] = []

    def launch_agent(config: Any, entrypoint: str, args: list[str], **_options: Any) -> None:
        programs.append((entrypoint, args))

    monkeypatch.setattr(launcher, "launch_agent", launch_agent)
    ranks.hook(launcher, hooks)
    return programs


def torchrun(*words: str) -> None:
    run = importlib.import_module("torch.distributed.run")
    run.run(run.parse_args(["--standalone", *words]))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train.py", "-x"], ["-u", *COMMAND, "train.py", "-x"]),
        (["-m", "package.train"], ["-u", *COMMAND, "-m", "package.train"]),
        (["-m", "fastpipe", "run", "train.py"], ["-u", "-m", "fastpipe", "run", "train.py"]),
    ],
)
def test_torchrun_starts_its_ranks_by_fastpipe(launched: Any, words: list[str], expected: list[str]) -> None:
    torchrun(*words)
    assert launched == [(sys.executable, expected)]
    assert ranks.LAUNCH.is_launcher


def test_what_is_no_python_stays_as_it_is(launched: Any) -> None:
    torchrun("--no-python", "fastpipe", "run", "train.py")
    assert launched == [("fastpipe", ["run", "train.py"])]
    assert not ranks.LAUNCH.is_launcher


def test_nothing_is_done_in_a_process_that_fastpipe_does_not_run(
    launched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks.LAUNCH, "command", ())
    torchrun("train.py")
    assert launched == [(sys.executable, ["-u", "train.py"])]
    assert not ranks.LAUNCH.is_launcher


@pytest.mark.slow
def test_lightning_starts_its_other_ranks_by_fastpipe(hooks: Patches, monkeypatch: pytest.MonkeyPatch) -> None:
    import torchvision_here  # noqa: F401 # lightning imports torchvision

    module = pytest.importorskip("lightning.fabric.strategies.launchers.subprocess_script")
    ranks.hook(module, hooks)
    script = type(sys)("__main__")
    script.__spec__ = None
    monkeypatch.setitem(sys.modules, "__main__", script)
    monkeypatch.setattr(sys, "argv", ["train.py", "--epochs", "2"])
    words = [str(Path("train.py").resolve()), "--epochs", "2"]
    assert module._basic_subprocess_cmd() == [sys.executable, *COMMAND, *words]


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({}, "0"),
        ({"RANK": "0", "LOCAL_RANK": "0"}, "0"),
        ({"RANK": "9", "LOCAL_RANK": "1", "SLURM_PROCID": "1"}, "9"),
        ({"SLURM_PROCID": "3"}, "3"),
        ({"LOCAL_RANK": "1"}, "1"),
        ({"OMPI_COMM_WORLD_RANK": "2", "RANK": ""}, "2"),
    ],
)
def test_the_rank_is_what_the_launcher_says(
    variables: dict[str, str], rank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ranks.rank() == rank


@pytest.mark.slow
def test_a_launcher_that_fastpipe_runs_leaves_the_report_to_its_ranks(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "script.py", "-x"]
    made = run_python("-m", "fastpipe", "run", "--report", "report.json", *launcher, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    for rank in ("0", "1"):
        assert (tmp_path / rank).read_text() == "True ['script.py', '-x'] __main__\n"
    assert sorted(path.name for path in tmp_path.glob("report*")) == ["report.json", "report.rank1.json"]
    assert made.stderr.count("nothing was accelerated") == 1
