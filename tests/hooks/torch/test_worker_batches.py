"""Batches of torch's own loader with workers, under the hooks: in memory that is used again, never while it is seen."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loading.batches import pieces_in_use
from PIL import Image
from plain_and_hooked import assert_as_plain, assert_same
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision_here import torchvision

import fastpipe
from fastpipe.memory.torch_worker import _PIECES

T = torchvision.transforms
COUNT = 24

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each batch has memory of its own")


class Photos(Dataset[Any]):
    def __init__(self, files: list[str], size: int = 64) -> None:
        crop, flip = T.RandomResizedCrop(size), T.RandomHorizontalFlip()
        self.files, self.transform = files, T.Compose([crop, flip, T.ToTensor(), T.Normalize([0.5], [0.2])])
        self.kept: list[Any] = []

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(self.files[index]).convert("RGB")), index


class Keeping(Photos):
    """Keeps samples in its worker, and gives those of earlier batches as well."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        self.kept.append(image)
        return image, label, self.kept[len(self.kept) // 2].clone()


class KeepingBatches:
    """A ``collate_fn`` that keeps its batches in the worker, and gives sums of earlier ones."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate
        self.kept: list[torch.Tensor] = []

    def __call__(self, samples: Any) -> Any:
        images, labels = self.collate(samples)
        self.kept.append(images)
        return images, labels, [one.sum() for one in self.kept]


class Opened(Dataset[Any]):
    def __init__(self, files: list[str], transform: Callable[[Any], Any]) -> None:
        self.files, self.transform = files, transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(self.files[index]).convert("RGB"))


def read_only(image: Any) -> Any:
    array = np.array(image)
    array.flags.writeable = False
    return array


def stacked(samples: Any) -> Any:
    return torch.stack([image for image, _ in samples]), [label for _, label in samples]


def with_views(samples: Any) -> Any:
    images, labels = stacked(samples)
    return {"first": images[:1], "all": images, "odd": images[1::2, :, 3:], "labels": labels, "none": images[:0]}


def epochs(loader: Any, count: int = 3) -> Iterator[Any]:
    torch.manual_seed(0)
    for _ in range(count):
        yield from loader


class TestValues:
    @pytest.mark.parametrize("collate", [default_collate, stacked])
    def test_batches_that_are_kept_by_the_worker_stay(self, photos: list[str], collate: Any) -> None:
        assert_as_plain(Photos(photos), batch_size=4, num_workers=1, collate_fn=KeepingBatches(collate))

    def test_samples_that_are_kept_by_the_worker_stay(self, photos: list[str]) -> None:
        assert_as_plain(Keeping(photos), batch_size=4, num_workers=2)

    @pytest.mark.parametrize("as_array", [np.asarray, read_only])
    def test_arrays_can_be_written(self, photos: list[str], as_array: Callable[[Any], Any]) -> None:
        transform = T.Compose([T.Resize((8, 9)), as_array])
        made = []
        for installed in (nullcontext(), fastpipe.install(check=0)):
            with installed:
                loader = DataLoader(Opened(photos[:2], transform), num_workers=1, batch_size=2, collate_fn=list)
                made += [*loader]
        assert all(array.flags.writeable for batch in made for array in batch)
        assert_same(made[1], made[0])

    def test_views_of_a_batch(self, photos: list[str]) -> None:
        assert_as_plain(Photos(photos), batch_size=4, num_workers=2, collate_fn=with_views)
        options = {"batch_size": 4, "num_workers": 1, "persistent_workers": True, "collate_fn": with_views}
        expected = [batch["odd"] for batch in epochs(DataLoader(Photos(photos), **options))]
        with fastpipe.install(check=0):
            found = [batch["odd"] for batch in epochs(DataLoader(Photos(photos), **options))]
        assert_same(found, expected)

    @pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
    @pytest.mark.parametrize(("method", "workers"), [("fork", 2), pytest.param("spawn", 1, marks=pytest.mark.slow)])
    def test_ways_of_sharing(self, photos: list[str], strategy: str, method: str, workers: int) -> None:
        before = torch.multiprocessing.get_sharing_strategy()
        torch.multiprocessing.set_sharing_strategy(strategy)
        try:
            assert_as_plain(Photos(photos), batch_size=4, num_workers=workers, multiprocessing_context=method)
        finally:
            torch.multiprocessing.set_sharing_strategy(before)

    @pytest.mark.parametrize(
        "kept", [lambda images: images, lambda images: images[1:, :, ::2], lambda images: images.numpy()[-1]]
    )
    def test_what_is_kept_of_a_batch_never_changes(self, photos: list[str], kept: Any) -> None:
        options = {"batch_size": 4, "shuffle": True, "num_workers": 2, "persistent_workers": True}
        expected = [torch.as_tensor(kept(images)) for images, _ in epochs(DataLoader(Photos(photos), **options))]
        with fastpipe.install(check=0):
            found = [torch.as_tensor(kept(images)) for images, _ in epochs(DataLoader(Photos(photos), **options))]
        assert_same(found, expected)

    def test_any_number_of_batches_may_be_kept(self, photos: list[str]) -> None:
        """More than a worker has pieces; memory that none has room for is torch's."""
        files = photos * 12
        made = assert_as_plain(Photos(files, 80), batch_size=2, num_workers=1)
        assert len(made) > 2 * _PIECES

    def test_a_changed_batch_spoils_no_other(self, photos: list[str]) -> None:
        options = {"batch_size": 4, "shuffle": True, "num_workers": 2, "persistent_workers": True}
        expected = [images for images, _ in epochs(DataLoader(Photos(photos), **options))]
        with fastpipe.install(check=0):
            for right, (images, _) in zip(expected, epochs(DataLoader(Photos(photos), **options)), strict=True):
                assert torch.equal(images, right)
                images.fill_(torch.nan)

    def test_a_process_that_was_forked_keeps_its_batch(self, photos: list[str]) -> None:
        with fastpipe.install(check=0):
            loader = DataLoader(Photos(photos), 4, num_workers=1, persistent_workers=True)
            batches = epochs(loader)
            images = next(batches)[0]
            right = images.numpy().tobytes()
            ready, go = os.pipe()
            child = os.fork()
            if not child:
                os.close(go)
                os.read(ready, 1)  # until the main process has got all other batches
                os._exit(int(images.numpy().tobytes() != right))
            os.close(ready)
            del images
            for _ in batches:
                pass
            os.close(go)
            assert os.waitpid(child, 0)[1] == 0

    @pytest.mark.parametrize("workers", [0, 2])
    @pytest.mark.parametrize("collate", [default_collate, stacked])
    def test_a_batch_is_no_view(self, photos: list[str], workers: int, collate: Any) -> None:
        """``detach_`` would raise for a view, and its gradient would come from the tensor that it shows."""
        for hooked in (False, True):
            with fastpipe.install(check=0) if hooked else nullcontext():
                for images, labels in DataLoader(Photos(photos, 160), 4, num_workers=workers, collate_fn=collate):
                    own = [images, *([labels] if torch.is_tensor(labels) else [])]
                    assert not any(one._is_view() for one in own)
                    assert [one.untyped_storage().nbytes() for one in own] == [one.nbytes for one in own]
                    images.detach_().requires_grad_()

    def test_no_line_of_pythons_runs_as_a_batch_goes(self, photos: list[str]) -> None:
        """An exception there, as Ctrl-C's, would be ignored."""
        with fastpipe.install(check=0):
            held = [next(iter(DataLoader(Photos(photos), 4, num_workers=1, persistent_workers=True)))[0]]
            made = [T.Compose([T.ToTensor()])]
            made[0](Image.open(photos[0]))
            calls: list[str] = []
            before = sys.getprofile()
            sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
            try:
                held.clear()
                made.clear()
            finally:
                sys.setprofile(before)
            assert not calls

    def test_a_sample_is_no_view(self, photos: list[str]) -> None:
        class Detaching(Photos):
            def __getitem__(self, index: int) -> Any:
                image, label = super().__getitem__(index)
                return image.detach_().mul_(2), label

        assert_as_plain(Detaching(photos, 160), batch_size=4, num_workers=0)


class TestMemory:
    @pytest.mark.needs_core
    @pytest.mark.parametrize("collate", [default_collate, stacked])
    def test_it_is_used_again(self, photos: list[str], collate: Any) -> None:
        with fastpipe.install(check=0):
            loader = DataLoader(
                Photos(photos), 4, num_workers=1, drop_last=True, persistent_workers=True, collate_fn=collate
            )
            places = [images.data_ptr() for images, *_ in epochs(loader, 4)]
        assert len(places) == 24
        assert len(set(places)) <= 5, "two ahead, one under way, and two that the loop holds"

    @pytest.mark.needs_core
    def test_batches_of_several_sizes_use_it_again(self, photos: list[str]) -> None:
        class Crops(Photos):
            def __getitem__(self, index: int) -> Any:
                return [Photos(self.files, size)[index][0] for size in (128, 128, 64, 64, 64)]

        with fastpipe.install(check=0):
            loader = DataLoader(Crops(photos), 4, num_workers=1, drop_last=True, persistent_workers=True)
            places = [one.data_ptr() for batch in epochs(loader, 5) for one in batch]
        assert len(set(places[len(places) // 2 :])) <= 25

    @pytest.mark.needs_core
    def test_it_goes_away_with_the_workers(self, photos: list[str]) -> None:
        gc.collect()
        before = _mapped()
        with fastpipe.install(check=0):
            loader: Any = DataLoader(Photos(photos), 4, num_workers=2, persistent_workers=True)
            batches = epochs(loader, 1)
            images = next(batches)[0]
            right = images.clone()
            workers = [process.name for process in loader._iterator._workers]
            assert pieces_in_use(workers) > 0
            assert [*map(len, batches)] == [2] * 5
        del batches, loader
        gc.collect()
        assert pieces_in_use(workers) == 0, "which nobody asks about any more"
        assert torch.equal(images, right)
        assert _mapped() - before == 1, "the batch that is kept"
        del images
        assert _mapped() == before


def _mapped() -> int:
    """Pieces of shared memory of a batch's size or more that this process has mapped."""
    with Path("/proc/self/maps").open() as maps:
        sizes = [line.split()[0].split("-") for line in maps if "/torch_" in line]
    return sum(int(stop, 16) - int(start, 16) > 1 << 16 for start, stop in sizes)
