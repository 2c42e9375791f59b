"""`tune`: keyword arguments that work, from trials that were made; no claims about speed."""

from __future__ import annotations

import math
import multiprocessing
import random
import sys

import pytest
import torch

import fastpipe
from fastpipe import progress_bar
from fastpipe import transforms as T
from fastpipe.core.thread_resources import _resources
from fastpipe.errors import DatasetError
from fastpipe.loading import tuning
from fastpipe.loading.tuning import _settings

CROP = T.Compose([T.RandomResizedCrop(24), T.ToTensor()])


@pytest.mark.skipif(sys.platform != "linux", reason="forks workers; spawned ones start slowly")
def test_chooses_among_what_it_tried(root):
    dataset = fastpipe.ImageFolder(root, CROP)
    state, python = torch.get_rng_state(), random.getstate()
    before = set(multiprocessing.active_children())
    made = fastpipe.tune(dataset, 4, seconds=1.5, max_workers=1, memory_format=torch.channels_last)
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == python
    assert set(multiprocessing.active_children()) <= before
    assert made.chosen in made.trials
    fastest = max(trial.beside_training for trial in made.trials)
    assert made.chosen.beside_training >= 0.95 * fastest
    assert all(trial.memory_mb > 0 and trial.first_batch_s > 0 for trial in made.trials)
    assert str(made).count("chosen") == 1
    assert len(str(made).splitlines()) == len(made.trials) + 1 + bool(made.note)
    loader = fastpipe.DataLoader(dataset, shuffle=True, **made.kwargs)
    assert sum(len(targets) for _, targets in loader) == len(dataset)


def test_threads_end_after_a_trial_that_failed(root):
    dataset = fastpipe.ImageFolder(root, CROP, threads=2)

    def make():
        loader = fastpipe.DataLoader(dataset, 4)
        next(iter(loader))
        assert _resources.value is not None
        raise RuntimeError("failed")

    with pytest.raises(RuntimeError, match="failed"):
        tuning.try_loader(make, 1)
    assert _resources.value is None


@pytest.mark.parametrize(
    ("rates", "chosen", "note"),
    [
        ({(0, 0): 100, (0, 4): 400, (1, 0): 90, (1, 4): 330}, (1, 4), "four fifths"),
        ({(0, 0): 100, (0, 4): 400, (1, 0): 90, (1, 4): 410}, (1, 4), ""),
        ({(0, 0): 100, (0, 4): 400, (1, 0): 90, (1, 4): 300}, (0, 4), ""),
        ({(0, 0): 100, (1, 0): 90, (1, 4): 300, (2, 2): 310}, (1, 4), ""),  # fewer workers
    ],
)
def test_threads_in_the_training_process_have_to_be_faster_by_a_quarter(root, monkeypatch, rates, chosen, note):
    def trial(make, seconds):
        loader = make()
        setting = loader.num_workers, loader.threads
        return tuning.Trial(*setting, loader.prefetch_factor, rates[setting], 0.1, 10)

    monkeypatch.setattr(tuning, "try_loader", trial)
    monkeypatch.setattr(tuning, "_settings", lambda *arguments: iter(rates))
    found = fastpipe.tune(fastpipe.ImageFolder(root, CROP), 4)
    assert (found.kwargs["num_workers"], found.kwargs["threads"]) == chosen
    assert (note in found.note) if note else found.note == ""


def trial(workers, rate, threads=0, prefetch=2):
    return tuning.Trial(workers, threads, prefetch, rate, 0.1, 10)


@pytest.mark.parametrize(
    ("trials", "needed", "chosen"),
    [
        ([(1, 100), (2, 290), (4, 295)], math.inf, 1),  # as good, with fewer workers
        ([(1, 100), (2, 270), (4, 295)], math.inf, 2),
        ([(1, 100), (2, 270), (4, 295)], 280, 1),  # within 5% of what is needed
        ([(1, 100), (2, 270), (4, 295)], 290, 2),
        ([(1, 100), (2, 270), (4, 295)], 900, 2),
        ([(0, 400), (1, 320)], math.inf, 1),
        ([(0, 400), (1, 300)], math.inf, 0),
        ([(0, 400), (1, 200)], 200, 1),
        ([(1, 100, 0, 4), (1, 100)], math.inf, 1),  # fewer batches ahead
        ([(1, 100), (1, 101, 4)], math.inf, 1),  # the fastest of those that cost the same
    ],
)
def test_the_setting_that_costs_least_of_those_that_deliver_enough(trials, needed, chosen):
    made = [trial(*one) for one in trials]
    assert tuning.choose(made, needed) is made[chosen]


def test_batches_in_flight_are_counted(root):
    dataset = fastpipe.ImageFolder(root, CROP, seed=1)
    made = fastpipe.tune(dataset, 4, seconds=0.1, max_workers=0)
    assert made.trials[0].num_workers == 0
    assert made.trials[0].memory_mb == pytest.approx((4 * 3 * 24 * 24 * 4 + 4 * 8) / 1e6)


def test_says_why_threads_alone_are_not_ahead(root):
    steps = [*CROP.transforms, T.Lambda(lambda image: image.clone())]
    made = fastpipe.tune(fastpipe.ImageFolder(root, T.Compose(steps)), 4, seconds=0.1, max_workers=0)
    assert "the transform Lambda is Python code" in made.note
    assert str(made).endswith(made.note)
    assert all(trial.prefetch_factor is None for trial in made.trials)
    assert fastpipe.tune(fastpipe.ImageFolder(root, CROP), 4, seconds=0.1, max_workers=0).note == ""


def test_settings():
    assert list(_settings(4, 4, True)) == [(0, 0), (0, 4), (1, 0), (1, 4), (2, 0), (2, 2), (4, 0)]
    assert list(_settings(3, 3, False)) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert list(_settings(0, 1, True)) == [(0, 0)]


def test_bad_arguments(root):
    dataset = fastpipe.ImageFolder(root, CROP)
    none = ({"seconds": 0}, {"seconds": float("nan")}, {"seconds": float("inf")})
    for seconds in none:
        with pytest.raises(DatasetError, match=r"seconds=.*: give the time"):
            fastpipe.tune(dataset, 1, **seconds)
    for size in (0, None, "4", 1.5):
        with pytest.raises(DatasetError, match=r"batch_size=.*: give the samples of a batch"):
            fastpipe.tune(dataset, size)
    for other in (None, 3, iter([])):
        with pytest.raises(DatasetError, match=r"dataset=.*: give a map-style dataset"):
            fastpipe.tune(other, 4)
    for most in ("2", 1.5, -1):
        with pytest.raises(DatasetError, match=f"max_workers={most!r}: give"):
            fastpipe.tune(dataset, 1, max_workers=most)
    with pytest.raises(DatasetError, match="0 samples"):
        fastpipe.tune([], 4)


@pytest.mark.parametrize("shown", [True, False])
def test_a_terminal_sees_how_far_it_is(root, monkeypatch, capsys, shown):
    monkeypatch.setattr(progress_bar.SlowBar, "delay_s", 0.0)
    monkeypatch.setattr(progress_bar, "_is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    dataset = fastpipe.ImageFolder(root, T.Compose([T.Resize((8, 8)), T.ToTensor()]))
    fastpipe.tune(dataset, 2, seconds=0.01, max_workers=0, progress=shown)
    assert ("trying settings" in capsys.readouterr().err) == shown
