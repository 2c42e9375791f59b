"""Workers that are forked from a process whose libraries have threads at work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from run_scripts import run_python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")

# In a process of its own: torch keeps the threads that it was told to have.
SCRIPT = """
import sys, threading
import cv2, numpy as np, torch
import fastpipe
from fastpipe import readers, transforms as T

root = sys.argv[1]
torch.set_num_threads(4)
cv2.setNumThreads(4)
photo = fastpipe.ImageIndex.from_folder(root, location=None).path(3)
stop = threading.Event()

def use(library):
    while not stop.is_set():
        library()
        used[library].set()

def with_cv2():
    cv2.GaussianBlur(np.zeros((1200, 1200, 3), np.uint8), (31, 31), 5)

def with_torch():
    torch.ones(1200, 1200) @ torch.ones(1200, 1200)

def with_turbojpeg():
    readers.read_image(photo, reader="turbojpeg" if "turbojpeg" in readers.available_readers() else None)

def with_the_dataset():
    dataset.__getitems__(list(range(24)))

transform = T.Compose([T.RandomResizedCrop(48), T.RandomHorizontalFlip(), T.GaussianBlur(5), T.ToTensor()])
dataset = fastpipe.ImageFolder(root, transform, seed=1, threads=2)
expected = list(fastpipe.DataLoader(dataset, 4))
libraries = [with_cv2, with_torch, with_turbojpeg, with_the_dataset]
used = {library: threading.Event() for library in libraries}
threads = [threading.Thread(target=use, args=(library,)) for library in libraries]
for thread in threads:
    thread.start()
for event in used.values():
    event.wait()
for epoch in range(3):  # at three moments of theirs
    loader = fastpipe.DataLoader(dataset, 4, num_workers=2, multiprocessing_context="fork")
    got = list(loader)
    assert len(got) == len(expected) == 6
    for (images, labels), (images_here, labels_here) in zip(got, expected):
        assert torch.equal(images, images_here) and torch.equal(labels, labels_here)
stop.set()
for thread in threads:
    thread.join()
assert (torch.get_num_threads(), cv2.getNumThreads()) == (4, 4)
print("equal")
"""


@pytest.mark.slow
def test_fork_while_libraries_are_at_work(photos, tmp_path):
    done = run_python("-W", "ignore::DeprecationWarning", "-c", SCRIPT, str(photos), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "equal\n"), done.stderr


GARBAGE = """
import contextlib, gc, operator, os, sys
import torch
import fastpipe
from fastpipe.tools.timing import Workers

class Item(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return torch.tensor([gc.isenabled(), gc.get_freeze_count() > 1000])

class Garbage:
    def __init__(self):
        self.ring = self
    def __del__(self):
        if os.getpid() != parent:
            print("collected in a child", flush=True)

def fork():
    Garbage()
    pid = plain()
    if pid == 0:
        gc.set_threshold(1)
    return pid

parent, plain, os.fork = os.getpid(), os.fork, fork
gc.set_threshold(1_000_000)
if "disabled" in sys.argv:
    gc.disable()
made_by = {
    "ours": lambda: torch.cat([*fastpipe.DataLoader(Item(), 1, num_workers=2)]),
    "torch's": lambda: torch.cat([*torch.utils.data.DataLoader(Item(), 1, num_workers=2)]),
    "tools'": lambda: torch.stack([*Workers(Item(), 2).run([operator.itemgetter(0)] * 2)]),
}
with fastpipe.install() if sys.argv[1] == "torch's" else contextlib.nullcontext():
    print(made_by[sys.argv[1]]().tolist(), gc.isenabled())
"""


@pytest.mark.parametrize("collector", ["enabled", pytest.param("disabled", marks=pytest.mark.slow)])
@pytest.mark.parametrize("loader", ["ours", "torch's", "tools'"])
def test_inherited_garbage_is_never_collected(loader: str, collector: str, tmp_path: Path) -> None:
    """Its destructors may wait for threads that the parent alone has, as those of Dask's client do."""
    done = run_python("-W", "ignore::DeprecationWarning", "-c", GARBAGE, loader, collector, cwd=tmp_path)
    enabled = collector == "enabled"
    assert (done.returncode, done.stdout) == (0, f"{[[enabled, True]] * 2} {enabled}\n"), done.stderr


def test_an_iterator_that_is_there_when_the_process_ends_says_nothing(photos: Path, tmp_path: Path) -> None:
    script = """
import sys, fastpipe
from fastpipe import transforms as T
from fastpipe.loading import worker_monitor  # so that the module is emptied before the iterator goes
def same(image):  # its globals hold the iterator, which holds it: a ring
    return image
dataset = fastpipe.ImageFolder(sys.argv[1], T.Compose([T.Resize(9), same, T.ToTensor()]))
batches = iter(fastpipe.DataLoader(dataset, 1, num_workers=1))
next(batches)
"""
    done = run_python("-W", "ignore::DeprecationWarning", "-c", script, str(photos), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
