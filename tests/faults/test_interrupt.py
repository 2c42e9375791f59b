"""Ctrl-C, and the end of the main process: the workers go, and the terminal shows one process's traceback."""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faults.photos import write_photos

import fastpipe
from fastpipe import transforms as T
from fastpipe.loading.worker import _print_error
from fastpipe.loading.worker_monitor import MonitoredIterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals to a process group are POSIX")

TRAINING = """
import signal, sys, time
import torch
import fastpipe
from fastpipe import transforms as T

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    root, method = sys.argv[1:]
    dataset = fastpipe.ImageFolder(root, T.Compose([T.RandomResizedCrop(24), T.ToTensor()]), threads=2)
    sampler = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=10**9)
    loader = fastpipe.DataLoader(dataset, 4, sampler=sampler, num_workers=2, multiprocessing_context=method)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    print(*[worker.pid for worker in batches.iterator._workers], flush=True)
    for batch in batches:
        time.sleep(0.001)
"""

ENDING = """
import os, sys, time
import torch
import fastpipe
from fastpipe import transforms as T

PARENT = int(os.environ.setdefault("PARENT", str(os.getpid())))

def begun_after_the_parent(worker):
    while os.getppid() == PARENT:
        time.sleep(0.01)

if __name__ == "__main__":
    dataset = fastpipe.ImageFolder(sys.argv[1], T.Compose([T.RandomResizedCrop(24), T.ToTensor()]))
    context = torch.multiprocessing.get_context(sys.argv[2])
    loader = fastpipe.DataLoader(
        dataset, 4, num_workers=1, multiprocessing_context=context, worker_init_fn=begun_after_the_parent
    )
    batches = iter(loader)
    print(*[worker.pid for worker in torch.multiprocessing.active_children()], flush=True)
    os.kill(PARENT, 9)
"""

Training = tuple[subprocess.Popen[str], list[int]]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Training]]:
    """Starts a process that trains for ever, in a process group of its own; gives it and the pids of its workers."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "train.py").write_text(TRAINING)
    write_photos(folder / "photos")
    started: list[subprocess.Popen[str]] = []

    def run(method: str) -> Training:
        if method == "fork" and sys.platform != "linux":
            pytest.skip("forks")
        process = subprocess.Popen(
            [sys.executable, str(folder / "train.py"), str(folder / "photos"), method],
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        started.append(process)
        assert process.stdout is not None
        workers = [int(pid) for pid in process.stdout.readline().split()]
        assert len(workers) == 2, process.communicate()[1]
        return process, workers

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:  # whoever takes care of orphans here may leave them as zombies
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def all_gone(pids: list[int]) -> bool:
    while not all(gone(pid) for pid in pids):  # the guard of these tests ends what hangs
        time.sleep(0.02)
    return True


def processes_that_print(errors: str) -> int:
    """The number of tracebacks; exceptions that came up while others were handled are one process's, and one."""
    assert not re.search(r"^Process \S+:$", errors, re.MULTILINE), (
        f"what multiprocessing puts above a worker's: {errors}"
    )
    chained = re.findall(r"^(During handling of the above|The above exception was the direct)", errors, re.MULTILINE)
    return errors.count("Traceback (most recent call last)") - len(chained)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_interrupt_ends_everything_with_the_traceback_of_one_process(start, method):
    process, workers = start(method)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert all_gone(workers)
    assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT, 1)
    assert processes_that_print(errors) == 1
    assert errors.strip().endswith("KeyboardInterrupt")
    assert len(errors.splitlines()) <= 8  # the user's line and the loader's, and none of where torch waits


@pytest.mark.parametrize(
    "place", ["fastpipe.loading.statistics.samples_in", "fastpipe.loading.iteration.Iteration._touch"]
)
def test_an_interrupt_between_batches_shows_one_line_of_the_loader(tmp_path, monkeypatch, place):
    def interrupted(*given):
        raise KeyboardInterrupt

    batches = iter(fastpipe.DataLoader(fastpipe.ImageFolder(write_photos(tmp_path), T.ToTensor())))
    monkeypatch.setattr(place, interrupted)
    with pytest.raises(KeyboardInterrupt) as info:
        next(batches)
    assert [entry.name for entry in info.traceback][1:] == ["__next__"]


@pytest.mark.parametrize("error", [EOFError(), ConnectionResetError(), ValueError("a worker's own")], ids=repr)
def test_a_worker_that_sends_memory_to_a_process_that_ends_prints_nothing(capsys, error):
    """The processes' handshake ends at once, or in the middle of a message."""
    _print_error(type(error), error, None)
    assert capsys.readouterr().err == ("ValueError: a worker's own\n" if isinstance(error, ValueError) else "")


@pytest.mark.slow
def test_workers_follow_a_main_process_that_was_killed(start):
    process, workers = start("fork")
    process.kill()
    process.communicate()
    assert all_gone(workers)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_ends_whose_main_process_has_ended_before_it_began(photos, tmp_path, method):
    if method == "fork" and sys.platform != "linux":
        pytest.skip("forks")
    (tmp_path / "ending.py").write_text(ENDING)
    ended = subprocess.run(
        [sys.executable, tmp_path / "ending.py", photos, method],
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    workers = [int(pid) for pid in ended.stdout.split()]
    assert len(workers) == 1
    assert all_gone(workers)


@pytest.fixture
def interrupt_at_fork() -> Iterator[list[str]]:
    """A list of moments of a fork, "before" or "after_in_parent", at which Ctrl-C comes, once."""
    moments: list[str] = []

    def interrupt(moment: str) -> None:
        if moment in moments:
            moments.remove(moment)
            signal.raise_signal(signal.SIGINT)

    # They stay until the process ends, and do nothing once the list is empty.
    os.register_at_fork(
        before=functools.partial(interrupt, "before"), after_in_parent=functools.partial(interrupt, "after_in_parent")
    )
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield moments
    signal.signal(signal.SIGINT, handler)
    moments.clear()


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux")
@pytest.mark.parametrize("moment", ["before", "after_in_parent"])
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_while_a_worker_is_forked_is_not_lost(tmp_path, interrupt_at_fork, moment):
    """Python ignores what is raised in a function of ``os.register_at_fork``."""
    loader = fastpipe.DataLoader(fastpipe.ImageFolder(write_photos(tmp_path), T.ToTensor()), num_workers=2)
    interrupt_at_fork.append(moment)
    with pytest.raises(KeyboardInterrupt):
        iter(loader)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert all_gone([worker.pid for worker in multiprocessing.active_children()])
    assert len(list(loader)) == len(loader)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("persistent", [False, True])
def test_an_interrupt_while_workers_end_with_their_iterator_is_not_lost(tmp_path, monkeypatch, persistent):
    """Python ignores what is raised in ``__del__``, where torch ends the workers of a loop that was broken off."""
    end = MonitoredIterator._shutdown_workers

    def interrupted(self):
        signal.raise_signal(signal.SIGINT)
        end(self)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    dataset = fastpipe.ImageFolder(write_photos(tmp_path), T.ToTensor())
    loader = fastpipe.DataLoader(dataset, num_workers=2, persistent_workers=persistent)
    try:
        gc.collect()  # ends the workers of loops that other tests broke off
        batches = iter(loader)
        next(batches)
        workers = [worker.pid for worker in multiprocessing.active_children()]
        assert len(workers) == 2
        monkeypatch.setattr(MonitoredIterator, "_shutdown_workers", interrupted)
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it comes after the first of these lines
            del batches, loader
            time.sleep(60)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert all_gone(workers)
    finally:
        signal.signal(signal.SIGINT, before)
