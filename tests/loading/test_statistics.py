"""`DataLoader.stats`: counts, waits and stages of what a loop got, and what it advises."""

from __future__ import annotations

import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from loading.batches import dataset

import fastpipe
from fastpipe import transforms as T
from fastpipe.batch_size import samples_in
from fastpipe.datasets import BadFileCounts
from fastpipe.environment import busy_cpu_seconds
from fastpipe.loading.prometheus import export_to_prometheus
from fastpipe.loading.statistics import LoaderMeter, LoaderStatistics, gathered

WAYS = ({}, {"threads": 2}, {"num_workers": 1}, {"num_workers": 2, "persistent_workers": True})


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.needs_core
def test_counts_and_times(root, options):
    loader = fastpipe.DataLoader(dataset(root, seed=3), 4, shuffle=True, **options)
    assert loader.stats()["this_epoch"]["batches"] == 0
    for epoch in range(2):
        began = time.perf_counter()
        asked = 0.0
        iterator = iter(loader)
        for number in range(4):
            before = time.perf_counter()
            next(iterator)
            asked += time.perf_counter() - before
            middle = loader.stats()
            assert middle["this_epoch"]["batches"] == number + 1
            time.sleep(0.02)
        assert next(iterator, None) is None
        wall = time.perf_counter() - began
        found = loader.stats()
        now = found["this_epoch"]
        assert (found["epoch"], now["images"], now["batches"]) == (epoch, 14, 4)
        assert 0.08 <= now["seconds"] <= wall
        assert now["images_per_s"] == 14 / now["seconds"]
        assert asked - 0.01 <= now["wait_s"]["total"] <= wall - 0.08  # with what starts before the first is asked for
        assert now["wait_s"]["p50"] <= now["wait_s"]["p95"] <= now["wait_s"]["p99"] <= now["wait_s"]["total"]
        assert now["wait_share"] == pytest.approx(now["wait_s"]["total"] / now["seconds"])
        assert 0 <= now["starved"] <= 1
        assert {name: now[name] for name in now if name != "seconds"}.keys() == found["last_minute"].keys() - {
            "seconds"
        }
        assert found["last_minute"]["images"] == 14
        assert set(found["image_us"]) == {"read", "draw", "core", "python", "collate"}
        assert 0 < sum(found["image_us"].values()) * 14 <= 1e6 * wall * max(options.get("num_workers", 1), 1)
        assert found["bad_files"] == {"skipped": 0, "replaced": 0, "total": 0}
        assert found["cache"] == {}
        assert f"epoch {epoch}: " in str(found)
        assert found.advice
        time.sleep(0.05)
        assert loader.stats()["this_epoch"]["seconds"] == now["seconds"]  # it has ended


def test_batches_that_are_ready(root):
    loader = fastpipe.DataLoader(dataset(root), 2, threads=1, prefetch_factor=3)
    iterator = iter(loader)
    next(iterator)
    deadline = time.monotonic() + 30
    while loader._thread_iterator.ready < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    next(iterator)
    found = loader.stats()["this_epoch"]
    assert found["ready"] * 2 >= 3
    assert found["starved"] <= 0.5
    loader = fastpipe.DataLoader(dataset(root), 2)
    list(loader)
    assert (loader.stats()["this_epoch"]["ready"], loader.stats()["this_epoch"]["starved"]) == (0, 1)


def test_the_last_minute_and_its_counts_beside_plain_sums():
    meter = LoaderMeter(began=1000.0)
    rng = np.random.default_rng(0)
    now, batches = 1000.0, []
    for _ in range(200):
        wait, images, ready = rng.uniform(0, 0.3), int(rng.integers(1, 5)), int(rng.integers(0, 3))
        meter.note(now, now + wait, torch.zeros(images, 2), True, ready)
        batches.append((now + wait, wait, images, ready))
        now += wait + 0.5
    meter.ended = now
    found = meter.statistics(0, BadFileCounts(0, 0, 0))
    assert found["first_batch_s"] == pytest.approx(batches[0][1])
    for name, since in (("this_epoch", 0.0), ("last_minute", now - 60)):
        part = [one for one in batches if one[0] >= since]
        waits = [one[1] for one in part]
        window = found[name]
        assert window["seconds"] == pytest.approx(min(now - 1000, 60 if since else 1e9))
        assert (window["batches"], window["images"]) == (len(part), sum(one[2] for one in part))
        assert window["wait_s"]["total"] == pytest.approx(sum(waits))
        assert window["wait_s"]["p95"] == pytest.approx(np.percentile(waits, 95))
        assert window["ready"] == pytest.approx(sum(one[3] for one in part) / len(part))
        assert window["starved"] == pytest.approx(sum(one[3] == 0 for one in part) / len(part))
    assert 50 < found["last_minute"]["batches"] < 150


