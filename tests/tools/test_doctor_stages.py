"""Doctor's measurements, in this process: stages, samples, files, disk, threads, traps. No claims about speed."""

from __future__ import annotations

import io
import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, Subset, default_collate

import fastpipe
from fastpipe import core, readers
from fastpipe import transforms as T
from fastpipe.environment import memory, usable_cpus
from fastpipe.errors import DatasetError
from fastpipe.executor import BatchSpec
from fastpipe.executor.image_stages import ImageStages
from fastpipe.loading.collate import BatchCollate
from fastpipe.readers import Reader, registry
from fastpipe.tools.doctor import disk as disk_module
from fastpipe.tools.doctor.disk import is_resident, measure_disk
from fastpipe.tools.doctor.measurements import STAGES, FailedSample, StageProfile
from fastpipe.tools.doctor.reencoding import try_reencoding
from fastpipe.tools.doctor.stages import time_stages, try_samples
from fastpipe.tools.doctor.workers import object_lists

NAP_S = 0.03
BATCHES = BatchSpec()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    for number in range(8):
        folder = root / f"class{number % 2}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(corpus.jpeg(60 + number, 80, seed=number))
    return root


def nap(image: Any) -> Any:
    time.sleep(NAP_S)
    return image


def timed(dataset: Any, options: BatchSpec | None = BATCHES, seconds: float = 0.01) -> StageProfile:
    collate = default_collate if options is None else BatchCollate(options)
    return time_stages(dataset, range(len(dataset)), 4, options, collate, seconds, 1e6)


STANDARD = T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(0.5, 0.5)])


def test_the_stages_of_the_standard_pipeline(root: Path) -> None:
    stages = timed(fastpipe.ImageFolder(root, STANDARD), seconds=0.2)
    wanted = ["read", "draw", "core", *([] if core.available() else ["python"]), "collate", "other"]
    assert list(stages.us) == wanted == [stage for stage in STAGES if stage in wanted]
    assert all(us > 0 for us in stages.us.values())
    assert sum(stages.us.values()) == pytest.approx(stages.total_us)
    assert sum(map(stages.share, STAGES)) == pytest.approx(1)
    assert stages.output == (24, 24)
    assert stages.image_bytes == pytest.approx(3 * 24 * 24 * 4, abs=8)  # and the target


def test_what_is_timed_is_what_training_runs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole programs by the core, whose jobs are kept: nothing is taken apart to be told."""
    dataset, jobs = fastpipe.ImageFolder(root, STANDARD), []
    fill_jobs = ImageStages.fill_jobs

    def noted(self: Any, tasks: Any, places: Any, here: Any) -> Any:
        filled = fill_jobs(self, tasks, places, here)
        jobs.append((len(filled.claimed), len(filled.rejected), places is not None))
        return filled

    monkeypatch.setattr(ImageStages, "fill_jobs", noted)
    timed(dataset)
    assert jobs
    if core.available():
        assert all(claimed and not rejected and in_place for claimed, rejected, in_place in jobs)
    assert dataset._fastpipe.times is None  # nobody asks any more


@pytest.mark.parametrize("options", [BATCHES, None], ids=["batches", "samples"])
def test_the_stages_add_up_to_the_whole_and_a_slow_one_stands_out(root: Path, options: BatchSpec | None) -> None:
    transform = T.Compose([T.Resize((24, 24)), nap, T.ToTensor()])
    stages = timed(fastpipe.ImageFolder(root, transform), options, seconds=0.4)
    assert stages.us["python"] >= NAP_S * 1e6
    assert max(stages.us, key=stages.share) == "python"


class SleepyReader(Reader):
    """Takes its time."""

    name = "sleepy"
    formats = frozenset({"JPEG"})

    def decode(self, data: bytes) -> Any:
        time.sleep(NAP_S)
        return readers.get_reader("pil").decode(data)


@pytest.mark.needs_core
def test_a_slow_reader_shows_in_python(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))  # what other tests do with all readers is theirs
    readers.register_reader(SleepyReader())
    stages = timed(fastpipe.ImageFolder(root, STANDARD, reader="sleepy"))
    assert max(stages.us, key=stages.share) == "python"
    assert stages.us["python"] >= NAP_S * 1e6


def test_a_slow_target_transform_and_a_slow_collate_show(root: Path) -> None:
    dataset = fastpipe.ImageFolder(root, STANDARD, target_transform=nap)
    assert timed(dataset).us["draw"] >= NAP_S * 1e6  # ahead of the image, as nothing draws behind it

    def collate(samples: Any) -> Any:
        return default_collate(nap(samples))

    stages = time_stages(fastpipe.ImageFolder(root, STANDARD), range(8), 4, None, collate, 0.01, 1e6)
    assert stages.us["collate"] * 4 >= NAP_S * 1e6 * 0.99


def test_a_dataset_with_threads_is_timed_with_them(root: Path) -> None:
    dataset = fastpipe.ImageFolder(root, STANDARD, threads=3)
    for options in (BATCHES, BatchSpec(threads=2), None):
        assert timed(dataset, options).us["read"] > 0
    assert dataset.threads == 3


class Folder(torch.utils.data.Dataset[Any]):
    """Written by hand, in torchvision's manner."""

    def __init__(self, root: Path, transform: Callable[[Any], Any] | None) -> None:
        self.paths = sorted(str(path) for path in root.rglob("*.jpg"))
        self.transform = transform
        self.loader = self.load

    @staticmethod
    def load(path: str) -> Any:
        return Image.open(path).convert("RGB")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        image = self.loader(self.paths[index])
        return image if self.transform is None else self.transform(image)


