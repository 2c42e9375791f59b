"""`fastpipe.GrowingDataset`: what each epoch has, whoever asks, whatever the store does and whoever is killed."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
import pickle
import random
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch

import fastpipe
from fastpipe import samplers
from fastpipe import transforms as T
from fastpipe.errors import DatasetError, FastpipeWarning, StoreError
from fastpipe.growing import dataset as growing_dataset
from fastpipe.growing import prefetch_process
from fastpipe.growing.dataset import GrowingDataset
from fastpipe.growing.prefetch_process import Prefetcher, run_prefetcher
from fastpipe.growing.state import Window
from fastpipe.loading.permutation import Permutation
from fastpipe.sources import ByteSource, Cache, Entry

COUNT = 60
SIZE = 4096  # a file's, and so what it takes in the cache


class Store(ByteSource):
    """Small images in memory; reading one that is in `broken` raises that."""

    def __init__(self, count: int = COUNT) -> None:
        self.files = {f"class_{n % 3}/{n:03}.png": image(n) for n in range(count)}
        self.broken: dict[str, Exception] = {}
        self.reads: list[str] = []

    @property
    def name(self) -> str:
        return "store:"

    def list(self) -> Iterable[Entry]:
        return [Entry(key, len(data), hashlib.md5(data).hexdigest()) for key, data in self.files.items()]

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        self.reads.append(key)
        if key in self.broken:
            raise self.broken[key]
        data = self.files[key][offset:]
        return data if length < 0 else data[:length]


def image(number: int) -> bytes:
    return corpus.save(np.full((2, 3, 3), number, np.uint8), "PNG")


@pytest.fixture
def store() -> Store:
    return Store()


def go_on(grown: Any, steps: int = 1000) -> None:
    """Fetches so many times, as the process would."""
    if "_here" not in grown.__dict__:
        grown._here = Prefetcher(grown.dataset.samples.index_, grown._order, grown._state)
    while steps and grown._here.step():
        steps -= 1


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetching is done in this process, where the test says so or somebody waits, and a few samples at a time."""
    monkeypatch.setattr(GrowingDataset, "_fetch", lambda self: None)
    monkeypatch.setattr(GrowingDataset, "_wait", lambda self: go_on(self, 1))
    monkeypatch.setattr(GrowingDataset, "__getstate__", lambda self: {**self.__dict__, "_here": None})
    monkeypatch.setattr(prefetch_process, "_AT_ONCE", 4)


@pytest.fixture
def make(here: None, store: Store, tmp_path: Path) -> Callable[..., GrowingDataset]:
    def make(capacity: int = 1000, start: int = 10, growth: float = 1.5) -> GrowingDataset:
        cache = Cache(tmp_path / "cache", capacity * SIZE)
        source = fastpipe.ImageFolder(store, T.PILToTensor(), index=None)
        return GrowingDataset(source, cache, start=start, growth=growth, seed=5)

    return make


def numbers(grown: GrowingDataset) -> list[int]:
    """Which images an epoch has, by their pixels, in order of place."""
    return [int(grown[place][0][0, 0, 0]) for place in range(len(grown))]


def order(grown: GrowingDataset, count: int = COUNT) -> list[int]:
    """In which images arrive, by the permutation and the source's list alone."""
    paths = [path for path, _ in grown.dataset.samples]
    places = Permutation(count, (5, 0x67726F77)).at(np.arange(count))
    return [int(paths[place].rpartition("/")[2].removesuffix(".png")) for place in places]


def test_epochs_grow_by_what_has_arrived(make: Callable[..., GrowingDataset], store: Store) -> None:
    grown = make()
    arriving = order(grown)
    assert sorted(arriving) == list(range(COUNT))
    assert numbers(grown) == arriving[:12]  # whole steps of 4
    assert len(store.reads) == 12
    go_on(grown, 1)
    assert len(grown) == 12  # fixed within the epoch
    grown.set_epoch(1)
    assert numbers(grown) == arriving[:16]
    go_on(grown)
    for epoch, stop in ((2, 24), (3, 36), (4, 54), (5, 60), (6, 60)):  # half as many again, until all are there
        grown.set_epoch(epoch)
        assert numbers(grown) == arriving[:stop]
        go_on(grown)
    grown.set_epoch(1)
    assert numbers(grown) == arriving[:16]
    assert len(store.reads) == COUNT  # each once
    statistics = grown.statistics()
    assert (statistics.samples, statistics.new, statistics.arrived, statistics.evicted) == (16, 4, 60, 0)
    assert statistics.fetched_bytes == sum(map(len, store.files.values()))
    assert statistics.still_s == 0


