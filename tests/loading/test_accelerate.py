"""`fastpipe.DataLoader` through Accelerate: kept by `prepare`, and told where it is lost."""

from __future__ import annotations

import pytest
import torch
import torchvision_here  # noqa: F401  (accelerate imports torchvision)
from loading.batches import dataset, equal

import fastpipe
from fastpipe.errors import FastpipeWarning

accelerate = pytest.importorskip("accelerate")


@pytest.fixture
def accelerator():
    return accelerate.Accelerator(cpu=True)


def batches(loader, count=2):
    return [[part.clone() for part in batch] for _ in range(count) for batch in loader]


def loader(root, seed=3, **options):
    torch.manual_seed(7)
    return fastpipe.DataLoader(dataset(root, seed=seed), 3, shuffle=True, **{"threads": 2, **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": torch.float16},
        {"threads": None, "num_workers": 1},
        {"prefetch_factor": 4, "persistent_workers": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("through_prepare", [False, True])
def test_kept(root, accelerator, options, through_prepare):
    prepared = loader(root, **options).prepare(accelerator)
    if through_prepare:
        assert accelerator.prepare(prepared) is prepared
    assert type(prepared.base_dataloader) is fastpipe.DataLoader
    found = []
    for _ in range(2):
        ends = []
        for batch in prepared:
            found.append([part.clone() for part in batch])
            ends.append(accelerator.gradient_state.end_of_dataloader)
        assert ends == [False] * 4 + [True]
    assert equal(found, batches(loader(root, **options)))
    if not options:
        assert prepared.base_dataloader._thread_iterator is not None


def test_each_process_gets_its_share(root, accelerator, monkeypatch):
    """The batches of two processes are those of one, in turns."""
    expected = batches(loader(root), 1)
    found = []
    for rank in range(2):
        monkeypatch.setattr(type(accelerator), "num_processes", 2)
        monkeypatch.setattr(type(accelerator), "process_index", rank)
        prepared = loader(root).prepare(accelerator)
        assert type(prepared.base_dataloader) is fastpipe.DataLoader
        prepared.rng_types = None  # there is nobody to agree with
        found.append(batches(prepared, 1))
    assert equal(found[0][:2], expected[:4:2])
    assert equal(found[1][:2], expected[1:4:2])
    assert [len(labels) for _, labels in found[0] + found[1]] == [3] * 6  # filled up from the front


def test_threads_that_are_lost_are_told_once(root, accelerator):
    made = loader(root, persistent_workers=True, prefetch_factor=4)
    with pytest.warns(FastpipeWarning, match=r"threads=2 is lost.*loader\.prepare\(accelerator\).*num_workers"):
        prepared = accelerator.prepare(made)
    assert type(prepared.base_dataloader) is torch.utils.data.DataLoader
    accelerator.prepare(made)
    accelerator.prepare(loader(root, threads=None, num_workers=1))
    assert equal(batches(prepared, 1), batches(loader(root), 1))


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("stop", [1, 2])
def test_resumes_on_other_processes(root, accelerator, monkeypatch, tmp_path, before, after, stop):
    """Accelerate looks a batch ahead, counts epochs itself, and divides batches among processes."""
    epochs = [batches(loader(root), 1), batches(loader(root), 2)[5:]]

    def prepared(processes, rank):
        monkeypatch.setattr(type(accelerator), "num_processes", processes)
        monkeypatch.setattr(type(accelerator), "process_index", rank)
        made = loader(root).prepare(accelerator)
        made.rng_types = None  # there is nobody to agree with
        return made

    saved = prepared(before, before - 1)
    batches(saved, 1)  # it stops in the second epoch
    walk = iter(saved)
    for _ in range(stop):
        next(walk)
    accelerator.register_for_checkpointing(saved)
    accelerator.save_state(tmp_path / "saved")
    found = []
    for rank in range(after):
        again = prepared(after, rank)
        accelerator._custom_objects[:] = [again]
        accelerator.load_state(tmp_path / "saved")
        found.append(batches(again, 1))
    accelerator._custom_objects.clear()
    rest = torch.cat([images for images, _ in epochs[1][stop * before :]])
    images = torch.cat([images for row in zip(*found, strict=True) for images, _ in row])
    assert torch.equal(images[: len(rest)], rest)  # behind it comes Accelerate's padding
