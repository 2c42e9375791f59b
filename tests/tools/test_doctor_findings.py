"""Findings: each on a made case, on the case beside it where there is nothing to find, and at its edges."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest

from fastpipe.environment import Memory
from fastpipe.interop.graph_breaks import GraphBreak
from fastpipe.loading.tuning import Trial
from fastpipe.tools.doctor import findings as find
from fastpipe.tools.doctor.measurements import (
    STAGES,
    Disk,
    FailedSample,
    ObjectList,
    Reencoding,
    Scaling,
    StageProfile,
    WorkerThreads,
)

MB, GB = 10**6, 10**9


def scaling(*rates: float, cpus: int = 8) -> Scaling:
    """One, two, four, eight, … workers."""
    return Scaling(tuple(Trial(2**power, 0, 2, rate, 0.1, 10) for power, rate in enumerate(rates)), cpus, 64)


def stages(image_bytes: int = 600_000, waited: float | None = None, **us: float) -> StageProfile:
    """A stage a keyword."""
    assert set(us) <= set(STAGES)
    return StageProfile(us or {"core": 1000.0}, 64, image_bytes, (224, 224), waited)


def test_what_was_measured_is_recommended() -> None:
    measured = scaling(100, 180, 300)
    assert [measured.rate(workers) for workers in range(1, 6)] == [100, 180, None, 300, None]
    assert measured.recommended() is measured.recommended(1000) is measured.recommended(250) is measured.trials[2]
    assert measured.recommended(185) is measured.trials[1]
    assert scaling(100, 290, 295).recommended().num_workers == 2  # as good, with fewer


def test_too_few_workers() -> None:
    measured = scaling(100, 190, 360, 600)
    for_gpu = find.other_workers(measured, 2, 350)
    assert for_gpu is not None
    assert (for_gpu.name, for_gpu.severity) == ("too few workers", "problem")
    assert for_gpu.remedy == "Set num_workers=4."
    assert "190 images/s of the 350" in for_gpu.what
    without = find.other_workers(measured, 2, None)
    assert without is not None
    assert without.severity == "advice"
    assert without.remedy == "Set num_workers=8."
    alone = find.other_workers(measured, 0, 350)  # the main process does the work of one worker
    assert alone is not None
    assert "num_workers=0 delivers 100" in alone.what


def test_too_many_workers() -> None:
    flat = scaling(100, 200, 205, 204, cpus=2)
    found = find.other_workers(flat, 8, None)
    assert found is not None
    assert (found.name, found.severity) == ("too many workers", "advice")
    assert "Set num_workers=2" in found.remedy
    assert "2 CPUs have no more" in found.what
    for_gpu = find.other_workers(scaling(100, 190, 360, 600), 8, 170)
    assert for_gpu is not None
    assert "Set num_workers=2" in for_gpu.remedy  # 170 and a tenth
    assert "CPUs" not in for_gpu.what


@pytest.mark.parametrize(
    ("workers", "gpu_rate"),
    [(None, 350), (4, 350), (2, 195), (8, None), (8, 5000), (16, None), (None, 100), (1, 10), (9, None)],
)
def test_the_right_number_of_workers(workers: int | None, gpu_rate: float | None) -> None:
    assert find.other_workers(scaling(100, 190, 360, 600), workers, gpu_rate) is None


@pytest.mark.parametrize("seed", range(20))
def test_one_number_of_workers_is_what_everything_says(seed: int) -> None:
    """Whatever was measured: too few, too many and the report's own sentence follow from the recommended number."""
    rng = random.Random(seed)
    told = set()
    for _ in range(200):
        rates, rate = [], 100.0
        for _ in range(rng.randint(1, 4)):
            rates.append(rate)
            rate *= rng.choice((0.9, 0.97, 1.0, 1.02, 1.04, 1.06, 1.3, 2.0))
        measured, workers = scaling(*rates), rng.choice((None, 0, *range(1, 10)))
        gpu_rate = rng.choice((None, 50, 98, 103, 110, 250, 1000))
        good = measured.recommended(gpu_rate).num_workers
        found = find.other_workers(measured, workers, gpu_rate)
        if found is not None:
            assert workers is not None
            assert (good > workers) == (found.name == "too few workers")
            assert re.findall(r"num_workers=(\d+)", found.remedy) == [str(good)]
            told.add(found.name)
    assert told == {"too few workers", "too many workers"}


