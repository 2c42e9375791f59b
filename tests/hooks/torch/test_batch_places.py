"""Memory of the batches of torch's own loader: samples are made where the batch will be, and it is used again."""

from __future__ import annotations

import io
import pickle
from typing import Any

import pytest
import torch
from hooks.photo_batches import Photos, Stream, doubled, stacked, train
from plain_and_hooked import assert_as_plain
from torch.utils.data import DataLoader, default_collate
from torchvision_here import module, torchvision

import fastpipe
import fastpipe.program.on_image  # from whose import on batches are fetched by the hooks

T = torchvision.transforms
COUNT = 20


class Recording(Photos):
    """Notes where its samples are, and keeps some."""

    def __init__(self, files: list[str], transform: Any, keeps: tuple[int, ...] = (), view: bool = False) -> None:
        super().__init__(files, transform)
        self.places: list[int] = []
        self.kept: dict[int, Any] = {}
        self.keeps, self.view = keeps, view

    def __getitem__(self, index: int) -> Any:
        made, label = super().__getitem__(index)
        self.places.append(made.data_ptr())
        if index in self.keeps:
            self.kept[index] = made[:, 3:5].numpy() if self.view else made
        return made, label


class TestMemory:
    @pytest.mark.needs_core
    def test_a_batch_is_where_its_samples_were(self, photos: list[str], installed: None) -> None:
        dataset = Recording(photos, train())
        for number, (images, _) in enumerate(DataLoader(dataset, batch_size=6, drop_last=True)):
            if number:  # the first batch's tells that samples are looked at before they are stacked
                assert [image.data_ptr() for image in images] == dataset.places
            dataset.places.clear()

    @pytest.mark.needs_core
    def test_samples_that_lie_otherwise_are_copied_to_their_places(self, photos: list[str]) -> None:
        v2 = module("torchvision.transforms.v2")
        end = [v2.Resize((128, 128)), v2.ToDtype(torch.float32, scale=True)]
        narrow, wide = v2.Compose([v2.PILToTensor(), v2.CenterCrop(96), *end]), v2.Compose([v2.PILToTensor(), *end])

        class Mixed(Recording):
            def __getitem__(self, index: int) -> Any:
                self.transform = wide if index % 10 in (3, 7) else narrow
                return super().__getitem__(index)

        for workers in (0, 2):
            assert_as_plain(Mixed(photos, None, (13,)), batch_size=10, shuffle=False, num_workers=workers)
        dataset = Mixed(photos, None)
        with fastpipe.install(check=0):
            for number, (images, _) in enumerate(DataLoader(dataset, batch_size=10)):
                assert images.is_contiguous()
                if not number:
                    dataset.places.clear()
                    continue
                moved = [image.data_ptr() != place for image, place in zip(images, dataset.places, strict=True)]
                assert [number for number, is_moved in enumerate(moved) if is_moved] == [3, 7]
                dataset.places.clear()

    def test_memory_is_used_again(self, photos: list[str], installed: None) -> None:
        dataset = Recording(photos, train())
        loader = DataLoader(dataset, batch_size=6, drop_last=True)
        for _ in range(3):
            for number, (images, _) in enumerate(loader):
                if not number:
                    first = len(dataset.places)
                del images
            del dataset.places[first - 6 : first]
        assert len(dataset.places) == 36
        assert len(set(dataset.places)) <= 24

    @pytest.mark.parametrize("make", [lambda files: Photos(files, train()), lambda files: Stream(files, train(), 0)])
    @pytest.mark.parametrize("collate", [stacked, default_collate])
    def test_batches_that_are_stacked_use_memory_again(
        self, photos: list[str], installed: None, make: Any, collate: Any
    ) -> None:
        loader = DataLoader(make(photos), batch_size=10, collate_fn=collate)
        places = [images.data_ptr() for _ in range(4) for images, _ in loader]
        assert len(places) == 8
        assert len(set(places)) <= 4

    def test_batches_that_are_kept_stay(self, photos: list[str]) -> None:
        assert_as_plain(Photos(photos, train()), batch_size=4)  # a list of all of them

    @pytest.mark.parametrize("view", [False, True])
    @pytest.mark.parametrize("collate", [None, doubled])
    def test_samples_that_are_kept_are_no_part_of_the_batch(
        self, photos: list[str], installed: None, view: bool, collate: Any
    ) -> None:
        dataset = Recording(photos, train(), (1, 4, 12), view)
        for images, *_ in DataLoader(dataset, batch_size=10, collate_fn=collate):
            images.fill_(7)
        expected = Recording(photos, train(), (1, 4, 12), view)
        fastpipe.uninstall()
        torch.manual_seed(0)
        list(DataLoader(expected, batch_size=10))
        with fastpipe.install(check=0):
            torch.manual_seed(0)
            for images, *_ in DataLoader(dataset, batch_size=10, collate_fn=collate):
                images.fill_(7)
            del images
            for batch in DataLoader(Photos(photos, train()), batch_size=10):  # whose memory mustn't be theirs
                del batch
        assert dataset.kept.keys() == expected.kept.keys() == {1, 4, 12}
        for index, kept in dataset.kept.items():
            assert torch.equal(torch.as_tensor(kept), torch.as_tensor(expected.kept[index]))

    def test_one_sample_holds_its_own_bytes(self, photos: list[str], installed: None) -> None:
        sizes: list[tuple[int, int, int]] = []

        class Sizes(Photos):
            def __getitem__(self, index: int) -> Any:
                made, label = super().__getitem__(index)
                saved = io.BytesIO()
                torch.save(made, saved)
                sizes.append((made.untyped_storage().nbytes(), len(pickle.dumps(made)), len(saved.getvalue())))
                assert torch.equal(pickle.loads(pickle.dumps(made)), made)
                assert made.storage_offset() == 0
                return made, label

        list(DataLoader(Sizes(photos, train()), batch_size=10))
        own = 3 * 128 * 128 * 4
        assert all(size == own and own <= min(rest) and max(rest) < own + 5000 for size, *rest in sizes)

    @pytest.mark.needs_core
    def test_a_sample_kept_from_each_batch_holds_no_batches(self, photos: list[str], installed: None) -> None:
        dataset = Recording(photos, train(), tuple(range(COUNT)))
        list(DataLoader(dataset, batch_size=6))
        size = dataset.kept[0].nbytes
        steps = [later - place for place, later in zip(dataset.places, dataset.places[1:], strict=False)]
        assert set(steps[6:11]) == {size}  # until it is seen that somebody keeps them
        assert set(steps[12:17]) != {size}

    def test_uninstall_gives_torch_its_functions_back(self) -> None:
        from torch.utils.data._utils import collate, fetch

        before = fetch._MapDatasetFetcher.fetch, collate.default_collate_fn_map[torch.Tensor]
        with fastpipe.install(check=0):
            assert fetch._MapDatasetFetcher.fetch is not before[0]
        assert (fetch._MapDatasetFetcher.fetch, collate.default_collate_fn_map[torch.Tensor]) == before

    def test_own_collate_of_tensors_stays(self, photos: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        from torch.utils.data._utils import collate

        def mine(batch: Any, *, collate_fn_map: Any = None) -> str:
            return f"{len(batch)} of mine"

        monkeypatch.setitem(collate.default_collate_fn_map, torch.Tensor, mine)
        assert assert_as_plain(Photos(photos, train()), batch_size=10)[0][0] == "10 of mine"
