"""One worker with threads: the batches of any other way, handed over by a short message."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing import context as contexts

import pytest
import torch
from loading.batches import dataset, epochs, equal

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import DatasetError, DecodeError, LoaderError
from fastpipe.loading import checks
from fastpipe.memory.worker_queue import DirectQueue, with_direct_queues

CROP = T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5], [0.2])])
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows' pipes go by a thread")
linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is used again on Linux only")


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"prefetch_factor": 1}], ids=str)
def test_batches_are_those_without_workers(root, options):
    data = dataset(root, CROP, seed=3)
    assert equal(epochs(data, num_workers=1, threads=3, **options), epochs(dataset(root, CROP, seed=3)))


def test_without_a_seed_batches_are_those_of_one_worker(root):
    data = dataset(root, CROP)
    expected = epochs(data, num_workers=1)
    assert equal(epochs(data, num_workers=1, threads=3), expected)
    assert equal(epochs(data, num_workers=0, threads=3), expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods(root, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("not on this system")
    data, options = dataset(root, CROP, seed=3), {"multiprocessing_context": method, "persistent_workers": True}
    found = epochs(data, num_workers=1, threads=2, **options)
    assert equal(found, epochs(dataset(root, CROP, seed=3)))


@linux
def test_the_training_process_has_no_thread_and_no_descriptor_more(root):
    dataset = fastpipe.ImageFolder(root, CROP, seed=1)
    loader = fastpipe.DataLoader(dataset, 2, sampler=[*range(14)] * 8, num_workers=1, threads=2)
    before, places = threading.active_count(), set()
    batches = iter(loader)
    open_files = len(os.listdir("/proc/self/fd"))
    for images, targets in batches:
        assert threading.active_count() == before
        places.add(images.data_ptr())
        assert len(os.listdir("/proc/self/fd")) <= open_files + 4, "one for each piece of memory"
        del images, targets
    assert len(places) <= 4


@linux
@pytest.mark.parametrize("kept", [1, 6])
def test_a_batch_that_is_kept_is_not_overwritten(root, kept):
    dataset = fastpipe.ImageFolder(root, CROP, seed=1)
    loader = fastpipe.DataLoader(dataset, 2, num_workers=1, threads=2, persistent_workers=True)
    expected = [images.clone() for images, _ in loader]
    loader.set_epoch(0)
    batches = iter(loader)
    mine = [next(batches)[0][1:] for _ in range(kept)]
    del batches
    for _ in range(3):
        for images, _ in loader:
            images.fill_(-1)
    assert all(torch.equal(one, right[1:]) for one, right in zip(mine, expected, strict=False))


def test_a_bad_file_is_named(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no image")
    loader = fastpipe.DataLoader(fastpipe.ImageFolder(tmp_path, CROP), num_workers=1, threads=2)
    with pytest.raises(DecodeError, match=r"broken\.jpg"):
        list(loader)


@posix
def test_a_worker_that_is_killed_is_named_with_its_file(root):
    class Stuck(T.ToTensor):
        def __call__(self, image):
            time.sleep(60)

    dataset = fastpipe.ImageFolder(root, T.Compose([T.CenterCrop(8), Stuck()]))
    batches = iter(fastpipe.DataLoader(dataset, 2, num_workers=1, threads=2))
    (worker,) = batches.iterator._workers
    while not batches.iterator.heartbeats.last(0):
        time.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(LoaderError, match=r"worker 0 .* SIGKILL; it began .*\.(jpg|jpeg|png)"):
        next(batches)


TENSORS = {
    "labels": lambda: torch.arange(7),
    "none": lambda: torch.empty(0, 4, dtype=torch.bfloat16),
    "number": lambda: torch.tensor(2.5, dtype=torch.float64),
    "bfloat16": lambda: torch.rand(3, 5).to(torch.bfloat16),
    "complex": lambda: torch.rand(4, dtype=torch.complex64),
    "conjugate": lambda: torch.rand(4, dtype=torch.complex64).conj(),
    "bool": lambda: torch.rand(9) > 0.5,
    "strided": lambda: torch.rand(6, 6)[::2, 1::3],
    "part": lambda: torch.rand(100)[10:20],
    "large": lambda: torch.rand(3, 100, 100),
    "shared": lambda: torch.rand(5).share_memory_(),
}


class Own(torch.utils.data.Dataset):
    """A sample is what a function gives, in a worker."""

    def __init__(self, make):
        self._make = make

    def __len__(self):
        return 3

    def __getitem__(self, index):
        torch.manual_seed(index)
        return self._make()


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_arrive_as_they_were(name):
    here = list(fastpipe.DataLoader(Own(TENSORS[name]), batch_size=None))
    there = list(fastpipe.DataLoader(Own(TENSORS[name]), batch_size=None, num_workers=1))
    for one, other in zip(there, here, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
        one += 1 if one.dtype != torch.bool else True  # it's the receiver's own


def test_messages_stay_in_order_and_nobody_waits_for_a_reader():
    queue = with_direct_queues(None).Queue()
    messages = [(number, "x" * (100_000 if number in (40, 900) else 50)) for number in range(2_000)]
    before = threading.active_count()
    for message in messages[:40]:
        queue.put(message)
    if sys.platform == "linux":
        assert threading.active_count() == before
    for message in messages[40:]:
        queue.put(message)
    assert [queue.get(timeout=10) for _ in messages] == messages
    queue.close()
    queue.join_thread()


@pytest.mark.parametrize(
    "message",
    [
        (0, [0, 1]),
        (7, [3, 1 << 40, -5]),
        (1, []),
        (2, [True, False]),
        (3, [1, 2.0]),
        (4, [(0, 1)]),
        (5, 6),
        None,
        "two",
    ],
    ids=str,
)
def test_indices_arrive_as_they_were(message):
    queue = with_direct_queues(None).Queue()
    queue.put(message)
    found = queue.get(timeout=10)
    assert found == message
    assert repr(found) == repr(message)  # True isn't 1
    queue.close()


def test_the_context_itself_is_left_alone():
    given = multiprocessing.get_context("spawn")
    assert isinstance(with_direct_queues(given).Queue(), DirectQueue)
    assert type(given) is contexts.SpawnContext
    assert "Queue" not in vars(given)


def many(root, length=10_000):
    path = fastpipe.ImageFolder(root).samples[0][0]
    return fastpipe.ImageList(([path] * length, [0] * length), CROP)


@pytest.fixture
def machine(monkeypatch):
    """One where a worker pays."""
    monkeypatch.setattr(checks, "usable_cpus", lambda: 8)
    monkeypatch.setattr(checks, "shared_memory_room", lambda: None)
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none=False: "fork")
    return monkeypatch


def chosen(dataset, **options):
    loader = fastpipe.DataLoader(dataset, 4, threads="auto", **options)
    return loader.num_workers, loader.threads


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_auto_chooses_one_worker_where_that_pays(root, machine):
    dataset = many(root)
    assert chosen(dataset) == (1, 7)
    assert chosen(dataset, num_workers=0) == (0, 8)
    assert chosen(dataset, num_workers=1) == (1, 7)
    assert chosen(dataset, num_workers=2) == (2, 4)
    assert fastpipe.DataLoader(dataset).num_workers == 0
    assert chosen(many(root, 9_999)) == (0, 8)
    assert chosen(Own(int)) == (0, 8)
    machine.setattr(multiprocessing, "get_start_method", lambda allow_none=False: "spawn")
    assert chosen(dataset) == (0, 8)
    assert chosen(dataset, multiprocessing_context="spawn") == (1, 7)
    machine.setattr(checks, "usable_cpus", lambda: 1)
    assert chosen(dataset) == (0, 1)


def test_auto_does_without_a_worker_that_has_no_room(root, machine):
    room = type("Room", (), {"free": 64 << 20, "size": 64 << 20})
    machine.setattr(checks, "shared_memory_room", lambda: room)
    assert chosen(many(root)) == (0, 8)


@pytest.mark.parametrize("threads", [-1, "many"])
def test_other_numbers_of_threads_are_refused(root, threads):
    with pytest.raises(DatasetError, match='or "auto"'):
        fastpipe.DataLoader(fastpipe.ImageFolder(root, CROP), num_workers=1, threads=threads)
