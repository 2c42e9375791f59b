"""`tune`: keyword arguments that work, from trials that were made; no claims about speed."""

from __future__ import annotations

import multiprocessing
import random
import sys

import pytest
import torch

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import DatasetError
from fastpipe.index import _progress
from fastpipe.loading.tuning import _settings

CROP = T.Compose([T.RandomResizedCrop(24), T.ToTensor()])


@pytest.mark.skipif(sys.platform != "linux", reason="forks workers; spawned ones start slowly")
def test_chooses_among_what_it_tried(root):
    dataset = fastpipe.ImageFolder(root, CROP)
    state, python = torch.get_rng_state(), random.getstate()
    before = set(multiprocessing.active_children())
    tuning = fastpipe.tune(dataset, 4, seconds=1.5, max_workers=1, memory_format=torch.channels_last)
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == python
    assert set(multiprocessing.active_children()) <= before
    assert tuning.chosen in tuning.trials
    fastest = max(trial.images_per_s for trial in tuning.trials)
    assert tuning.chosen.images_per_s >= 0.95 * fastest
    assert all(trial.memory_mb > 0 and trial.first_batch_s > 0 for trial in tuning.trials)
    assert str(tuning).count("chosen") == 1
    assert len(str(tuning).splitlines()) == len(tuning.trials) + 1
    loader = fastpipe.DataLoader(dataset, shuffle=True, **tuning.kwargs)
    assert sum(len(targets) for _, targets in loader) == len(dataset)


def test_batches_in_flight_are_counted(root):
    dataset = fastpipe.ImageFolder(root, CROP, seed=1)
    tuning = fastpipe.tune(dataset, 4, seconds=0.1, max_workers=0)
    assert tuning.trials[0].num_workers == 0
    assert tuning.trials[0].memory_mb == pytest.approx((4 * 3 * 24 * 24 * 4 + 4 * 8) / 1e6)


def test_says_why_threads_alone_are_not_ahead(root):
    steps = [*CROP.transforms, T.Lambda(lambda image: image.clone())]
    tuning = fastpipe.tune(fastpipe.ImageFolder(root, T.Compose(steps)), 4, seconds=0.1, max_workers=0)
    assert "the transform Lambda is Python code" in tuning.note
    assert str(tuning).endswith(tuning.note)
    assert all(trial.prefetch_factor is None for trial in tuning.trials)
    assert fastpipe.tune(fastpipe.ImageFolder(root, CROP), 4, seconds=0.1, max_workers=0).note == ""


def test_settings():
    assert list(_settings(4, 4, True)) == [(0, 0), (0, 4), (1, 0), (1, 4), (2, 0), (2, 2), (4, 0)]
    assert list(_settings(3, 3, False)) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert list(_settings(0, 1, True)) == [(0, 0)]


def test_bad_arguments(root):
    dataset = fastpipe.ImageFolder(root, CROP)
    for arguments in ({"batch_size": 0}, {"batch_size": 1, "seconds": 0}):
        with pytest.raises(DatasetError, match="some time"):
            fastpipe.tune(dataset, **arguments)
    with pytest.raises(DatasetError, match="0 samples"):
        fastpipe.tune([], 4)


@pytest.mark.parametrize("shown", [True, False])
def test_a_terminal_sees_how_far_it_is(root, monkeypatch, capsys, shown):
    monkeypatch.setattr(_progress.SlowBar, "delay_s", 0.0)
    monkeypatch.setattr(_progress, "_is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    dataset = fastpipe.ImageFolder(root, T.Compose([T.Resize((8, 8)), T.ToTensor()]))
    fastpipe.tune(dataset, 2, seconds=0.01, max_workers=0, progress=shown)
    assert ("trying settings" in capsys.readouterr().err) == shown