def test_threads_are_the_alternative_to_several_workers() -> None:
    instead = ", or num_workers=1, threads=4 of fastpipe.DataLoader, which deliver as much"
    few = find.other_workers(scaling(100, 200, 400), 1, None, instead)
    assert few is not None
    assert few.remedy == f"Set num_workers=4{instead}."


def test_nothing_of_a_gpu_is_advised_where_there_is_none() -> None:
    one, measured = stages(image_bytes=600_000), scaling(100, 200, cpus=2)
    for has_gpu in (True, False):
        made = (
            find.slow_machine(measured, 1000, {}, has_gpu),
            find.shared_memory(one, 256, 8, 2, Memory(None, 64 * MB), has_gpu),
        )
        for found in made:
            assert found is not None
            assert ("cuda" in found.remedy or "on the GPU" in found.remedy) == has_gpu


def test_slow_machine() -> None:
    measured = scaling(100, 200, cpus=2)
    found = find.slow_machine(measured, 1000, {"oversized files re-encoded": 3.04, "others": 1.2}, has_gpu=False)
    assert found is not None
    assert found.severity == "problem"
    assert "200 of the 1,000" in found.what
    assert "idle 80%" in found.what
    assert found.remedy.startswith("What helps: oversized files re-encoded (3.0× as fast); others (1.2×")
    assert find.slow_machine(measured, 205, {}, has_gpu=True) is None  # within what short trials differ by
    assert find.slow_machine(measured, None, {}, has_gpu=True) is None


def test_shared_memory() -> None:
    one = stages(image_bytes=600_000)
    need = find.shared_bytes(one, 256, 8, 2)
    assert need == 600_000 * 256 * 17  # 16 batches ahead, one in use
    found = find.shared_memory(one, 256, 8, 2, Memory(None, 64 * MB), has_gpu=False)
    assert found is not None
    assert found.severity == "problem"
    assert "2.6 GB" in found.what
    assert "64 MB are free" in found.what
    assert "--shm-size=4g" in found.remedy
    assert "batch size of 5 at most" in found.remedy
    none_fits = find.shared_memory(one, 256, 80, 2, Memory(None, 64 * MB), has_gpu=False)
    assert none_fits is not None
    assert "at most" not in none_fits.remedy
    assert find.shared_memory(one, 256, 8, 2, Memory(None, 3 * GB), has_gpu=False) is None
    assert find.shared_memory(one, 256, 8, 2, Memory(None, None), has_gpu=False) is None  # no such limit known
    assert find.shared_memory(one, 256, 0, 2, Memory(None, 0), has_gpu=False) is None  # no worker, nothing shared


def test_shared_memory_that_no_machine_has() -> None:
    """Shared memory is memory: no container gets more of it than the machine has."""
    one = stages(image_bytes=600_000)
    found = find.shared_memory(one, 10**8, 2, 2, Memory(8 * GB, 64 * MB), has_gpu=False)
    assert found is not None
    assert "--shm-size" not in found.remedy
    assert found.remedy == "The machine has no such memory (8.0 GB are available): set a batch size of 19 at most."
    none_fits = find.shared_memory(one, 10**8, 80, 2, Memory(8 * GB, 64 * MB), has_gpu=False)
    assert none_fits is not None
    assert none_fits.remedy.endswith("set fewer workers and smaller batches.")


def test_workers_that_were_not_tried() -> None:
    assert find.untried_workers(scaling(100, 190), 20) is None
    many = find.untried_workers(replace(scaling(100, 190, cpus=2), untried=(500, 85.0)), 20)
    assert many is not None
    assert many.severity == "advice"
    assert many.what.startswith("Starting 500 workers on 2 CPUs takes about 85 s, and doctor has 20 s. num_workers=2 ")
    assert many.remedy == "Set num_workers=2, or measure longer: --seconds 170."


def test_oversubscription() -> None:
    cv2 = find.oversubscription(WorkerThreads(1, 8, 0, used=True), 8, 8)
    assert cv2 is not None
    assert cv2.severity == "problem"
    assert "OpenCV uses 8 threads" in cv2.what
    assert "64 at once on 8 CPUs" in cv2.what
    assert "cv2.setNumThreads(0)" in cv2.remedy
    both = find.oversubscription(WorkerThreads(2, 2, 0, used=True), 6, 8)
    assert both is not None
    assert both.severity == "advice"
    assert "torch.set_num_threads" in both.remedy
    decoding = find.oversubscription(WorkerThreads(1, 8, 4, used=False), 4, 8)
    assert decoding is not None
    assert decoding.remedy == "Set threads=2."
    assert "OpenCV" not in decoding.what


