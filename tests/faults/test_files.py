"""Files that change behind the index's back, and files that nobody may read."""

from __future__ import annotations

import collections
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path

import corpus
import pytest
import torch
from faults.photos import write_photos

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import DecodeError, FastpipeWarning, PlanError

TRANSFORM = T.Compose([T.RandomResizedCrop(24), T.ToTensor()])
VICTIM = 17
COUNT = 24

pytestmark = pytest.mark.filterwarnings("ignore::fastpipe.errors.FastpipeWarning")
in_every_way = pytest.mark.parametrize(("workers", "threads"), [(0, 0), (2, 2)])


def disappears(path: Path) -> None:
    path.unlink()


def loses_its_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def is_truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def is_emptied(path: Path) -> None:
    os.truncate(path, 0)


def becomes_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FAULTS = {
    disappears: FileNotFoundError,
    loses_its_folder: FileNotFoundError,
    is_truncated: DecodeError,
    is_emptied: DecodeError,
    becomes_a_folder: OSError,
}


@pytest.fixture
def index(photos):
    """With everything that an index can know of the files: what it knows must not be trusted."""
    return fastpipe.ImageIndex.from_folder(photos, location=None, sizes=True)


def samples(loader) -> dict[int, torch.Tensor]:
    """The samples that a loader of `Numbered` gives."""
    return {int(number): image for images, numbers in loader for image, number in zip(images, numbers, strict=True)}


class Numbered(fastpipe.ImageFolder):
    """Targets are the samples' numbers."""

    def sample(self, index: int) -> tuple[str, int]:
        return super().sample(index)[0], index


@in_every_way
@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_lost_behind_the_index(index, fault, workers, threads):
    if workers and sys.platform != "linux":
        pytest.skip("workers that are spawned take seconds to start")
    fault(Path(index.path(VICTIM)))
    lost = range(COUNT // 2, COUNT) if fault is loses_its_folder else [VICTIM]
    first = lost[0]
    dataset = Numbered(index.root, TRANSFORM, index=index, seed=3, threads=threads)
    with pytest.raises(FAULTS[fault], match=f"sample {first} of the dataset") as caught:
        samples(fastpipe.DataLoader(dataset, 4, num_workers=workers))
    assert index.path(first) in str(caught.value)
    options = {"on_error": "skip", "bad_files_log": None, "max_bad_fraction": 1}
    skipping = Numbered(index.root, TRANSFORM, index=index, seed=3, threads=threads, **options)
    loader = fastpipe.DataLoader(skipping, 4, num_workers=workers)
    got = samples(loader)
    assert sorted(got) == [number for number in range(COUNT) if number not in lost]
    assert all(torch.equal(image, dataset[number][0]) for number, image in got.items())
    assert loader.bad_files.skipped == len(lost)


@in_every_way
@pytest.mark.parametrize("format", ["JPEG", "PNG"])
@pytest.mark.parametrize("shape", [(7, 5), (200, 170)], ids=["smaller", "larger"])
def test_a_file_that_is_replaced_behind_the_index(index, shape, format, workers, threads):
    if workers and sys.platform != "linux":
        pytest.skip("workers that are spawned take seconds to start")
    dataset = fastpipe.ImageFolder(index.root, TRANSFORM, index=index, seed=3, threads=threads)
    before = dataset.recipe(VICTIM)
    Path(index.path(VICTIM)).write_bytes(corpus.save(corpus.photo(*shape, seed=99), format))
    anew = fastpipe.ImageIndex.from_folder(index.root, location=None)
    fresh = fastpipe.ImageFolder(index.root, TRANSFORM, index=anew, seed=3)
    got = torch.cat([images for images, _ in fastpipe.DataLoader(dataset, 4, num_workers=workers)])
    assert all(torch.equal(image, fresh[number][0]) for number, image in enumerate(got))
    recipe = dataset.recipe(VICTIM)
    assert (recipe.shape.height, recipe.shape.width) == shape
    assert torch.equal(dataset.replay(recipe)[0], got[VICTIM])
    with pytest.raises(PlanError, match="another one"):
        dataset.replay(before)


def test_files_that_change_while_they_are_read(index, tmp_path):
    """Each sample is one of both, or an error: never a mixture, a crash or a picture cut off."""
    path = Path(index.path(VICTIM))
    small, large = (corpus.jpeg(height, 60, seed=height) for height in (57, 300))
    dataset = fastpipe.ImageFolder(index.root, T.Compose([T.RandomResizedCrop(24), T.ToTensor()]), index=index, seed=3)
    expected = []
    for data in (small, large):
        path.write_bytes(data)
        expected.append(dataset[VICTIM][0])
    done = threading.Event()

    def change() -> None:
        beside = tmp_path / "beside.jpg"
        while not done.is_set():
            for data in (small, large):
                beside.write_bytes(data)
                os.replace(beside, path)
            os.truncate(path, len(large) // 2)

    changing = threading.Thread(target=change)
    changing.start()
    seen = collections.Counter()
    try:
        for _ in range(400):
            try:
                image = dataset[VICTIM][0]
            except DecodeError:
                seen["error"] += 1
            else:
                seen[[torch.equal(image, one) for one in expected].index(True)] += 1
    finally:
        done.set()
        changing.join()
    assert sum(seen.values()) == 400


def read_what_nobody_may(root: str, locked: str) -> None:
    """For a process of its own: the administrator may read everything, so that it becomes somebody else."""
    index = fastpipe.ImageIndex.from_folder(root, location=None)
    dataset = Numbered(root, TRANSFORM, index=index, seed=3)
    expected = samples(fastpipe.DataLoader(dataset, 4, num_workers=2))  # also imports all that the other can't
    lost = [number for number in range(COUNT) if index.path(number).startswith(locked)]
    os.chmod(locked, 0)
    if os.geteuid() == 0:
        sockets = tempfile.mkdtemp(prefix="fastpipe-")  # the tests' process may have made one, for itself alone
        os.chmod(sockets, 0o777)
        multiprocessing.current_process()._config["tempdir"] = sockets
        os.seteuid(65534)
    with pytest.raises(PermissionError, match=f"sample {lost[0]} of the dataset") as caught:
        samples(fastpipe.DataLoader(dataset, 4, num_workers=2))
    assert index.path(lost[0]) in str(caught.value)
    options = {"on_error": "skip", "bad_files_log": None, "max_bad_fraction": 1}
    loader = fastpipe.DataLoader(Numbered(root, TRANSFORM, index=index, seed=3, **options), 4, num_workers=2)
    got = samples(loader)
    assert sorted(got) == [number for number in range(COUNT) if number not in lost]
    assert all(torch.equal(image, expected[number]) for number, image in got.items())
    assert loader.bad_files.skipped == len(lost) > 0
    if os.path.isdir(locked):
        with pytest.warns(FastpipeWarning, match="1 folder of .* can't be listed, so images are missing: class1"):
            fastpipe.ImageIndex.from_folder(root, location=None)


@pytest.mark.skipif(sys.platform != "linux", reason="changes its user and forks")
@pytest.mark.parametrize("locked", ["class1/17.jpg", "class1"])
def test_files_that_nobody_may_read(apart, locked):
    root = Path(tempfile.mkdtemp(prefix="fastpipe-"))  # tmp_path is closed to other users
    try:
        root.chmod(0o755)
        write_photos(root)
        status, printed = apart(read_what_nobody_may, str(root), str(root / locked))
    finally:
        (root / locked).chmod(0o755)
        shutil.rmtree(root)
    assert status == 0, printed
