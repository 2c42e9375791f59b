"""`scripts/gpu`, as far as it goes without a GPU: its parts say that they were skipped, and feeds are measured."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import sys
from pathlib import Path

import pytest
import torch
from corpus import photo
from PIL import Image

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def load():
    """Imports a script of benchmarks/."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    path = [*sys.path]
    yield load
    sys.path[:] = path


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_each_part_says_that_it_is_skipped(load, capsys):
    gpu = load("gpu")
    assert gpu.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == list(gpu.PARTS)
    assert all("skipped, since this torch" in line for line in lines)


def test_parts_that_fail_or_lack_something_are_told(load, capsys, monkeypatch, tmp_path):
    gpu = load("gpu")
    monkeypatch.setattr(gpu, "no_gpu", lambda: "")
    monkeypatch.setattr(gpu.shutil, "which", lambda name: None)

    def run(*command, **options):
        raise gpu.subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(gpu.subprocess, "run", run)
    assert gpu.main([str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    told = [line for line in capsys.readouterr().out.splitlines() if not line.endswith("…")]
    assert told[0].startswith("device: failed: ")
    assert told[1] == "nvtx: skipped, since nsys, of Nsight Systems, isn't installed"
    assert told[2].startswith("feeds: failed: ")
    assert told[3].startswith("albumentations: skipped, since --augbench names no checkout")


class Clock:
    """A clock that stands still but where it is told to go on."""

    def __init__(self):
        self.now = 0.0
        self.busy_s = 0.0
        self.began = 0.0

    def begin(self):
        self.began = self.now

    def end(self):
        self.busy_s += self.now - self.began

    def finish(self):
        pass


def test_rate_and_wait_are_those_of_the_timed_steps(load):
    feeds, clock = load("feeds"), Clock()

    def batches():
        for _ in range(6):
            clock.now += 3.0
            yield torch.zeros(8, 1), torch.zeros(8)

    def step(images, labels):
        clock.now += 1.0 if clock.now > 9 else 100.0  # the first steps of a network take long

    found = feeds.measure(batches(), step, 2, 4, clock, lambda: clock.now)
    assert found.images_per_s == pytest.approx(8 / 4)
    assert found.waited == pytest.approx(3 / 4)


def test_cpus_that_a_feed_needs(load):
    feeds = load("feeds")
    rates = {2: 500.0, 4: 989.0, 8: 990.0, 16: 995.0}
    rows = [{"feed": "fastpipe", "cpus": cpus, "images_per_s": rate} for cpus, rate in rates.items()]
    assert feeds.cpus_needed(rows, "fastpipe", 1000.0) == 8
    assert feeds.cpus_needed(rows, "fastpipe", 2000.0) is None
    assert feeds.cpus_needed(rows, "torchvision", 1.0) is None


def test_cpus_are_those_that_are_here(load):
    feeds = load("feeds")
    assert feeds.cpu_counts("16,2,4", 8) == [2, 4]
    assert feeds.cpu_counts("2,4", 1) == [1]


@pytest.fixture
def photos(tmp_path):
    """The arguments to measure a small folder of photos."""
    for kind, number in itertools.product("ab", range(4)):
        (tmp_path / "photos" / kind).mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo(90, 120 + number)).save(tmp_path / "photos" / kind / f"{number}.jpg")
    small = ["--batch-size=2", "--steps=2", "--warm-up=1", "--cpus=1", "--network=tiny", "--device=cpu"]
    return [str(tmp_path / "photos"), *small]


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked, which inherit what this module imported")
@pytest.mark.needs_core
def test_feeds_are_measured_from_files_to_json(load, photos, tmp_path, capsys, monkeypatch):
    feeds = load("feeds")
    monkeypatch.delattr(os, "sched_setaffinity")
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(feeds, "_in_process", feeds.measure_feed)
    feeds.main([*photos, f"--json={tmp_path / 'feeds.json'}"])
    found = json.loads((tmp_path / "feeds.json").read_text(encoding="utf-8"))
    ways = ["torchvision", "fastpipe", "fastpipe, packed"]
    assert [(row["feed"], row["cpus"]) for row in found["rows"]] == [(feed, 1) for feed in ways]
    assert list(found["cpus_needed"]) == ways
    for row in found["rows"]:
        assert row["images_per_s"] > 0
        assert 0 <= row["waited"] < 1
    told = capsys.readouterr().out
    assert all(f"{feed}: " in told for feed in ways)
    assert sorted(os.listdir(tmp_path)) == ["feeds.json", "photos"]  # packed images were in a folder that is gone


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux has it")
def test_a_feed_runs_in_a_process_of_its_own(load, photos):
    feeds = load("feeds")
    found = feeds._in_process("torchvision", 1, feeds.parser().parse_args(photos))
    assert found.images_per_s > 0
