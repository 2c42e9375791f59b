"""Photos to lose, processes to lose, and a guard: what hangs fails instead."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.photos import write_photos

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
    return write_photos(tmp_path / "photos")


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Callable[..., tuple[int | None, str]]]:
    """Runs a function in a process of its own, and gives its exit status (1: it raised) and what it printed.

    For what torch's handler of SIGCHLD, a changed user or a small limit must not reach the tests' own process with. The
    process is forked and leads a session of its own, which is killed when the test ends.
    """
    if not hasattr(os, "fork"):
        pytest.skip("forks")
    log = tmp_path / "apart.txt"
    started: list[Any] = []

    def run(function: Callable[..., object], *arguments: object) -> tuple[int | None, str]:
        process = multiprocessing.get_context("fork").Process(target=_alone, args=(log, function, arguments))
        started.append(process)
        process.start()
        process.join()
        return process.exitcode, log.read_text()

    yield run
    for process in started:
        if process.is_alive():
            process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _alone(log: Path, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
    os.setsid()
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115  # pytest's are others
    function(*arguments)
