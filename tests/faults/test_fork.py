"""Workers that are forked from a process whose libraries have threads at work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
def test_fork_while_libraries_are_at_work(photos):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, str(photos)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert (done.returncode, done.stdout) == (0, "equal\n"), done.stderr