def test_the_oldest_leave_where_the_cache_is_full(make: Callable[..., GrowingDataset], store: Store) -> None:
    grown = make(capacity=24)
    arriving = order(grown) * 3
    seen: set[int] = set()
    before = (0, 0)
    for epoch in range(12):
        grown.set_epoch(epoch)
        found = numbers(grown)
        window = grown._window(epoch)
        assert found == arriving[window.first : window.stop]
        assert len(set(found)) == len(found)
        assert window.first >= before[0]
        assert window.new == window.stop - max(before[1], window.first)
        before = window.first, window.stop
        reads = len(store.reads)
        assert numbers(grown) == found
        assert len(store.reads) == reads  # all of it is in the cache
        go_on(grown)
        assert grown.cache.statistics().bytes <= 24 * SIZE
        seen.update(found)
        if epoch > 2:
            assert len(found) == 16
            assert window.new == 8
    assert seen == set(range(COUNT))
    assert before[1] > COUNT  # it has begun anew
    assert grown.statistics().evicted == before[0]


def test_an_epoch_that_is_prepared_takes_nothing_from_the_one_that_runs(
    make: Callable[..., GrowingDataset], store: Store
) -> None:
    grown = make(capacity=24)
    for epoch in range(6):
        grown.set_epoch(epoch)
        assert len(grown.inner([0])) == 1
        go_on(grown)
        stop = grown.length_at(epoch + 1)  # as a loader does that makes its batches ahead
        go_on(grown)
        reads = len(store.reads)
        numbers(grown)
        assert len(store.reads) == reads
    assert stop == 16


def test_a_file_that_is_not_there_is_left_out(make: Callable[..., GrowingDataset], store: Store) -> None:
    grown = make()
    arriving = order(grown)
    key = {int(key[8:11]): key for key in store.files}
    for place in (0, 5, 11, 13):
        store.broken[key[arriving[place]]] = FileNotFoundError(2, "no such file")
    store.broken[key[arriving[6]]] = OSError("500 Internal Server Error")  # again and again
    expected = [number for place, number in enumerate(arriving) if place not in (0, 5, 6, 11, 13)]
    found = numbers(grown)
    assert found == expected[: len(found)]
    assert len(found) >= 8
    with pytest.raises(IndexError, match="place"):
        grown.inner([len(found)])
    for epoch in range(1, 7):
        go_on(grown)
        grown.set_epoch(epoch)
        found = numbers(grown)
        assert found == expected[: len(found)]
    assert found == expected
    assert grown.statistics().missing == 5