@pytest.mark.parametrize(
    ("threads", "workers"),
    [
        (WorkerThreads(1, 1, 0, used=False), 64),  # many workers of one thread: another finding's matter
        (WorkerThreads(1, 8, 0, used=True), 1),
        (WorkerThreads(1, 8, 0, used=False), 8),  # they may, but nothing that runs uses them
        (WorkerThreads(1, 1, 2, used=False), 4),
    ],
    ids=str,
)
def test_no_oversubscription(threads: WorkerThreads, workers: int) -> None:
    assert find.oversubscription(threads, workers, 8) is None


def disk(**changes: Any) -> Disk:
    measured: dict[str, Any] = {"files": 100, "mean_bytes": 100_000.0, "all_files": 10**6}
    return Disk(**{**measured, "resident": 0.1, "cold_per_s": 400.0, **changes})


def test_page_cache() -> None:
    misses = find.page_cache(disk(), Memory(16 * GB, None), 2000)
    assert misses is not None
    assert misses.severity == "problem"
    assert "100 GB" in misses.what
    assert "400 files/s (40 MB/s)" in misses.what
    first_epoch = find.page_cache(disk(), Memory(256 * GB, None), 2000)
    assert first_epoch is not None
    assert first_epoch.severity == "note"
    assert "10% of the sampled files were in memory" in first_epoch.what


@pytest.mark.parametrize(
    ("measured", "needed"),
    [
        (disk(), 300),  # the disk is fast enough
        (disk(resident=1.0), 2000),  # fits into memory, and is there
        (disk(cold_per_s=None, reason="no such call"), 2000),
    ],
    ids=["fast disk", "in memory", "not measured"],
)
def test_no_page_cache_misses(measured: Disk, needed: float) -> None:
    assert find.page_cache(measured, Memory(256 * GB, None), needed) is None


def files(
    kind: str, share: float, before: float, after: float, others: float = 0.0, smaller: float = 1.0
) -> Reencoding:
    return Reencoding(kind, share, 12, before, after, others, smaller, 448 if kind == "oversized" else None, 3000)


def test_reencoding_gain_counts_what_stays_as_slow() -> None:
    one = files("packed", 1.0, 4000, 1000)
    assert one.factor == 4
    assert find.reencoding_gain(one, stages(core=1000)) == pytest.approx(4)
    # A quarter is reading: 1 / (1/4 + 3/4 / 4)
    assert find.reencoding_gain(one, stages(core=750, read=250)) == pytest.approx(16 / 7)
    # One file in two takes four times as long as the others: 5 before, 2 after.
    half = files("packed", 0.5, 4000, 1000, others=1000)
    assert find.reencoding_gain(half, stages(core=1000)) == pytest.approx(2.5)
    # Small ones hold the most of the time.
    few = files("oversized", 0.1, 20_000, 1000, others=1000)
    assert find.reencoding_gain(few, stages(core=1000)) == pytest.approx(2.9)


def test_reencoding() -> None:
    oversized = find.reencoding(files("oversized", 1.0, 9000, 1000, smaller=30.0), stages(core=1000))
    assert oversized is not None
    assert "short side 3000 pixels" in oversized.what
    assert "short side of 448: 9.0× as fast, 9.0× for the whole dataset, with 1/30 of the bytes" in oversized.what
    assert "fastpipe pack SOURCE TARGET --short-side 448" in oversized.remedy
    assert find.reencoding(files("oversized", 0.02, 2000, 1000, others=1000), stages(core=1000)) is None


def test_packing() -> None:
    found = find.reencoding(files("packed", 1.0, 1500, 750, smaller=1 / 1.19), stages(core=1000))
    assert found is not None
    assert found.severity == "advice"
    assert "2.0× as fast, 2.0× for the whole dataset, with 1.19× the bytes and the same pixels" in found.what
    assert "fastpipe pack SOURCE TARGET" in found.remedy
    # Where little of the time is decoding, it isn't worth the bytes.
    assert find.reencoding(files("packed", 1.0, 1500, 1350, smaller=1 / 1.19), stages(core=1000)) is None
    assert find.reencoding(files("packed", 1.0, 1500, 750, smaller=0.8), stages(core=250, collate=750)) is None


