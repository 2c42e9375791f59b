"""Workers of torch's own loader over our data sets: what torch gives, in memory that is used again."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate, default_collate_fn_map

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import LoaderError
from fastpipe.memory import shm_pool

TRANSFORM = T.Compose([T.RandomResizedCrop(96), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5], [0.2])])
BATCH = 3
EPOCHS = 6

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each batch has memory of its own")


class Wrapper(Dataset[Any]):
    """A data set of one's own around ours, which writes to a sample when it has given the next one."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.last: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        image, label = self.dataset[index]
        if self.last is not None:
            self.last.fill_(-1.0)
        self.last = image
        return {"image": image, "label": label, "weights": torch.full((5,), index, dtype=torch.float64)}


def several(root: Path) -> Any:
    dataset = fastpipe.ImageFolder(root, TRANSFORM, seed=1)
    return ConcatDataset([Subset(dataset, [5, 1, 8]), dataset])


class OwnPhotos(Dataset[Any]):
    """A data set of one's own, with our transforms on Pillow's images or on ours."""

    def __init__(self, root: Path, transform: Any, open_image: Callable[[Path], Any] = Image.open) -> None:
        self.files = sorted(root.rglob("*.*"))
        self.transform, self.open_image = transform, open_image

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        random.seed(index)
        torch.manual_seed(index)
        return self.transform(self.open_image(self.files[index]).convert("RGB")), index


DATASETS: dict[str, Callable[[Path], Any]] = {
    "folder": lambda root: fastpipe.ImageFolder(root, TRANSFORM, seed=1),
    "within torch's": several,
    "within one's own": lambda root: Wrapper(fastpipe.ImageFolder(root, TRANSFORM, seed=1)),
    "one's own": lambda root: OwnPhotos(root, TRANSFORM),
    "with open_image": lambda root: OwnPhotos(root, TRANSFORM, fastpipe.open_image),
    "small": lambda root: fastpipe.ImageFolder(root, T.Compose([T.Resize((9, 7)), T.ToTensor()]), seed=1),
    "uint8": lambda root: fastpipe.ImageFolder(root, T.Compose([T.Resize((99, 170)), T.PILToTensor()]), seed=1),
}


def parts(batch: Any) -> list[torch.Tensor]:
    return [*(batch.values() if isinstance(batch, dict) else batch)]


def batches(dataset: Any, **options: Any) -> Iterator[list[torch.Tensor]]:
    loader: Any = DataLoader(dataset, BATCH, persistent_workers="num_workers" in options, **options)
    for _ in range(EPOCHS):
        yield from map(parts, loader)


def are_equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    layouts = [[(part.dtype, part.stride()) for part in batch] for batch in (one, other)]
    return layouts[0] == layouts[1] and all(map(torch.equal, one, other))