def test_a_store_that_fails_stops_nobody(
    make: Callable[..., GrowingDataset], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = make()
    assert len(numbers(grown)) == 12
    store.broken = dict.fromkeys(store.files, OSError("503 Slow Down"))
    go_on(grown, 1)
    now = time.time()
    monkeypatch.setattr(growing_dataset.time, "time", lambda: now + 90)
    grown.set_epoch(1)
    with pytest.warns(
        FastpipeWarning, match=r"nothing has arrived from store: for 90 s \(OSError: 503 Slow Down\)"
    ) as told:
        assert len(grown) == 12
    assert [one.filename for one in told] == [__file__]
    assert 89 < grown.statistics().still_s < 91
    store.broken.clear()
    go_on(grown)
    grown.set_epoch(2)
    assert len(grown) == 18


def test_a_store_that_fails_from_the_beginning_is_an_error(make: Callable[..., GrowingDataset], store: Store) -> None:
    store.broken = dict.fromkeys(store.files, OSError("403 Forbidden"))
    with pytest.raises(StoreError, match="nothing arrives from store:: OSError: 403 Forbidden"):
        len(make())
    store.broken.clear()
    with pytest.raises(DatasetError, match="no room for a single sample"):
        len(make(capacity=0))


def test_a_cache_too_small_for_the_first_epoch_is_an_error_that_says_which_would_do(
    make: Callable[..., GrowingDataset], store: Store, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError, match=r"start=40: .* full with 24 samples.* 16\. .*capacity of \d+ MB.*start=16"):
        len(make(capacity=24, start=40))
    assert len(make(capacity=24, start=16)) == 16

    files = {key: bytes(100_000 + 500 * number) for number, key in enumerate(store.files)}
    for capacity, start in ((500_000, 20), (1_000_000, 20)):
        store.files = files
        source = fastpipe.ImageFolder(store, index=None)
        with pytest.raises(DatasetError, match="capacity of") as caught:
            len(GrowingDataset(source, Cache(tmp_path / str(capacity), capacity), start=start))
        said = re.search(r"capacity of (\d+ MB).* or start=(\d+)", str(caught.value))
        assert said is not None
        assert len(GrowingDataset(source, Cache(tmp_path / f"more {capacity}", said[1]), start=start)) >= start
        fewer = GrowingDataset(source, Cache(tmp_path / f"fewer {capacity}", capacity), start=int(said[2]))
        assert len(fewer) >= int(said[2])


@pytest.mark.parametrize("how", ["threads", "workers", "torch"])
def test_loaders_give_each_sample_of_an_epoch_once(make: Callable[..., GrowingDataset], how: str) -> None:
    grown = make()
    expected = order(grown)
    len(grown)
    if how == "torch":
        loader: Any = torch.utils.data.DataLoader(grown, 4, shuffle=True)
    else:
        options = {"threads": 2} if how == "threads" else {"num_workers": 2}
        loader = fastpipe.DataLoader(grown, 4, shuffle=True, **options)
    for epoch in range(4):
        if how == "torch":
            grown.set_epoch(epoch)
        found = []
        for images, _ in loader:
            found += images[:, 0, 0, 0].tolist()
            go_on(grown, 1)
        stop = grown._window(epoch).stop
        assert sorted(found) == sorted(expected[:stop])
        assert len(loader) == -(-stop // 4)
    assert stop > 12


def test_a_run_is_resumed_in_the_middle_of_an_epoch(make: Callable[..., GrowingDataset]) -> None:
    def batches(loader: Any) -> list[list[int]]:
        return [images[:, 0, 0, 0].tolist() for images, _ in loader]

    grown = make()
    loader = fastpipe.DataLoader(grown, 4, shuffle=True, threads=1)
    batches(loader)
    go_on(grown)
    running = iter(loader)
    [next(running) for _ in range(2)]
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    rest = batches(running)
    go_on(grown)
    after = batches(loader)
    assert len(after) > len(rest) + 2

    again = make()
    resumed = fastpipe.DataLoader(again, 4, shuffle=True, threads=1)
    resumed.load_state_dict(state)
    assert batches(resumed) == rest
    assert batches(resumed) == after


def test_ranks_agree(make: Callable[..., GrowingDataset]) -> None:
    ranks = [make() for _ in range(2)]
    both = [samplers.DistributedSampler(one, 2, rank, seed=1) for rank, one in enumerate(ranks)]
    for epoch in range(3):
        found = []
        for one, sampler in zip(ranks, both, strict=True):
            one.set_epoch(epoch)
            sampler.set_epoch(epoch)
            places = list(sampler)
            assert len(places) == len(sampler) == sampler.num_samples
            found += one.inner(places)
            go_on(ranks[0], 2)  # what arrives in between changes nothing
        assert set(found) == set(ranks[0].indices)
        assert len(found) - len(set(found)) == len(ranks[0]) % 2
        assert ranks[0].length_at(epoch) == ranks[1].length_at(epoch)


def test_another_run_can_begin_with_what_is_there(make: Callable[..., GrowingDataset]) -> None:
    first = make(capacity=24)
    for epoch in range(5):
        first.set_epoch(epoch)
        numbers(first)
        go_on(first)
    there = first._window(4)
    second = make(capacity=24)
    with pytest.warns(FastpipeWarning, match=r"epoch 0 is one of an earlier run.* call forget\(\)"):
        assert numbers(second) == order(second)[:12]
    third = make(capacity=24)
    third.forget()
    assert third._window(0).first >= there.first
    assert len(third) == 16


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
from growing.test_growing import COUNT, SIZE, Store

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


def test_arguments_are_looked_at(here: None, store: Store, tmp_path: Path) -> None:
    source = fastpipe.ImageFolder(store, index=None)
    cache = Cache(tmp_path / "cache", 1000)
    for given in (0, "3", 1.5, None):
        with pytest.raises(DatasetError, match=r"start=.*: give the number of samples"):
            GrowingDataset(source, cache, start=given)
    for given in (1.0, "3", float("nan"), float("inf"), None):
        with pytest.raises(DatasetError, match=r"growth=.*: give a number above 1"):
            GrowingDataset(source, cache, growth=given)
    for given in ("3", 1.5, None, True):
        with pytest.raises(DatasetError, match=r"seed=.*: give an integer"):
            GrowingDataset(source, cache, seed=given)
    for given in (None, tmp_path / "cache", "cache"):
        with pytest.raises(DatasetError, match=r"cache=.*: give the cache that samples are kept in"):
            GrowingDataset(source, given)
    corpus.write_folder(tmp_path / "root")
    with pytest.raises(DatasetError, match="takes a dataset of fastpipe whose files are in a store"):
        GrowingDataset(fastpipe.ImageFolder(tmp_path / "root", index=None), cache)
    kept = GrowingDataset(fastpipe.ImageFolder(store, index=None, cache=cache))
    assert kept.cache is cache
    assert source.seed is None
    assert kept.dataset.seed == 0


def test_arrays_grow_as_images_do(here: None, tmp_path: Path) -> None:
    store = Store(0)
    arrays = [np.full((4, 6), number, ">f4") for number in range(30)]
    for number, array in enumerate(arrays):
        out = io.BytesIO()
        np.save(out, array)
        store.files[f"{number:03}.npy"] = out.getvalue()
    source = fastpipe.ArrayList((list(store.files), list(range(30))), root=store)
    grown = GrowingDataset(source, Cache(tmp_path / "cache", 24 * SIZE), start=8)
    loader = fastpipe.DataLoader(grown, 4, shuffle=True, threads=2)
    for _ in range(9):  # an epoch may be prepared before what is fetched behind this loop has arrived
        found = {}
        for batch, labels in loader:
            assert batch.shape[1:] == (4, 6)
            assert batch.dtype == torch.float32
            found |= dict(zip(labels.tolist(), batch, strict=True))
        assert sorted(found) == sorted(grown.indices)
        assert all((one.numpy() == arrays[label]).all() for label, one in found.items())
        go_on(grown)
    assert grown.statistics().evicted > 0


def test_a_rescan_has_the_files_that_came_since(make: Callable[..., GrowingDataset], store: Store) -> None:
    grown = make()
    assert len(grown) == 12
    assert grown.rescan() is grown
    before = set(numbers(grown))
    store.files |= {f"class_{n % 3}/{n:03}.png": image(n) for n in range(COUNT, COUNT + 30)}
    del store.files["class_0/000.png"]
    grown.set_epoch(3)
    store.reads.clear()
    longer = grown.rescan()
    assert longer.dataset.epoch == 3
    assert [path for path, _ in longer.dataset.samples] == [
        path for path, _ in fastpipe.ImageFolder(store, index=None).samples
    ]
    go_on(longer)
    for epoch in range(4, 12):
        longer.set_epoch(epoch)
        numbers(longer)
        go_on(longer)
    assert sorted(numbers(longer)) == list(range(1, COUNT + 30))
    read = {int(key.rpartition("/")[2].removesuffix(".png")) for key in store.reads}
    assert read == set(range(1, COUNT + 30)) - before  # what was in the cache isn't fetched again
    labels = dict(zip(numbers(longer), (longer[place][1] for place in range(len(longer))), strict=True))
    assert all(label == number % 3 for number, label in labels.items())


def test_a_rescan_refuses_other_classes_and_lists(make: Callable[..., GrowingDataset], store: Store) -> None:
    grown = make()
    store.files["class_3/100.png"] = image(100)
    with pytest.raises(DatasetError, match=r"classes of store: have changed \(class_3\)"):
        grown.rescan()
    listed = fastpipe.ArrayList((list(store.files), list(range(len(store.files)))), root=store)
    with pytest.raises(DatasetError, match="make it again from the longer list"):
        GrowingDataset(listed, grown.cache, start=2).rescan()
