"""Small scripts run as `python` runs them, and by ``fastpipe run``, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parent


def variables(**more: str) -> dict[str, str]:
    """The environment of a process that finds the tests' helpers and this checkout."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "COLUMNS": "1000", **more}


def run_python(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A finished process of this Python's, which finds the tests' helpers and this checkout."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env=variables(**environment),
        timeout=300,
        check=False,
    )


def both_ways(
    arguments: Sequence[str], cwd: Path, options: Sequence[str] = ("-q",)
) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """The same command line plainly, and by ``python -m fastpipe run``."""
    return run_python(*arguments, cwd=cwd), run_python("-m", "fastpipe", "run", *options, *arguments, cwd=cwd)