def test_the_stages_of_a_dataset_written_by_hand(root: Path) -> None:
    dataset = Folder(root, T.Compose([T.Resize((24, 24)), nap, T.ToTensor()]))
    stages = timed(dataset, None, seconds=0.4)
    assert list(stages.us) == ["collate", "other"]
    assert stages.us["other"] >= NAP_S * 1e6
    assert stages.output == (24, 24)


def test_subsets_are_timed_within(root: Path) -> None:
    stages = timed(Subset(fastpipe.ImageFolder(root, STANDARD), [1, 3, 5, 7]))
    assert {"read", "draw", "other"} <= set(stages.us)


def test_a_batch_stays_below_what_memory_holds(root: Path) -> None:
    asked: list[int] = []

    class Counting(fastpipe.ImageFolder):
        def __getitems__(self, indices: Any) -> Any:
            asked.append(len(indices))
            return super().__getitems__(indices)

    three = 3 * 3 * 24 * 24 * 4
    time_stages(Counting(root, STANDARD), range(8), 8, BATCHES, BatchCollate(BATCHES), 0.01, 1.0, most_bytes=three)
    assert max(asked) == 2  # the first two tell the size; three images and their targets are more than three images


def test_threads_of_libraries_are_noticed(root: Path) -> None:
    def burn() -> None:
        for _ in range(6):
            np.sort(np.random.default_rng(0).random(400_000))  # without the GIL

    def with_thread(image: Any) -> Any:
        thread = threading.Thread(target=burn)
        thread.start()
        thread.join()
        return image

    quiet = timed(fastpipe.ImageFolder(root, STANDARD))
    loud = timed(fastpipe.ImageFolder(root, T.Compose([T.ToTensor(), T.Resize((8, 8)), with_thread])))
    assert loud.other_threads > 0.5
    assert quiet.other_threads < 0.5


