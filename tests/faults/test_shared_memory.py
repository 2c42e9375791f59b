"""Shared memory that is too small for the batches: an error that says what to do, for real in a mount of its own."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path

import pytest
import torch
from faults.photos import write_photos

import fastpipe
from fastpipe import transforms as T
from fastpipe.environment import shared_memory_room
from fastpipe.errors import FastpipeWarning, LoaderError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/shm is Linux's")

TRANSFORM = T.Compose([T.RandomResizedCrop(256), T.ToTensor()])
BATCH = 8 * 3 * 256 * 256 * 4  # bytes: 6.3 MB
NEW_MOUNTS, NEW_USER = 0x20000, 0x10000000
PRIVATE = (1 << 14) | (1 << 18)
NOT_HERE = "no mounts of one's own here"


def mount_small_memory(size: int) -> None:
    """Gives this process and those that it starts a ``/dev/shm`` of that size; nobody else sees it."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    alone = libc.unshare(NEW_MOUNTS) == 0 or libc.unshare(NEW_MOUNTS | NEW_USER) == 0
    if alone and user != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    if (
        not alone
        or libc.mount(b"none", b"/", None, PRIVATE, None)
        or libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, f"size={size}".encode())
        or shared_memory_room() != (size, size)
    ):
        print(NOT_HERE, end="")
        os._exit(0)


def dataset_of(root: Path, transform=TRANSFORM) -> fastpipe.ImageFolder:
    return fastpipe.ImageFolder(root, transform, index=fastpipe.ImageIndex.from_folder(root, location=None), seed=1)


def not_one_batch(root: Path) -> None:
    mount_small_memory(BATCH - (1 << 16))
    with pytest.raises(LoaderError, match=r"shared memory is too small: a batch takes 6\.3 MB") as caught:
        iter(fastpipe.DataLoader(dataset_of(root), 8, num_workers=2))
    assert re.search(r"/dev/shm has 6\.2 MB free of 6\.2 MB.*--shm-size=1g.*smaller batch_size", str(caught.value))
    # In bytes of a quarter the size there is room, which is what the message advises.
    images = T.Compose([T.RandomResizedCrop(256), T.PILToTensor()])
    loader = fastpipe.DataLoader(dataset_of(root, images), 8, num_workers=1, prefetch_factor=1)
    assert sum(len(labels) for _, labels in loader) == 24


def batches_that_are_kept(root: Path) -> None:
    """As somebody does who collects outputs. The fourth finds no room, or its labels don't: these take a page."""
    for room in (3 * BATCH + (1 << 16), 4 * BATCH + (1 << 15)):
        mount_small_memory(room)
        loader = fastpipe.DataLoader(dataset_of(root), 8, sampler=list(range(24)) * 4, num_workers=2)
        with pytest.raises(LoaderError, match=r"[Ss]hared memory is too small.*--shm-size"):
            list(loader)


def batches_that_are_let_go(root: Path) -> None:
    """The loader may go on after its warning: batches that are used up make room."""
    mount_small_memory(4 * BATCH - 1)
    with pytest.warns(FastpipeWarning, match="may be too small: the 4 batches that workers make ahead take 25 MB"):
        batches = iter(fastpipe.DataLoader(dataset_of(root), 8, num_workers=1, prefetch_factor=4))
    got = torch.cat([images.clone() for images, _ in batches])
    assert torch.equal(got, torch.stack([image for image, _ in dataset_of(root)]))


@pytest.mark.filterwarnings("ignore::fastpipe.errors.FastpipeWarning")
@pytest.mark.parametrize("scene", [not_one_batch, batches_that_are_kept, batches_that_are_let_go])
def test_a_mount_that_is_too_small(tmp_path, apart, scene):
    status, printed = apart(scene, write_photos(tmp_path / "photos"))
    if printed == NOT_HERE:
        pytest.skip(NOT_HERE)
    assert status == 0, printed


def test_too_small_by_what_the_system_says(photos, monkeypatch):
    """Where no mount can be made: the system's answer is replaced."""
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((1, 4096, 64, 10, 10, 1, 1, 1, 0, 255)))
    with pytest.raises(LoaderError, match=r"a batch takes 6\.3 MB, and /dev/shm has 0\.0 MB free of 0\.3 MB"):
        iter(fastpipe.DataLoader(dataset_of(photos), 8, num_workers=2))
