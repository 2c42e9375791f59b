"""File descriptors that run out, wherever a loader needs one: an error that says what to do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from faults.photos import write_photos

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import LoaderError

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for errors of Linux")

CURE = r"Too many open files: the limit of a process, \d+ \(.*ulimit -n.*set_sharing_strategy\('file_system'\)"


def leave(count: int) -> None:
    """Leaves this process so many free descriptors."""
    free = [os.dup(0) for _ in range(count + 1)]
    for one in free:
        os.close(one)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], hard))


def leave_one(worker: int) -> None:
    leave(1)


def loader(root: Path, **options: object) -> fastpipe.DataLoader:
    transform = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])
    dataset = fastpipe.ImageFolder(root, transform, index=fastpipe.ImageIndex.from_folder(root, location=None), seed=1)
    return fastpipe.DataLoader(dataset, 2, sampler=list(range(24)) * 20, **options)


def for_a_file(root: Path) -> None:
    for options in ({}, {"threads": 2}):
        batches = iter(loader(root, **options))
        next(batches)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))  # no other, even where a thread has just closed one
        with pytest.raises(OSError, match=CURE) as caught:
            list(batches)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert str(caught.value.filename).startswith(str(root))


def for_a_worker(root: Path) -> None:
    new = loader(root, num_workers=2)
    leave(8)
    with pytest.raises(LoaderError, match=CURE):
        iter(new)


def for_batches_that_are_kept(root: Path) -> None:
    batches = iter(loader(root, num_workers=2))
    next(batches)
    leave(30)
    with pytest.raises(LoaderError, match=CURE):
        list(batches)


def for_what_a_worker_sends(root: Path) -> None:
    new = loader(root, num_workers=1, worker_init_fn=leave_one)
    new.dataset[0]  # loads the reader, which takes more descriptors than a worker has left
    with pytest.raises(LoaderError, match=rf"worker 0 .*{CURE}"):
        list(new)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scene", [for_a_file, for_a_worker, for_batches_that_are_kept, for_what_a_worker_sends])
def test_none_is_left(tmp_path, apart, scene):
    status, printed = apart(scene, write_photos(tmp_path / "photos"))
    assert status == 0, printed