def test_samples_that_cannot_be_made_are_told_from_the_rest(tmp_path: Path) -> None:
    for number in range(6):
        data = corpus.jpeg(30, 40, seed=number)
        (tmp_path / f"{number}.jpg").write_bytes(data[: len(data) // 3] if number in (1, 4) else data)
    paths = [str(tmp_path / f"{number}.jpg") for number in range(6)]
    dataset = fastpipe.ImageList((paths, [0] * 6), STANDARD)
    tried = try_samples(dataset, range(6), 10.0)
    assert tried.good == [0, 2, 3, 5]
    assert [bad.index for bad in tried.bad] == [1, 4]
    assert "1.jpg" in tried.bad[0].reason
    assert "\n" not in tried.bad[0].reason
    assert tried.us > 0
    assert "can't decode" in tried.bad[0].reason
    assert tried.bad[0].line == ""  # no code of the user's
    assert try_samples(dataset, range(6), 0.0).good == [0]  # one at least, and no more than there is time for


def sides(image: Any) -> Any:
    return torch.zeros(int(torch.randint(1, 1 << 20, ())))


def boom(image: Any) -> Any:
    raise RuntimeError(f"boom\nof {image.width}")


def test_an_error_of_the_users_transform_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_bytes(corpus.jpeg(30, 40))
    dataset = fastpipe.ImageList(([str(tmp_path / "0.jpg")], [0]), T.Compose([T.CenterCrop(20), boom]))
    line = f"{__file__}, line {boom.__code__.co_firstlineno + 1}"
    tried = try_samples(dataset, [0], 1.0)
    assert tried.bad == [FailedSample(0, f"RuntimeError: boom of 20 ({line})", line)]
    # Of code that raises now and then, and didn't when samples were tried, the cure isn't another size.
    with pytest.raises(DatasetError, match=f"RuntimeError: boom .*Fix the code at {re.escape(line)}.$"):
        timed(dataset)
    odd = fastpipe.ImageList(([str(tmp_path / "0.jpg")] * 2, [0, 0]), T.Compose([T.Lambda(sides)]))
    with pytest.raises(DatasetError, match=r"can't be made a batch: .*end the transform in a resize or crop"):
        timed(odd)


def photo(height: int, width: int, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(corpus.photo(height, width)).save(out, "JPEG", quality=90, **options)
    return out.getvalue()


@pytest.mark.needs_core
def test_packed_and_oversized_files_gain(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(photo(700, 900))
    (tmp_path / "3.jpg").write_bytes(photo(60, 80))
    paths = [str(tmp_path / f"{number}.jpg") for number in range(4)]
    dataset = fastpipe.ImageList((paths, [0] * 4), T.Compose([T.Resize(48), T.CenterCrop(48), T.ToTensor()]))
    oversized, packed = try_reencoding(dataset, range(4), (48, 48), 60.0)
    assert (oversized.kind, oversized.share, oversized.short_side) == ("oversized", 0.75, 96)
    assert (oversized.files, oversized.typical_side) == (3, 700)
    assert oversized.factor > packed.factor
    assert oversized.bytes_factor > 10
    assert (packed.kind, packed.share, packed.files, packed.short_side) == ("packed", 1.0, 4, None)
    assert 0.6 < packed.bytes_factor < 1  # of the JPEGs as of the packed images: these take more
    # Small files aren't made smaller, and where no image's size is known nothing is oversized.
    assert [found.kind for found in try_reencoding(dataset, [3], (48, 48), 0.5)] == ["packed"]
    assert [found.kind for found in try_reencoding(dataset, range(4), None, 0.1)] == ["packed"]
    # Nor where nothing is resized: a crop of a smaller file is another picture.
    for crop, kinds in (
        (T.RandomCrop(40), []),
        (T.Compose([T.CenterCrop(40), T.Resize(40)]), []),
        (T.Compose([T.RandomCrop(500), T.Resize(40)]), []),
        (T.Lambda(lambda image: image.crop((0, 0, 40, 40))), []),
        (T.RandomResizedCrop(40), ["oversized"]),
        (T.Compose([T.Resize((50, 50)), T.RandomCrop(40)]), ["oversized"]),
        (T.Compose([T.Lambda(lambda image: image), T.Resize((40, 40))]), ["oversized"]),
    ):
        dataset = fastpipe.ImageList((paths[:3], [0] * 3), T.Compose([T.RandomHorizontalFlip(), crop, T.ToTensor()]))
        assert [found.kind for found in try_reencoding(dataset, range(3), (40, 40), 0.01)] == [*kinds, "packed"]


def test_disk(root: Path) -> None:
    paths = [str(path) for path in root.rglob("*.jpg")] * 4
    measured = measure_disk(paths, 1000, 1.0)
    assert measured.files == len(paths)
    assert measured.mean_bytes == pytest.approx(np.mean([os.path.getsize(path) for path in paths]))
    assert measured.all_bytes == measured.mean_bytes * 1000
    assert (measured.cold_per_s is None) == bool(measured.reason)
    assert measured.resident is None or 0 <= measured.resident <= 1


def test_the_disk_says_why_it_was_not_measured(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(path) for path in root.rglob("*.jpg")] * 4
    monkeypatch.setattr(disk_module, "is_resident", lambda path: True)
    if hasattr(os, "posix_fadvise"):
        assert "stayed in the page cache" in measure_disk(paths, 8).reason
        monkeypatch.setattr(disk_module, "is_resident", lambda path: None)
        assert "doesn't say" in measure_disk(paths, 8).reason
        monkeypatch.delattr(os, "posix_fadvise")
    assert "posix_fadvise" in measure_disk(paths, 8).reason


def test_cold_files_are_measured_where_the_system_can(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states: dict[str, bool] = {}

    def drop(path: str) -> bool:
        states[path] = False
        return True

    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: None, raising=False)
    monkeypatch.setattr(disk_module, "_drop", drop)
    monkeypatch.setattr(disk_module, "is_resident", lambda path: states.get(path, True))
    paths = [str(path) for path in root.rglob("*.jpg")] * 4
    measured = measure_disk(paths, 8)
    assert measured.resident == 1.0
    assert measured.reason == ""
    assert measured.cold_per_s is not None
    few = measure_disk(paths[:3], 8)
    assert few.cold_per_s is None
    assert "too few" in few.reason


def test_files_that_are_not_there_are_left_out(root: Path) -> None:
    assert is_resident(str(root / "nowhere.jpg")) is None
    measured = measure_disk([str(root / "nowhere.jpg")], 1)
    assert (measured.files, measured.mean_bytes) == (0, 0.0)


def test_limits_of_a_container(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path) >= 1
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert usable_cpus(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert usable_cpus(tmp_path) == usable_cpus(tmp_path / "nowhere")
    first = tmp_path / "first"
    (first / "cpu").mkdir(parents=True)
    (first / "cpu/cpu.cfs_quota_us").write_text("50000\n")
    (first / "cpu/cpu.cfs_period_us").write_text("100000\n")
    assert usable_cpus(first) == 1
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("900000\n")
    (tmp_path / "memory.stat").write_text("anon 100000\nfile 800000\nfile_mapped 7\n")
    assert memory(tmp_path).available == 900_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory(tmp_path).available == memory(tmp_path / "nowhere").available or memory(tmp_path).available > 10**6


def test_lists_of_objects_are_found(root: Path) -> None:
    class Own:
        def __init__(self) -> None:
            self.samples = [(f"/data/class{number % 10}/{number:08}.jpg", number % 10) for number in range(5000)]
            self.same = self.samples
            self.names = np.array([f"{number:08}" for number in range(2000)], dtype=object)
            self.labels = np.zeros(5000, int)
            self.short = list(range(10))
            self.by_name = {f"{number}": number for number in range(3000)}

    found = {one.name: one for one in object_lists(Own())}
    assert set(found) == {"dataset.samples", "dataset.names", "dataset.by_name"}
    samples = found["dataset.samples"]
    assert samples.length == 5000
    # A pointer, a tuple of two, a string of 27 characters; the labels are small integers, made once.
    assert samples.bytes == pytest.approx(5000 * (8 + 56 + 76), rel=0.15)
    assert object_lists(fastpipe.ImageFolder(root, STANDARD)) == []


def test_lists_inside_torchs_datasets_are_found() -> None:
    class Own(torch.utils.data.Dataset[Any]):
        def __init__(self) -> None:
            self.paths = [f"{number:08}.jpg" for number in range(2000)]

        def __len__(self) -> int:
            return 2000

    names = {one.name for one in object_lists(ConcatDataset([Own(), Subset(Own(), list(range(1500)))]))}
    assert names == {
        "dataset.datasets[0].paths",
        "dataset.datasets[1].indices",
        "dataset.datasets[1].dataset.paths",
    }


def test_values_go_into_json(root: Path) -> None:
    json.dumps(dict(timed(fastpipe.ImageFolder(root, STANDARD)).us))
