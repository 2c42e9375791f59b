"""Processes that share a growing dataset's folder: they fetch, decide, fork, are killed or interrupted."""

from __future__ import annotations

import multiprocessing
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from growing.growing_store import COUNT, SIZE, Store, go_on, order

import fastpipe
from fastpipe.growing import prefetch_process
from fastpipe.growing.dataset import GrowingDataset
from fastpipe.growing.prefetch_process import run_prefetcher
from fastpipe.growing.state import Window
from fastpipe.sources import Cache


class Told(Store):
    """Writes a byte to a pipe for each read."""

    def __init__(self, pipe: int, count: int) -> None:
        super().__init__(count)
        self.pipe = pipe

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        os.write(self.pipe, b".")
        return super().read(key, offset, length)


@pytest.mark.needs_fork
def test_a_process_that_is_killed_loses_doubles_and_spoils_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch_process, "_AT_ONCE", 5)
    reading, writing = os.pipe()
    store, count = Told(writing, 200), 200
    cache = Cache(tmp_path / "cache", 90 * SIZE)
    monkeypatch.setattr(GrowingDataset, "_fetch", lambda self: None)
    grown = GrowingDataset(fastpipe.ImageFolder(store, index=None), cache, start=20, seed=5)
    arriving = order(grown, count) * 9
    chance = random.Random(0)
    index = grown.dataset.samples.index_
    before = Window(0, 0)
    for epoch in range(9):
        process = multiprocessing.get_context("fork").Process(
            target=run_prefetcher, args=(index, grown._order, grown._state)
        )
        while select.select([reading], [], [], 0)[0]:
            os.read(reading, 1000)
        started = time.time()
        process.start()
        for _ in range(chance.randrange(1, 60)):
            while not select.select([reading], [], [], 0.01)[0]:
                progress = grown._state.progress()
                if progress.idle and progress.written > started:
                    break
            else:
                os.read(reading, 1)
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        assert cache.statistics().bytes <= 90 * SIZE
        window = grown._state.decide(epoch)
        if window is None:
            continue
        assert (window.first, window.stop) >= (before.first, before.stop)
        before = window
        grown.set_epoch(epoch)
        files = index.paths(np.array(grown.indices))
        assert [int(str(file)[-7:-4]) for file in files] == arriving[window.first : window.stop]
        assert len(set(files)) == len(files)
        for file in files:
            place = cache.find(file)
            assert place is not None
            assert Path(place.container).read_bytes() == store.files[file.key]
    assert before.stop > 60
    assert cache.check() == 0


@pytest.mark.needs_fork
def test_processes_that_decide_at_once_agree(
    make: Callable[..., GrowingDataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = make()
    go_on(grown)
    latest = grown._state.latest

    def slowly() -> Window:
        time.sleep(0.05)
        return latest()

    def decide() -> None:
        for epoch in range(3):
            grown._state.begin(grown._state.decide(epoch) or Window(0, 0))

    monkeypatch.setattr(grown._state, "latest", slowly)
    children = [multiprocessing.get_context("fork").Process(target=decide) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert [grown._window(epoch).number for epoch in range(3)] == [1, 2, 3]
    assert grown._state.begun().number == 3


def test_a_decision_that_is_interrupted_leaves_what_was_there(
    make: Callable[..., GrowingDataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = make()
    first = grown._window(0)
    add = grown._state._add

    def add_and_stop(epoch: int, window: Window) -> None:
        add(epoch, window)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(grown._state, "_add", add_and_stop)
        with pytest.raises(KeyboardInterrupt):
            grown._state.decide(1)
    assert grown._state.window(1) is None
    assert grown._state.latest() == grown._state.window(0) == first
    assert grown._window(1).number == 2


def test_files_of_an_older_layout_are_nothing(make: Callable[..., GrowingDataset], tmp_path: Path) -> None:
    folder = Path(make()._state.fetching_lock.lock_file).parent
    (folder / "epochs.json").write_text('{"latest": [0, 2, [], 2, 1], "epochs": {"0": [0, 2, [], 2, 1]}}')
    (folder / "arrived.json").write_text('{"stop": 2}')
    assert len(make()) == 12


def test_the_process_fetches_while_another_one_does_not(store: Store, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 1000 * SIZE)
    grown, other = (GrowingDataset(fastpipe.ImageFolder(store, index=None), cache, start=30) for _ in range(2))
    try:
        assert len(grown) >= 30
        assert len(grown) == len(other)
        assert not store.reads  # it was a process of its own
        for _ in range(600):  # the one that comes too late has to notice that first
            leaders = [one for one in (grown, other) if one._process is not None and one._process.is_alive()]
            if len(leaders) == 1:
                break
            time.sleep(0.05)
        assert len(leaders) == 1
        os.kill(leaders[0]._process.pid, signal.SIGKILL)
        leaders[0]._process.join()
        epoch = 0
        while len(other) < COUNT:  # another one takes over
            assert other.indices[0] in other.indices
            epoch += 1
            other.set_epoch(epoch)
            other._wait()
        assert len(set(other.indices)) == COUNT
    finally:
        grown.close()
        other.close()
    assert grown._state.fetching_lock.acquire(timeout=5)


@pytest.mark.needs_fork
def test_a_forked_process_decides_an_epoch_while_its_parent_fetches(store: Store, tmp_path: Path) -> None:
    grown = GrowingDataset(fastpipe.ImageFolder(store, index=None), Cache(tmp_path / "cache", "1 MB"), start=10)
    try:
        assert len(grown) >= 10
        child = multiprocessing.get_context("fork").Process(target=grown.length_at, args=(1,), daemon=True)
        child.start()
        child.join()
        assert child.exitcode == 0
        assert grown._state.window(1) is not None
    finally:
        grown.close()


_FETCHING = """
import multiprocessing, sys
import fastpipe
from fastpipe.sources import Cache
from growing.growing_store import SIZE, Store

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    source = fastpipe.ImageFolder(Store(), index=None)
    grown = fastpipe.GrowingDataset(source, Cache(sys.argv[2], 1000 * SIZE), start=30)
    assert len(grown) >= 30
    print(grown._process.pid, flush=True)
    input()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has one start method, and that is the default")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_process_is_started_in_any_way_and_ends_with_its_parent(method: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_FETCHING)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen(
        [sys.executable, script, method, tmp_path / "cache"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with parent:
        assert parent.stdout is not None
        fetching = int(parent.stdout.readline())
        os.kill(fetching, 0)
        parent.kill()
    for _ in range(600):
        try:
            os.kill(fetching, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the process still fetches")
