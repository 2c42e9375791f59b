"""`fastpipe.GrowingDataset`: what each epoch has, whoever asks, whatever the store does and whoever is killed."""

from __future__ import annotations

import io
import pickle
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from growing.growing_store import COUNT, SIZE, Store, go_on, image, numbers, order

import fastpipe
from fastpipe import samplers
from fastpipe import transforms as T
from fastpipe.errors import DatasetError, FastpipeWarning, StoreError
from fastpipe.growing import dataset as growing_dataset
from fastpipe.growing.dataset import GrowingDataset
from fastpipe.sources import Cache


def test_epochs_grow_by_what_has_arrived(make: Callable[..., GrowingDataset], store: Store) -> None:
    grown = make()
    arriving = order(grown)
    assert sorted(arriving) == list(range(COUNT))
    assert numbers(grown) == arriving[:12]  # whole steps of 4
    assert len(store.reads) == 12
    go_on(grown, 1)
    assert len(grown) == 12  # fixed within the epoch
    grown.set_epoch(1)
    assert numbers(grown) == arriving[:16]
    go_on(grown)
    for epoch, stop in ((2, 24), (3, 36), (4, 54), (5, 60), (6, 60)):  # half as many again, until all are there
        grown.set_epoch(epoch)
        assert numbers(grown) == arriving[:stop]
        go_on(grown)
    grown.set_epoch(1)
    assert numbers(grown) == arriving[:16]
    assert len(store.reads) == COUNT  # each once
    statistics = grown.statistics()
    assert (statistics.samples, statistics.new, statistics.arrived, statistics.evicted) == (16, 4, 60, 0)
    assert statistics.fetched_bytes == sum(map(len, store.files.values()))
    assert statistics.still_s == 0


def test_the_oldest_leave_where_the_cache_is_full(make: Callable[..., GrowingDataset], store: Store) -> None:
    grown = make(capacity=24)
    arriving = order(grown) * 3
    seen: set[int] = set()
    before = (0, 0)
    for epoch in range(12):
        grown.set_epoch(epoch)
        found = numbers(grown)
        window = grown._window(epoch)
        assert found == arriving[window.first : window.stop]
        assert len(set(found)) == len(found)
        assert window.first >= before[0]
        assert window.new == window.stop - max(before[1], window.first)
        before = window.first, window.stop
        reads = len(store.reads)
        assert numbers(grown) == found
        assert len(store.reads) == reads  # all of it is in the cache
        go_on(grown)
        assert grown.cache.statistics().bytes <= 24 * SIZE
        seen.update(found)
        if epoch > 2:
            assert len(found) == 16
            assert window.new == 8
    assert seen == set(range(COUNT))
    assert before[1] > COUNT  # it has begun anew
    assert grown.statistics().evicted == before[0]


def test_an_epoch_that_is_prepared_takes_nothing_from_the_one_that_runs(
    make: Callable[..., GrowingDataset], store: Store
) -> None:
    grown = make(capacity=24)
    for epoch in range(6):
        grown.set_epoch(epoch)
        assert len(grown.inner([0])) == 1
        go_on(grown)
        stop = grown.length_at(epoch + 1)  # as a loader does that makes its batches ahead
        go_on(grown)
        reads = len(store.reads)
        numbers(grown)
        assert len(store.reads) == reads
    assert stop == 16


def test_a_file_that_is_not_there_is_left_out(make: Callable[..., GrowingDataset], store: Store) -> None:
    grown = make()
    arriving = order(grown)
    key = {int(key[8:11]): key for key in store.files}
    for place in (0, 5, 11, 13):
        store.broken[key[arriving[place]]] = FileNotFoundError(2, "no such file")
    store.broken[key[arriving[6]]] = OSError("500 Internal Server Error")  # again and again
    expected = [number for place, number in enumerate(arriving) if place not in (0, 5, 6, 11, 13)]
    found = numbers(grown)
    assert found == expected[: len(found)]
    assert len(found) >= 8
    with pytest.raises(IndexError, match="place -1 is out of range"):
        grown.__getitems__([3, -1])
    with pytest.raises(IndexError, match="place"):
        grown.inner([len(found)])
    for epoch in range(1, 7):
        go_on(grown)
        grown.set_epoch(epoch)
        found = numbers(grown)
        assert found == expected[: len(found)]
    assert found == expected
    assert grown.statistics().missing == 5


