"""Timing whole pipelines: who is timed on what, and what is left as it was."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import cv2
import pytest
import torch
from torchvision_here import torchvision

from fastpipe import transforms as T
from fastpipe.config import MachineConfig
from fastpipe.errors import FastpipeError
from fastpipe.tools.bench import pipeline
from fastpipe.tools.bench.pipeline import CONTENDERS, PIPELINES, measure_pipelines
from fastpipe.tools.bench.samples import made_samples, write_samples
from fastpipe.tools.timing import one_thread, seeded_pass, speedup, summarize, take_turns
from fastpipe.tools.torchvision_mirror import import_torchvision


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return write_samples(made_samples(["jpeg", "png"], 2), tmp_path_factory.mktemp("files"))


def test_samples_as_files(files: dict[str, list[str]]) -> None:
    assert {format: len(paths) for format, paths in files.items()} == {"jpeg": 2, "png": 2}
    assert [Path(path).suffix for path in files["png"]] == [".png", ".png"]
    assert Path(files["jpeg"][1]).read_bytes() == made_samples(["jpeg"], 2)[1].data


@pytest.mark.parametrize("workers", [0, 1])
def test_every_contender_on_every_pipeline(
    files: dict[str, list[str]], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_BATCHES_A_WORKER", 1)
    monkeypatch.setattr(pipeline, "_BATCH", 2)
    steps: list[tuple[int, int, str]] = []
    state = torch.get_rng_state()
    threads = torch.get_num_threads(), cv2.getNumThreads()
    some = {"png": files["png"]} if workers else files
    found = measure_pipelines(
        some, MachineConfig(), workers=workers, rounds=1, progress=lambda *step: steps.append(step)
    )
    assert {(one.format, one.pipeline, one.who) for one in found} == {
        (format, name, who) for format in some for name in PIPELINES for who in CONTENDERS
    }
    for one in found:
        assert one.single.median_us > 0
        assert (one.workers is not None) == bool(workers)
    assert steps[-1][0] == steps[-1][1]
    assert [done for done, _, _ in steps] == list(range(len(steps)))
    assert torch.equal(state, torch.get_rng_state())
    assert (torch.get_num_threads(), cv2.getNumThreads()) == threads


@pytest.mark.parametrize("name", PIPELINES)
def test_both_give_the_same_tensors(files: dict[str, list[str]], name: str) -> None:
    tensors = []
    for who in CONTENDERS:
        dataset = pickle.loads(pickle.dumps(pipeline._Pipeline(who, name, files["jpeg"], MachineConfig())))
        torch.manual_seed(3)
        tensors.append([dataset[index][0] for index in range(len(dataset))])
    for ours, theirs in zip(*tensors, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape == (3, 224, 224)
        assert (ours.float() - theirs.float()).abs().max() <= (1.001 if name == "train, uint8" else 1.001 / 255 / 0.224)


def test_the_transforms_are_the_same() -> None:
    assert str(pipeline.pipelines(T)) == str(pipeline.pipelines(torchvision.transforms))


def test_rounds_are_interleaved_and_the_first_is_not_timed() -> None:
    calls: list[tuple[str, int]] = []
    draws: dict[str, list[float]] = {"a": [], "b": []}

    def call(name: str):
        def sample(place: int) -> None:
            calls.append((name, place))
            draws[name].append(torch.rand(1).item())

        return sample

    said: list[tuple[int, int, str]] = []
    with one_thread():
        passes = {name: seeded_pass(call(name), 2) for name in "ab"}
        times = take_turns(passes, 2, lambda *step: said.append(step))
    turns = ["a", "b", "b", "a", "a", "b"]  # another is the first in each round
    assert calls == [(who, place) for who in turns for place in (0, 1)]
    assert draws["a"] == draws["b"]
    assert [len(timing.rounds_us) for timing in times.values()] == [2, 2]
    rounds = ["warming up", "warming up", "round 1 of 2", "round 1 of 2", "round 2 of 2", "round 2 of 2"]
    words = [f"{which}: {who}" for which, who in zip(rounds, turns, strict=True)]
    assert said == [(done, 6, what) for done, what in enumerate([*words, "done"])]


def test_the_speed_up_is_taken_round_by_round() -> None:
    gain = speedup(summarize([1.0, 2.0, 4.0]), summarize([3.0, 6.0, 12.0]))
    assert (gain.median_us, gain.spread_us) == (3, 0)


def test_torchvision_missing_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert import_torchvision() is torchvision
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(FastpipeError, match="torchvision, which doesn't load here"):
        import_torchvision()