def test_statistics_are_asked_for_from_another_thread_meanwhile():
    """As Prometheus's server does; an array that somebody looks at can't grow."""
    meter, batch, over = LoaderMeter(), torch.zeros(2), threading.Event()

    def ask() -> None:
        while not over.is_set():
            meter.statistics(0, BadFileCounts(0, 0, 0))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for number in range(3000):
            meter.note(number, number + 0.5, batch, True, 0)
    finally:
        over.set()
        asking.join()
    assert meter.statistics(0, BadFileCounts(0, 0, 0))["this_epoch"]["images"] == 6000


def test_foreign_datasets_have_no_stages():
    loader = fastpipe.DataLoader(torch.arange(10), 3)
    list(loader)
    found = loader.stats()
    assert (found["this_epoch"]["images"], found["image_us"]) == (10, {})


def test_bad_files_are_told(tmp_path: Path):
    folder = tmp_path / "class"
    folder.mkdir()
    for number in range(6):
        data = corpus.files()["jpeg-420"]
        (folder / f"{number}.jpg").write_bytes(data if number != 3 else data[:100])
    images = fastpipe.ImageFolder(
        tmp_path, T.Compose([T.Resize((8, 8)), T.ToTensor()]), on_error="skip", bad_files_log=None, max_bad_fraction=1
    )
    loader = fastpipe.DataLoader(images, 2)
    with pytest.warns(fastpipe.errors.FastpipeWarning):
        list(loader)
    found = loader.stats()
    assert found["bad_files"] == {"skipped": 1, "replaced": 0, "total": 1}
    assert found["this_epoch"]["images"] == 5
    assert "1 bad files" in str(found)


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        (torch.zeros(5, 3), 5),
        ([torch.zeros(4, 3), torch.zeros(4)], 4),
        ((torch.zeros(4, 3), [{"boxes": 1}] * 4), 4),
        ({"pixel_values": torch.zeros(3, 1), "labels": torch.zeros(3)}, 3),
        ([("a", 1), ("b", 2)], 2),
        ([[torch.zeros(3, 8, 8), 1]] * 5, 5),
        ([[torch.zeros(5, 3, 8, 8)] * 2, torch.zeros(5)], 5),
        (fastpipe.collate_fn([(torch.zeros(3, 8, 9), {"boxes": 1})] * 5), 5),
        (tuple(zip(*[(torch.zeros(3, 8, 9), {"boxes": 1})] * 5, strict=True)), 5),
        (list(zip(*[(torch.zeros(3, 8, 9), {"boxes": 1})] * 5, strict=True)), 5),
        (tuple(zip(*[(torch.zeros(3, 8, 9), torch.zeros(8, 9))] * 5, strict=True)), 5),
        ([torch.zeros(3, 8, 9)] * 5, 5),
        ([torch.zeros(5, 8, 9), torch.zeros(5, 8, 9)], 5),
        ([{"image": torch.zeros(3, 8, 9)}] * 5, 5),
        ([{"image": torch.zeros(3, 8, 9)}], 1),
        ([{"image": torch.zeros(5, 3, 8, 9)}], 5),
        ([[torch.zeros(5), torch.zeros(5)], torch.zeros(5)], 5),
        ([torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), torch.zeros(2)], 2),
        (["a", "b"], 2),
        ([], 0),
        ({}, 0),
        (torch.tensor(3.0), 1),
        (np.zeros((6, 2)), 6),
        (7, 1),
    ],
)
def test_samples_in_a_batch(batch: object, count: int) -> None:
    assert samples_in(batch) == count


