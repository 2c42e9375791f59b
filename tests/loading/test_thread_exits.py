"""A program that ends, whichever way, while threads make batches."""

from __future__ import annotations

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
    for batch in batches:
        time.sleep(0.001)
"""


@pytest.mark.parametrize(("how", "status"), [("end", 0), ("exit", 3), ("os._exit", 3), ("error", 1)])
def test_the_process_ends(root, how, status):
    code = ENDS.split("    for batch in")[0] if how == "end" else ENDS
    command = [sys.executable, "-c", code, str(root), how]
    for _ in range(3):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert done.returncode == status, done.stderr
        assert done.stdout == "begun\n"
        assert done.stderr.count("Traceback") == (how == "error"), done.stderr
        assert "terminate called" not in done.stderr


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