@pytest.mark.filterwarnings("ignore:epoch 0 has begun a second time")
@pytest.mark.parametrize(("method", "workers"), [("fork", 2), pytest.param("spawn", 1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", DATASETS)
def test_batches_are_those_without_workers_and_those_that_are_kept_stay(
    root: Path, name: str, method: str, workers: int
) -> None:
    if method == "fork" and sys.platform != "linux":
        pytest.skip("forks")
    expected = [[part.clone() for part in batch] for batch in batches(DATASETS[name](root))]
    found = list(batches(DATASETS[name](root), num_workers=workers, multiprocessing_context=method))
    assert len(found) == len(expected) > 4 * EPOCHS
    assert all(map(are_equal, found, expected))


def shared_file(tensor: torch.Tensor) -> str:
    """The number of the file in shared memory that a tensor lies in."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, _, _, _, inode, *_ = line.split()
        first, after = (int(address, 16) for address in addresses.split("-"))
        if first <= tensor.data_ptr() < after:
            return inode
    raise AssertionError("it is nowhere")


@on_linux
@pytest.mark.filterwarnings("ignore:epoch 0 has begun a second time")
@pytest.mark.parametrize("name", ["folder", "within torch's", "within one's own", "one's own", "with open_image"])
def test_memory_is_used_again(root: Path, name: str) -> None:
    """torch takes new memory for each batch."""
    memory = [shared_file(batch[0]) for batch in batches(DATASETS[name](root), num_workers=1)]
    assert len(memory) > 4 * EPOCHS
    assert len(set(memory)) <= 5  # two made ahead, one at work, one that the loop holds, and one more


@on_linux
def test_our_loader_uses_it_again_for_a_data_set_of_ones_own(root: Path) -> None:
    expected = [images for images, _ in DataLoader(DATASETS["one's own"](root), BATCH)]
    loader = fastpipe.DataLoader(
        DATASETS["one's own"](root), BATCH, num_workers=1, persistent_workers=True, multiprocessing_context="fork"
    )
    files: set[str] = set()
    for _ in range(EPOCHS):
        for (images, _), right in zip(loader, expected, strict=True):
            assert torch.equal(images, right)
            files.add(shared_file(images))
    assert len(files) <= 5


@on_linux
def test_memory_goes_with_its_workers(root: Path) -> None:
    loader: Any = DataLoader(DATASETS["folder"](root), BATCH, num_workers=2, multiprocessing_context="fork")
    iterator = iter(loader)
    first, _ = next(iterator)
    value = first.clone()
    names = {process.name for process in iterator._workers}
    assert names & {*shm_pool._opened}
    for _ in iterator:
        pass
    del iterator, _
    gc.collect()
    assert not names & {*shm_pool._opened}
    assert torch.equal(first, value)  # a batch that is kept has its memory still


def doubled(batch: Any, *, collate_fn_map: Any = None) -> torch.Tensor:
    return 2 * collate_tensor_fn(batch, collate_fn_map=collate_fn_map)


@on_linux
def test_what_somebody_taught_torchs_collating_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = DATASETS["folder"](root)
    expected = [2 * images for images, _ in DataLoader(dataset, BATCH)]
    dataset.set_epoch(0)
    monkeypatch.setitem(default_collate_fn_map, torch.Tensor, doubled)
    found = [images for images, _ in DataLoader(dataset, BATCH, num_workers=1, multiprocessing_context="fork")]
    assert all(map(torch.equal, found, expected))


@on_linux
def test_without_room_torch_takes_the_memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(size: int) -> torch.Tensor:
        raise LoaderError("no room")

    dataset = DATASETS["folder"](root)
    expected = [images for images, _ in DataLoader(dataset, BATCH)]
    dataset.set_epoch(0)
    monkeypatch.setattr(shm_pool, "new_shared", no_room)
    found = [images for images, _ in DataLoader(dataset, BATCH, num_workers=1, multiprocessing_context="fork")]
    assert all(map(torch.equal, found, expected))


class Collating(Dataset[Any]):
    """Says whose function stacks a worker's tensors; a sample of ours was made before if there is a data set."""

    def __init__(self, dataset: Any = None) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> str:
        if self.dataset is not None:
            self.dataset[0]
        return default_collate_fn_map[torch.Tensor].__module__


@on_linux
def test_workers_without_our_data_sets_are_left_alone(root: Path) -> None:
    def module(dataset: Any) -> str:
        ((name,),) = DataLoader(dataset, 1, num_workers=1, multiprocessing_context="fork")
        return str(name)

    torchs = default_collate_fn_map[torch.Tensor].__module__
    assert module(Collating()) == torchs == "torch.utils.data._utils.collate"
    assert module(Collating(DATASETS["folder"](root))) == "fastpipe.memory.torch_worker"
    assert module(Collating()) == torchs


class Telling:
    """A ``collate_fn`` that also sends its batches elsewhere."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def __call__(self, samples: list[Any]) -> Any:
        batch = default_collate(samples)
        self.queue.put(batch[0])
        return batch


@on_linux
def test_other_queues_are_left_alone(root: Path) -> None:
    queue: Any = torch.multiprocessing.get_context("fork").Queue()
    loader = DataLoader(
        DATASETS["folder"](root), BATCH, num_workers=1, multiprocessing_context="fork", collate_fn=Telling(queue)
    )
    found = [(images, queue.get()) for images, _ in loader]
    assert all(torch.equal(images, other) for images, other in found)
