"""The folder for the accounts of child processes: no process leaves it, however it ends, once another one has come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLED = """
import multiprocessing, os, signal
import fastpipe
from fastpipe.hooks.ledger import LEDGER

fastpipe.install()
child = multiprocessing.get_context("fork").Process(target=print, args=("child",), kwargs={"flush": True})
child.start()
child.join()
print(LEDGER.folder(), flush=True)
if os.environ["HOW"] == "waits":
    input()
elif os.environ["HOW"] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif os.environ["HOW"] == "exits":
    os._exit(0)
"""


def process(how: str, temporary: Path) -> subprocess.Popen[str]:
    """A process that has had a child; its folder is in ``temporary``."""
    environment = {**os.environ, "HOW": how, "TMPDIR": str(temporary)}
    return subprocess.Popen(
        [sys.executable, "-c", KILLED], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def folder_of(running: subprocess.Popen[str]) -> Path:
    assert running.stdout is not None
    assert running.stdout.readline() == "child\n"
    return Path(running.stdout.readline().strip())


@pytest.mark.needs_fork
@pytest.mark.parametrize("how", ["killed", "exits"])
def test_a_later_process_removes_what_a_killed_one_left(how: str, tmp_path: Path) -> None:
    foreign = tmp_path / "fastpipe-accounts-of-mine"
    foreign.write_text("not a folder")
    killed = process(how, tmp_path)
    left = folder_of(killed)
    assert killed.wait(60) == (-signal.SIGKILL if how == "killed" else 0)
    living = process("waits", tmp_path)
    lives = folder_of(living)
    assert left.is_dir()  # too young to be sure that its process has ever had the lock
    for folder in (left, lives):
        os.utime(folder, (time.time() - 3600,) * 2)
    ends = process("ends", tmp_path)
    own = folder_of(ends)
    assert ends.wait(60) == 0
    assert not left.exists()
    assert not own.exists()
    assert lives.is_dir()
    living.communicate("\n", timeout=60)
    assert os.listdir(tmp_path) == [foreign.name]


def test_a_process_without_children_makes_none(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import multiprocessing.util, os, PIL.Image; os._exit(0)")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "fastpipe", "run", "script.py"]
    assert subprocess.run(command, env={**os.environ, "TMPDIR": str(temporary)}, cwd=tmp_path).returncode == 0
    assert os.listdir(temporary) == []
