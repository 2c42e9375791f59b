"""A program that ends, whichever way, while threads make batches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ENDS = """if True:
    import os, signal, sys, threading, time
    import torch, fastpipe
    from fastpipe import transforms as T
    signal.signal(signal.SIGINT, signal.default_int_handler)
    data = fastpipe.ImageFolder(sys.argv[1], T.Compose([T.RandomResizedCrop(64), T.ToTensor()]))
    sampler = torch.utils.data.RandomSampler(data, replacement=True, num_samples=10**9)
    loader = fastpipe.DataLoader(data, 16, sampler=sampler, threads=3, prefetch_factor=8)
    batches = iter(loader)
    next(batches)
    print("begun", flush=True)
    how = sys.argv[2]
    if how == "exit":
        sys.exit(3)
    if how == "os._exit":
        os._exit(3)
    if how == "error":
        raise ValueError("three")
    if how == "loop":
        for batch in batches:
            time.sleep(0.001)
"""


# Imports take most of a process's time, so one makes them for all: its children are processes of their own that have
# no thread yet, and each goes on below to its end.
FORKS = """if True:
    import json, os, sys
    import torch, fastpipe
    found = []
    for how in sys.argv[2:]:
        for trial in range(3):
            child = os.fork()
            if child == 0:
                os.dup2(os.open(f"{how} {trial}", os.O_CREAT | os.O_WRONLY), 2)
                sys.argv[2:] = [how]
                break
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            found.append([how, status, open(f"{how} {trial}").read()])
        else:
            continue
        break
    else:
        print(json.dumps(found))
        sys.exit(0)
"""
STATUS = {"end": 0, "exit": 3, "os._exit": 3, "error": 1}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_the_process_ends(root, tmp_path):
    command = [sys.executable, "-c", FORKS + ENDS.removeprefix("if True:\n"), str(root), *STATUS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    *begun, found = done.stdout.splitlines()
    assert begun == ["begun"] * 12
    for how, status, errors in json.loads(found):
        assert status == STATUS[how], errors
        assert errors.count("Traceback") == (how == "error"), errors
        assert "terminate called" not in errors


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals to a process are POSIX")
def test_interrupt(root):
    command = [sys.executable, "-c", ENDS, str(root), "loop"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode in (-signal.SIGINT, 130, 1)
    assert errors.strip().endswith("KeyboardInterrupt")
    assert len(errors.splitlines()) <= 12


ENDING = """if True:
    import sys, time
    import fastpipe
    from fastpipe.loading.batch_maker import BatchMaker

    def slow_to_end(self, run=BatchMaker._run):
        run(self)
        time.sleep(0.3)
        print("ended", flush=True)

    BatchMaker._run = slow_to_end
    list(fastpipe.DataLoader(fastpipe.ImageFolder(sys.argv[1], transform=fastpipe.transforms.ToTensor()), threads=1))
    print("made")
"""


def test_the_process_waits_for_a_thread_that_has_made_its_last_batch(root):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", ENDING, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert (done.stdout, done.returncode) == ("made\nended\n", 0), done.stderr