def test_broken_plan() -> None:
    """A little of the time is nothing to do anything about; where it is much, the cure is told."""
    found = find.broken_plan(GraphBreak("Blur()", "it draws by itself"), stages(core=800, python=200))
    assert (found.severity, found.remedy) == ("note", "")
    assert found.what.startswith("Blur() is called with each image: it draws by itself. ")
    assert "200 µs an image, 20% of the time" in found.what
    assert not str(found).endswith(" ")
    slow = find.broken_plan(GraphBreak("Lambda()", "nobody knows what it does"), stages(core=600, python=400))
    assert slow.severity == "advice"
    assert slow.remedy.startswith("Look whether all of them are needed for every image")
    drawing = GraphBreak("Compose()", "it draws by itself")
    theirs = find.broken_plan(drawing, stages(core=600, python=400), "albumentations")
    assert "of fastpipe.transforms, with its Albumentations(…) around the rest" in theirs.remedy


def test_code_that_decodes_whole_images_is_told_as_explain_tells_it() -> None:
    found = find.decoded_whole(GraphBreak("Photos.__getitem__", "convert it, or leave it", is_loading=True))
    assert found.what == "Photos.__getitem__ makes each image whole before the transforms see it."
    assert found.remedy == "Convert it, or leave it."


def test_a_missing_reader() -> None:
    assert find.missing_core("") is None
    missing = find.missing_core("it wasn't compiled")
    assert missing is not None
    assert missing.name == "a faster reader is missing"
    assert missing.remedy == "it wasn't compiled."


def test_stale_config() -> None:
    found = find.stale_config("config.toml", ("cpus is 2, was 8",))
    assert found is not None
    assert "cpus is 2, was 8" in found.what
    assert "fastpipe configure" in found.remedy
    assert find.stale_config("config.toml", ()) is None


def test_object_copies() -> None:
    lists = [ObjectList("dataset.samples", 10**7, 2 * GB)]
    found = find.object_copies(lists, 8, Memory(32 * GB, None))
    assert found is not None
    assert found.severity == "problem"
    assert "dataset.samples (10,000,000 items, 2.0 GB)" in found.what
    assert "16 GB for 8 workers" in found.what
    roomy = find.object_copies(lists, 8, Memory(1000 * GB, None))
    assert roomy is not None
    assert roomy.severity == "advice"
    assert find.object_copies([ObjectList("dataset.samples", 50_000, 10 * MB)], 8, Memory(None, None)) is None
    assert find.object_copies([], 8, Memory(None, None)) is None


def test_bad_files() -> None:
    found = find.bad_files([FailedSample(7, "DecodeError: cut off")], 100)
    assert found is not None
    assert found.severity == "problem"
    assert "1 of 100 sampled: for example number 7, DecodeError: cut off" in found.what
    assert "fastpipe check" in found.remedy
    own = find.bad_files([FailedSample(7, "RuntimeError: boom (train.py, line 3)", "train.py, line 3")], 100)
    assert own is not None
    assert own.remedy == "Fix the code at train.py, line 3."
    assert find.bad_files([], 100) is None


def test_a_slow_transform_of_albumentations() -> None:
    found = find.slow_albumentations("Albumentations(…)", stages(core=400, python=600))
    assert found is not None
    assert found.severity == "advice"
    assert found.what.endswith("most of it Albumentations(…), takes 600 µs an image, 60% of the time.")
    assert find.slow_albumentations("Albumentations(…)", stages(core=900, python=100)) is None
    assert find.slow_albumentations("", stages(core=400, python=600)) is None


def test_not_sendable() -> None:
    found = find.not_sendable("AttributeError: Can't pickle local object")
    assert found is not None
    assert "Can't pickle local object" in found.what
    assert find.not_sendable("") is None


def test_busy_machine() -> None:
    found = find.busy_machine(stages(waited=0.5))
    assert found is not None
    assert found.severity == "note"
    assert "50% of the time" in found.what
    assert find.busy_machine(stages(waited=0.01)) is None
    assert find.busy_machine(stages()) is None
    assert [find.is_busy(stages(waited=share)) for share in (0.5, 0.2, None)] == [True, False, False]
    slightly = find.busy_machine(stages(waited=0.2))
    assert slightly is not None
    assert "isn't judged" in found.what
    assert "isn't judged" not in slightly.what


def test_a_finding_is_a_sentence() -> None:
    found = find.bad_files([FailedSample(7, "DecodeError: cut off")], 100)
    assert str(found).startswith("problem: samples that can't be made. 1 of 100")
