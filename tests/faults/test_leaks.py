"""Thousands of times opened, used and let go: no descriptor, thread, shared memory or memory is left."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import bad_files
import numpy as np
import psutil
import pytest
import torch
from faults.photos import write_photos

import fastpipe
from fastpipe import readers
from fastpipe import transforms as T
from fastpipe.executor import BatchSpec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

TRANSFORM = T.Compose([T.RandomResizedCrop(24), T.ToTensor()])
QUIET = {"bad_files_log": None, "max_bad_fraction": 1}
GROWTH = 700_000
"""Bytes that a part of the cycles may add to the process's memory in each of its rounds.

A page (4 KB) a cycle that stays behind is 0.8 MB for what is opened least often, threads and workers aside; measured
are 0 to 0.1 MB, and 0.3 for threads: OpenCV keeps 0.9 KB for each that has used it and ended, which is one reason why a
dataset with ``threads`` has the same ones for as long as it lives.
"""


def open_and_let_go(name: str, root: Path, location: Path, broken: Path) -> None:
    if name == "readers":
        path = root / "class0" / "01.jpg"
        readers.read_image(path, region=(3, 4, 20, 30))
        readers.read_header(path)
        for bad in (broken, root, root / "missing.jpg"):
            with contextlib.suppress(OSError):
                readers.read_image(bad)
        return
    index = fastpipe.ImageIndex.from_folder(root, location=location)
    if name == "indexes":
        assert len(index) == 24
        return
    threads = 2 if name == "threads" else 0
    dataset = fastpipe.ImageFolder(
        index.root, TRANSFORM, index=index, threads=threads, on_error="skip", bad_files_log=None
    )
    if name in ("datasets", "threads"):
        assert dataset[3][0].shape == (3, 24, 24)
        assert len(dataset.__getitems__([1, 2])) == 2
    elif name == "loaders":
        next(iter(fastpipe.DataLoader(dataset, 4)))  # and broken off
    else:
        assert len(list(fastpipe.DataLoader(dataset, 12, num_workers=2))) == 2


def state() -> tuple[tuple[int, int, int], int]:
    """Descriptors, segments of shared memory and child processes; and bytes of memory."""
    gc.collect()
    process = psutil.Process()
    while threading.active_count() > 1:  # those of a pool that nobody waits for; the guard ends what hangs
        time.sleep(0.01)
    mapped = sum("/dev/shm" in line for line in Path("/proc/self/maps").read_text().splitlines())
    return (process.num_fds(), mapped, len(process.children())), process.memory_info().rss


def cycles(one: Callable[[], None], count: int) -> None:
    """Runs half of the cycles to warm up, and the other half, again if memory grew, up to three times.

    A leak grows in each of these rounds. The allocator takes a piece of 1 to 2 MB once, at a moment that depends on
    what the process did before.
    """
    for _ in range(count // 2):
        one()
    left, memory = state()
    growths = []
    while not growths or (growths[-1] >= GROWTH and len(growths) < 3):
        for _ in range(count // 2):
            one()
        left_after, memory_after = state()
        assert left_after == left
        growths.append(memory_after - memory)
        memory = memory_after
    assert growths[-1] < GROWTH, f"{[round(more / 1e6, 2) for more in growths]} MB more in each round"


COUNTS = {"readers": 3000, "indexes": 600, "datasets": 500, "threads": 120, "loaders": 400, "workers": 8}


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_cycles_leave_nothing(tmp_path, apart, name):
    root = write_photos(tmp_path / "photos")
    broken = tmp_path / "broken.jpg"
    broken.write_bytes((root / "class0" / "01.jpg").read_bytes()[:500])
    status, printed = apart(cycles, partial(open_and_let_go, name, root, tmp_path / "index", broken), COUNTS[name])
    assert status == 0, printed


def meet_bad_files(index: fastpipe.ImageIndex) -> None:
    gc.disable()
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    for policy, threads in itertools.product(("skip", "replace", lambda bad: None), (0, 2)):
        dataset = fastpipe.ImageFolder(index.root, TRANSFORM, index=index, threads=threads, on_error=policy, **QUIET)
        for start in range(0, 24, 4):
            dataset.batch(range(start, start + 4), BatchSpec())
    gc.collect()
    held = [type(one).__name__ for one in gc.garbage if isinstance(one, (torch.Tensor, np.ndarray, FrameType))]
    assert held == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fastpipe.errors.FastpipeWarning")
def test_bad_files_hold_no_batch(tmp_path, apart):
    """The error of a file is kept until its batch is done: a ring of both would last until Python's collector comes."""
    index = fastpipe.ImageIndex.from_folder(write_photos(tmp_path / "photos"), location=None)
    for number, kind in enumerate(bad_files.KINDS):
        bad_files.spoil(index.path(4 * number + 1), kind)
    status, printed = apart(meet_bad_files, index)
    assert status == 0, printed
