"""Memory that batches are made in again and again: never while anything of a batch is still there."""

from __future__ import annotations

import gc
import os
import sys
from types import SimpleNamespace

import pytest
import torch
from loading.batches import pieces_in_use

import fastpipe
from fastpipe import transforms as T
from fastpipe.memory import shm_pool
from fastpipe.memory.host_pool import tensor_on

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each batch has memory of its own")

TRANSFORM = T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5], [0.2])])
EPOCHS = 4


@pytest.fixture(scope="module", autouse=True)
def nothing_else_to_collect():
    """Freezes the objects of other tests, which every collection would look through."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def epochs(root, **options):
    """A generator of the batches of several epochs, and the loader."""
    dataset = fastpipe.ImageFolder(root, TRANSFORM, seed=1)
    loader = fastpipe.DataLoader(dataset, 3, shuffle=True, persistent_workers="num_workers" in options, **options)

    def batches():
        for epoch in range(EPOCHS):
            loader.set_epoch(epoch)
            for images, _ in loader:
                yield images

    return batches(), loader


def in_use(loader) -> int:
    gc.collect()
    return pieces_in_use(process.name for process in loader._iterator._workers)


KEPT = {
    "tensor": lambda images: images,
    "view": lambda images: images[1:2, :, ::2],
    "array": lambda images: images.numpy()[-1],
    "other dtype": lambda images: images.view(torch.int32) if images.dtype == torch.float32 else images,
    "detached": lambda images: images.detach().flatten(2),
}


@pytest.mark.slow
@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("options", [{}, {"dtype": torch.bfloat16}, {"memory_format": torch.channels_last}], ids=str)
def test_what_is_kept_of_a_batch_never_changes(root, kept, options):
    if kept == "array" and options.get("dtype") is torch.bfloat16:
        options = {"dtype": torch.float64}  # numpy has no bfloat16
    expected = [torch.as_tensor(KEPT[kept](images)).clone() for images in epochs(root, **options)[0]]
    batches, _ = epochs(root, num_workers=2, **options)
    found = [KEPT[kept](images) for images in batches]
    assert len(found) == EPOCHS * 5
    assert all(torch.equal(torch.as_tensor(one), other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("options", [{}, {"device": "cpu"}, {"threads": 2}], ids=["plain", "deferred", "threads"])
@pytest.mark.parametrize("held", [0, 2, 7])
def test_any_number_of_batches_may_be_held(root, held, options):
    expected = [images.clone() for images in epochs(root, **options)[0]]
    batches, loader = epochs(root, num_workers=2, **options)
    last: list[tuple[torch.Tensor, torch.Tensor]] = []
    for images, right in zip(batches, expected, strict=True):
        last = [*last, (images, right)][-held:] if held else []
        assert torch.equal(images, right)
        assert all(torch.equal(*pair) for pair in last)
    del images, last, batches
    assert in_use(loader) == 0


def test_memory_is_used_again(root):
    # Batches of one size: a piece that the smaller last one was made in gives way to a larger one.
    batches, _ = epochs(root, num_workers=1, drop_last=True)
    places = [images.data_ptr() for images in batches]
    assert len(set(places)) <= 4, "two ahead, and two that the loop holds"


def mappings() -> int:
    """Pieces of shared memory that this process has mapped."""
    with open("/proc/self/maps") as maps:
        return sum("/torch_" in line for line in maps)


def test_batches_that_are_kept_leave_the_others_their_memory(root):
    """And theirs goes away with them."""
    dataset = fastpipe.ImageFolder(root, TRANSFORM, seed=1)
    expected = [images.clone() for images, _ in fastpipe.DataLoader(dataset, 3, drop_last=True)]
    dataset.set_epoch(0)
    loader = fastpipe.DataLoader(dataset, 3, drop_last=True, num_workers=1, persistent_workers=True)
    mapped = mappings()
    kept = [images for images, _ in loader]
    assert len(kept) == 4, "all pieces"
    for _ in range(6):  # after which they count as kept for long
        list(map(len, loader))
    again = []
    for _ in range(3):
        for images, _ in loader:
            again.append(images.is_shared())  # new memory, as torch sends it
            images.fill_(-1)
    del images
    assert not any(again)
    assert all(torch.equal(one, right) for one, right in zip(kept, expected, strict=True))
    kept.clear()
    for _ in range(2):
        list(map(len, loader))
    assert in_use(loader) == 0
    assert mappings() - mapped <= 4 + 3, "pieces that are used again; what the workers and datasets share"


def test_a_changed_batch_spoils_no_other(root):
    expected = [images.clone() for images in epochs(root)[0]]
    for images, right in zip(epochs(root, num_workers=2)[0], expected, strict=True):
        assert torch.equal(images, right)
        images.fill_(torch.nan)


def test_an_epoch_that_is_broken_off_gives_everything_back(root):
    _, loader = epochs(root, num_workers=2)
    for _ in range(8):
        next(iter(loader))
    expected = [images for images, _ in fastpipe.DataLoader(loader.dataset, 3)]
    again = fastpipe.DataLoader(loader.dataset, 3, num_workers=2)
    assert all(torch.equal(images, right) for (images, _), right in zip(again, expected, strict=True))
    list(loader)
    assert in_use(loader) == 0


def test_batches_outlive_their_loader(root):
    batches, loader = epochs(root, num_workers=2)
    images = next(batches)
    right = images.clone()
    del batches, loader
    gc.collect()
    assert torch.equal(images, right)


def test_larger_batches_get_larger_memory(root):
    class Growing(torch.utils.data.Sampler):
        def __iter__(self):
            yield from ([number % 14 for number in range(size)] for size in (1, 2, 5, 3, 9, 1, 12, 2))

    dataset = fastpipe.ImageFolder(root, TRANSFORM, seed=1)
    expected = [images for images, _ in fastpipe.DataLoader(dataset, batch_sampler=Growing())]
    loader = fastpipe.DataLoader(dataset, batch_sampler=Growing(), num_workers=1)
    for _ in range(2):
        loader.set_epoch(0)
        assert all(torch.equal(images, right) for (images, _), right in zip(loader, expected, strict=True))


def test_a_process_that_was_forked_frees_nothing(root):
    batches, loader = epochs(root, num_workers=1)
    images = next(batches)
    before = in_use(loader)
    child = os.fork()
    if child == 0:
        del images
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert in_use(loader) >= before > 0


@pytest.mark.slow
def test_spawned_workers(root):
    expected = [images.clone() for images in epochs(root)[0]]
    batches, loader = epochs(root, num_workers=1, multiprocessing_context="spawn")
    assert all(torch.equal(images, right) for images, right in zip(batches, expected, strict=True))
    del batches
    assert in_use(loader) == 0


def test_a_process_number_that_is_given_again_leaves_the_newer_worker_its_pieces(monkeypatch):
    """An iterator may be closed after a worker of another one got the number of one of its processes."""

    def batch_from(worker: str, pieces: shm_pool.WorkerPieces, value: int) -> torch.Tensor:
        monkeypatch.setattr(shm_pool, "current_process", lambda: SimpleNamespace(name=worker))
        tensor = tensor_on(pieces.lend(64), (64,), torch.uint8).fill_(value)
        function, arguments = pieces.reduced(tensor)
        received = [one.memory if isinstance(one, shm_pool._Handle) else one for one in arguments]
        return function(*received)

    older, newer = shm_pool.WorkerPieces(2), shm_pool.WorkerPieces(2)
    names = "older worker", "newer worker"
    first = batch_from(names[0], older, 1), batch_from(names[1], newer, 2)
    shm_pool.close_pieces(names[:1])
    assert pieces_in_use(names) == 1
    second = batch_from(names[1], newer, 3)
    assert [int(one[0]) for one in (*first, second)] == [1, 2, 3]
    shm_pool.close_pieces(names)