def statistics(**changes: Any) -> LoaderStatistics:
    seconds = changes.pop("seconds", 10.0)
    wait = changes.pop("wait", 0.0)
    batches = changes.pop("batches", 100)
    waits = {"total": wait, "p50": changes.pop("p50", 0.0)}
    starved = changes.pop("starved", 1.0)
    epoch = {
        "batches": batches, "seconds": seconds, "wait_s": waits, "wait_share": wait / seconds, "starved": starved
    }  # fmt: skip
    known = {
        "this_epoch": epoch,
        "first_batch_s": 0.1,
        "workers": 2,
        "threads": 0,
        "idle_cpus": 6.0,
        "image_us": {"read": 10.0, "python": 20.0, "core": 400.0},
    }
    return LoaderStatistics({**known, **changes})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"batches": 0}, "No batch was handed out yet."),
        ({"wait": 0.2}, "2% of the time: images aren't what holds it up."),
        ({"wait": 3.8}, "38% of the time: 2 more workers would do, 6 cores are idle."),
        (
            {"wait": 3.8, "threads": 2, "workers": 0},
            "38% of the time: 2 more threads would do, 6 cores are idle.",
        ),
        (
            {"wait": 8.0, "idle_cpus": 1.2},
            "80% of the time: 1 more worker would help, and not suffice, 1 core",
        ),
        ({"wait": 3.8, "idle_cpus": None}, "38% of the time: 2 more workers would do."),
        (
            {"wait": 3.8, "idle_cpus": 0.2},
            "38% of the time, and no core is idle: give it fewer",
        ),
        (
            {"wait": 3.8, "workers": 0},
            '38% of the time, since batches are made within it: threads="auto"',
        ),
        (
            {"wait": 3.0, "first_batch_s": 2.0},
            "for the epoch's first batch (2.0 s): persistent_workers=True",
        ),
        (
            {"wait": 3.0, "first_batch_s": 2.0, "workers": 0, "threads": 1, "batches": 3},
            "for the epoch's first batch (2.0 s).",
        ),
        ({"wait": 1.0, "first_batch_s": 0.6}, "for the epoch's first batch (600 ms)"),
        (
            {"wait": 3.8, "p50": 0.03, "starved": 0.04, "workers": 0, "threads": 2},
            "38% of the time, though batches are ready: what delays them is in this process (Python's lock, pinning); "
            "num_workers=1 with threads",
        ),
        ({"wait": 3.8, "p50": 0.03, "starved": 0.04}, "though batches are ready: what delays them is in this process"),
        ({"wait": 3.8, "p50": 0.001, "starved": 0.04}, "38% of the time: 2 more workers would do"),
        ({"wait": 3.8, "image_us": {"python": 90.0, "core": 10.0}}, "an image spends 90% of its time in Python"),
    ],
)
def test_advice(changes, expected):
    assert expected in statistics(**changes).advice


def _rank(rank: int, root: Path, port_file: str, results: Any) -> None:
    torch.distributed.init_process_group("gloo", f"file://{port_file}", rank=rank, world_size=2)
    loader = fastpipe.DataLoader(dataset(root, seed=3), 4)
    for _ in loader:
        time.sleep(0.01)
    if rank == 1:
        loader._meter.note(-100.0, 0.0, torch.zeros(1), True, 0)
    found = loader.stats(gather=True)
    results.put((rank, found["slowest"], [one["rank"] for one in found["ranks"]]))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_gathered_from_all_ranks(root, tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=_rank, args=(rank, root, str(tmp_path / "store"), results)) for rank in range(2)
    ]
    for process in processes:
        process.start()
    found = sorted(results.get(timeout=120) for _ in processes)
    for process in processes:
        process.join(60)
    assert [(rank, slowest.partition(" (")[0], ranks) for rank, slowest, ranks in found] == [
        (0, "rank 1", [0, 1]),
        (1, "rank 1", [0, 1]),
    ]


def test_gathered_alone(root):
    loader = fastpipe.DataLoader(dataset(root), 4)
    list(loader)
    found = loader.stats(gather=True)
    assert found["ranks"][0]["this_epoch"]["images"] == 14
    assert found["slowest"].startswith("rank 0 (")
    assert gathered(loader.stats())["ranks"][0]["workers"] == 0


def test_prometheus(root):
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    loader = fastpipe.DataLoader(dataset(root), 4)
    export_to_prometheus(loader, registry)
    list(loader)
    text = client.generate_latest(registry).decode()
    values = {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if "{" in line}
    assert values["fastpipe_loader_this_epoch_images"] == 14
    assert values["fastpipe_loader_this_epoch_wait_seconds_p95"] == loader.stats()["this_epoch"]["wait_s"]["p95"]
    assert "fastpipe_loader_image_microseconds_core" in values
    assert "fastpipe_loader_last_minute_images_per_second" in values
    del loader


def test_named_ranges_in_torchs_profiler(root):
    loader = fastpipe.DataLoader(dataset(root), 4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        list(loader)
    names = {event.key for event in profile.key_averages()}
    assert {f"fastpipe: batch {number}" for number in range(4)} <= names


def test_the_machines_busy_seconds(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 1000 10 0 5 0 0 0\ncpu0 1 2 3\n")
    found = busy_cpu_seconds(stat)
    assert found is not None
    assert found[0] > 0
    assert busy_cpu_seconds(tmp_path / "nothing") is None