def test_a_store_that_fails_stops_nobody(
    make: Callable[..., GrowingDataset], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = make()
    assert len(numbers(grown)) == 12
    store.broken = dict.fromkeys(store.files, OSError("503 Slow Down"))
    go_on(grown, 1)
    now = time.time()
    monkeypatch.setattr(growing_dataset.time, "time", lambda: now + 90)
    grown.set_epoch(1)
    with pytest.warns(
        FastpipeWarning, match=r"nothing has arrived from store: for 90 s \(OSError: 503 Slow Down\)"
    ) as told:
        assert len(grown) == 12
    assert [one.filename for one in told] == [__file__]
    assert 89 < grown.statistics().still_s < 91
    store.broken.clear()
    go_on(grown)
    grown.set_epoch(2)
    assert len(grown) == 18


def test_a_store_that_fails_from_the_beginning_is_an_error(make: Callable[..., GrowingDataset], store: Store) -> None:
    store.broken = dict.fromkeys(store.files, OSError("403 Forbidden"))
    with pytest.raises(StoreError, match="nothing arrives from store:: OSError: 403 Forbidden"):
        len(make())
    store.broken.clear()
    with pytest.raises(DatasetError, match="no room for a single sample"):
        len(make(capacity=0))


def test_a_cache_too_small_for_the_first_epoch_is_an_error_that_says_which_would_do(
    make: Callable[..., GrowingDataset], store: Store, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError, match=r"start=40: .* full with 24 samples.* 16\. .*capacity of \d+ MB.*start=16"):
        len(make(capacity=24, start=40))
    assert len(make(capacity=24, start=16)) == 16

    files = {key: bytes(100_000 + 500 * number) for number, key in enumerate(store.files)}
    for capacity, start in ((500_000, 20), (1_000_000, 20)):
        store.files = files
        source = fastpipe.ImageFolder(store, index=None)
        with pytest.raises(DatasetError, match="capacity of") as caught:
            len(GrowingDataset(source, Cache(tmp_path / str(capacity), capacity), start=start))
        said = re.search(r"capacity of (\d+ MB).* or start=(\d+)", str(caught.value))
        assert said is not None
        assert len(GrowingDataset(source, Cache(tmp_path / f"more {capacity}", said[1]), start=start)) >= start
        fewer = GrowingDataset(source, Cache(tmp_path / f"fewer {capacity}", capacity), start=int(said[2]))
        assert len(fewer) >= int(said[2])


@pytest.mark.parametrize("how", ["threads", "workers", "torch"])
def test_loaders_give_each_sample_of_an_epoch_once(make: Callable[..., GrowingDataset], how: str) -> None:
    grown = make()
    expected = order(grown)
    len(grown)
    if how == "torch":
        loader: Any = torch.utils.data.DataLoader(grown, 4, shuffle=True)
    else:
        options = {"threads": 2} if how == "threads" else {"num_workers": 2}
        loader = fastpipe.DataLoader(grown, 4, shuffle=True, **options)
    for epoch in range(4):
        if how == "torch":
            grown.set_epoch(epoch)
        found = []
        for images, _ in loader:
            found += images[:, 0, 0, 0].tolist()
            go_on(grown, 1)
        stop = grown._window(epoch).stop
        assert sorted(found) == sorted(expected[:stop])
        assert len(loader) == -(-stop // 4)
    assert stop > 12


def test_a_run_is_resumed_in_the_middle_of_an_epoch(make: Callable[..., GrowingDataset]) -> None:
    def batches(loader: Any) -> list[list[int]]:
        return [images[:, 0, 0, 0].tolist() for images, _ in loader]

    grown = make()
    loader = fastpipe.DataLoader(grown, 4, shuffle=True, threads=1)
    batches(loader)
    go_on(grown)
    running = iter(loader)
    [next(running) for _ in range(2)]
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    rest = batches(running)
    go_on(grown)
    after = batches(loader)
    assert len(after) > len(rest) + 2

    again = make()
    resumed = fastpipe.DataLoader(again, 4, shuffle=True, threads=1)
    resumed.load_state_dict(state)
    assert batches(resumed) == rest
    assert batches(resumed) == after


def test_ranks_agree(make: Callable[..., GrowingDataset]) -> None:
    ranks = [make() for _ in range(2)]
    both = [samplers.DistributedSampler(one, 2, rank, seed=1) for rank, one in enumerate(ranks)]
    for epoch in range(3):
        found = []
        for one, sampler in zip(ranks, both, strict=True):
            one.set_epoch(epoch)
            sampler.set_epoch(epoch)
            places = list(sampler)
            assert len(places) == len(sampler) == sampler.num_samples
            found += one.inner(places)
            go_on(ranks[0], 2)  # what arrives in between changes nothing
        assert set(found) == set(ranks[0].indices)
        assert len(found) - len(set(found)) == len(ranks[0]) % 2
        assert ranks[0].length_at(epoch) == ranks[1].length_at(epoch)


def test_another_run_can_begin_with_what_is_there(make: Callable[..., GrowingDataset]) -> None:
    first = make(capacity=24)
    for epoch in range(5):
        first.set_epoch(epoch)
        numbers(first)
        go_on(first)
    there = first._window(4)
    second = make(capacity=24)
    with pytest.warns(FastpipeWarning, match=r"epoch 0 is one of an earlier run.* call forget\(\)"):
        assert numbers(second) == order(second)[:12]
    third = make(capacity=24)
    third.forget()
    assert third._window(0).first >= there.first
    assert len(third) == 16


def test_arguments_are_looked_at(here: None, store: Store, tmp_path: Path) -> None:
    source = fastpipe.ImageFolder(store, index=None)
    cache = Cache(tmp_path / "cache", 1000)
    for given in (0, "3", 1.5, None):
        with pytest.raises(DatasetError, match=r"start=.*: give the number of samples"):
            GrowingDataset(source, cache, start=given)
    for given in (1.0, "3", float("nan"), float("inf"), None):
        with pytest.raises(DatasetError, match=r"growth=.*: give a number above 1"):
            GrowingDataset(source, cache, growth=given)
    for given in ("3", 1.5, None, True):
        with pytest.raises(DatasetError, match=r"seed=.*: give an integer"):
            GrowingDataset(source, cache, seed=given)
    for given in (None, tmp_path / "cache", "cache"):
        with pytest.raises(DatasetError, match=r"cache=.*: give the cache that samples are kept in"):
            GrowingDataset(source, given)
    corpus.write_folder(tmp_path / "root")
    with pytest.raises(DatasetError, match="takes a dataset of fastpipe whose files are in a store"):
        GrowingDataset(fastpipe.ImageFolder(tmp_path / "root", index=None), cache)
    kept = GrowingDataset(fastpipe.ImageFolder(store, index=None, cache=cache))
    assert kept.cache is cache
    assert source.seed is None
    assert kept.dataset.seed == 0


def test_arrays_grow_as_images_do(here: None, tmp_path: Path) -> None:
    store = Store(0)
    arrays = [np.full((4, 6), number, ">f4") for number in range(30)]
    for number, array in enumerate(arrays):
        out = io.BytesIO()
        np.save(out, array)
        store.files[f"{number:03}.npy"] = out.getvalue()
    source = fastpipe.ArrayList((list(store.files), list(range(30))), root=store)
    grown = GrowingDataset(source, Cache(tmp_path / "cache", 24 * SIZE), start=8)
    loader = fastpipe.DataLoader(grown, 4, shuffle=True, threads=2)
    for _ in range(9):  # an epoch may be prepared before what is fetched behind this loop has arrived
        found = {}
        for batch, labels in loader:
            assert batch.shape[1:] == (4, 6)
            assert batch.dtype == torch.float32
            found |= dict(zip(labels.tolist(), batch, strict=True))
        assert sorted(found) == sorted(grown.indices)
        assert all((one.numpy() == arrays[label]).all() for label, one in found.items())
        go_on(grown)
    assert grown.statistics().evicted > 0


def test_a_rescan_has_the_files_that_came_since(make: Callable[..., GrowingDataset], store: Store) -> None:
    grown = make()
    assert len(grown) == 12
    assert grown.rescan() is grown
    before = set(numbers(grown))
    store.files |= {f"class_{n % 3}/{n:03}.png": image(n) for n in range(COUNT, COUNT + 30)}
    del store.files["class_0/000.png"]
    grown.set_epoch(3)
    store.reads.clear()
    longer = grown.rescan()
    assert longer.dataset.epoch == 3
    assert [path for path, _ in longer.dataset.samples] == [
        path for path, _ in fastpipe.ImageFolder(store, index=None).samples
    ]
    go_on(longer)
    for epoch in range(4, 12):
        longer.set_epoch(epoch)
        numbers(longer)
        go_on(longer)
    assert sorted(numbers(longer)) == list(range(1, COUNT + 30))
    read = {int(key.rpartition("/")[2].removesuffix(".png")) for key in store.reads}
    assert read == set(range(1, COUNT + 30)) - before  # what was in the cache isn't fetched again
    labels = dict(zip(numbers(longer), (longer[place][1] for place in range(len(longer))), strict=True))
    assert all(label == number % 3 for number, label in labels.items())


def test_a_rescan_refuses_other_classes_and_lists(make: Callable[..., GrowingDataset], store: Store) -> None:
    grown = make()
    store.files["class_3/100.png"] = image(100)
    with pytest.raises(DatasetError, match=r"classes of store: have changed \(class_3\)"):
        grown.rescan()
    listed = fastpipe.ArrayList((list(store.files), list(range(len(store.files)))), root=store)
    with pytest.raises(DatasetError, match="make it again from the longer list"):
        GrowingDataset(listed, grown.cache, start=2).rescan()


@pytest.mark.parametrize("damage", [b"no image", image(7)[:50], b""], ids=["another file", "cut off", "empty"])
def test_a_damaged_image_is_a_bad_sample(here: None, store: Store, tmp_path: Path, damage: bytes) -> None:
    key = next(key for key in store.files if key.endswith("007.png"))
    store.files[key] = damage

    def grown(on_error: Any) -> GrowingDataset:
        source = fastpipe.ImageFolder(store, T.PILToTensor(), index=None, on_error=on_error, max_bad_fraction=1.0)
        return GrowingDataset(source, Cache(tmp_path / "cache", 1000 * SIZE), start=COUNT, seed=5)

    strict = grown("raise")
    place = order(strict).index(7)
    with pytest.raises(OSError, match=r"007\.png"):
        strict[place]
    for on_error, count in (("skip", COUNT - 1), ("replace", COUNT)):
        dataset = grown(on_error)
        loader = fastpipe.DataLoader(dataset, batch_size=16)
        with pytest.warns(FastpipeWarning, match=f"1 of the {COUNT} samples of this epoch can't be read"):
            found = [int(image[0, 0, 0]) for images, _ in loader for image in images]
        assert len(found) == count
        assert 7 not in found
        assert loader.bad_files.total == 1
