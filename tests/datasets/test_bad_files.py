"""Bad files are listed, counted and warned about, and too many of them stop a run."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from bad_files import BAD, COUNT, GOOD, logged

import fastpipe
from fastpipe import transforms as T
from fastpipe.datasets import BadFile, BadFileCounts
from fastpipe.datasets.bad_files import SKIPPED, BadFileRecord
from fastpipe.errors import BadFilesError, DatasetError, DecodeError, FastpipeWarning

pytestmark = pytest.mark.filterwarnings("ignore::fastpipe.errors.FastpipeWarning")


@pytest.fixture
def make(spoiled_index: fastpipe.ImageIndex, bad_files_log: Path):
    def folder(transform=T.Compose([T.RandomResizedCrop(20), T.ToTensor()]), **options):  # noqa: B008 - not changed
        options = {"bad_files_log": bad_files_log, "max_bad_fraction": 1, **options}
        return fastpipe.ImageFolder(spoiled_index.root, transform, index=spoiled_index, **options)

    return folder


class TestLog:
    def test_rows(self, make, spoiled_index, bad_files_log):
        make(on_error="skip").__getitems__(range(COUNT))
        rows = logged(bad_files_log)
        assert list(rows[0]) == ["path", "index", "reason", "time"]
        bad = [(spoiled_index.path(number), number) for number in BAD]
        assert [(row["path"], int(row["index"])) for row in rows] == bad
        reasons = {kind: row["reason"] for kind, row in zip(BAD.values(), rows, strict=True)}
        assert "JPEG" in reasons["truncated"]
        assert "No such file" in reasons["missing"]
        assert "unknown format" in reasons["empty"]
        assert all(row["time"].endswith("+00:00") for row in rows)

    def test_each_once_over_epochs_datasets_and_runs(self, make, bad_files_log):
        for _ in range(2):
            dataset = make(on_error="skip", seed=0)
            for epoch in range(2):
                dataset.set_epoch(epoch)
                dataset.__getitems__(range(COUNT))
                dataset.__getitems__(range(COUNT))
        assert len(logged(bad_files_log)) == 6

    def test_its_folder_is_made(self, make, tmp_path):
        make(on_error="skip", bad_files_log=tmp_path / "run" / "3" / "log.csv")[1]
        assert len(logged(tmp_path / "run" / "3" / "log.csv")) == 1

    def test_none(self, make, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        make(on_error="skip", bad_files_log=None).__getitems__(range(COUNT))
        assert os.listdir(tmp_path) == []

    def test_is_in_the_folder_of_the_start_and_alone(self, make, tmp_path, monkeypatch):
        (tmp_path / "later").mkdir()
        monkeypatch.chdir(tmp_path)
        dataset = make(on_error="skip", bad_files_log="bad_files.csv")
        monkeypatch.chdir("later")
        dataset[1]
        assert len(logged(tmp_path / "bad_files.csv")) == 1
        assert sorted(os.listdir(tmp_path)) == ["bad_files.csv", "later"]  # no lock beside it

    @pytest.mark.filterwarnings("default::fastpipe.errors.FastpipeWarning")
    def test_default_is_none_and_the_warning_says_how_to_get_one(self, spoiled_index, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        dataset = fastpipe.ImageFolder(spoiled_index.root, index=spoiled_index, on_error="skip", max_bad_fraction=1)
        with pytest.warns(FastpipeWarning, match=r"bad_files_log='bad_files\.csv'"):
            dataset[1]
        assert os.listdir(tmp_path) == []

    def test_half_a_line_of_another_does_no_harm(self, make, bad_files_log):
        make(on_error="skip")[1]
        with open(bad_files_log, "ab") as file:
            file.write(b"/half/a li")
        make(on_error="skip")[4]
        lines = bad_files_log.read_bytes().splitlines()
        assert len(lines) == 4
        assert lines[2] == b"/half/a li"

    def test_what_it_cannot_write_is_said_once_and_stops_nothing(self, make, tmp_path):
        (tmp_path / "file").write_text("no folder")
        dataset = make(on_error="skip", bad_files_log=tmp_path / "file" / "log.csv")
        with pytest.warns(FastpipeWarning, match="can't be listed"):
            assert dataset[1] is None
        assert len(dataset.__getitems__(range(COUNT))) == len(GOOD)

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk to write to")
    def test_a_full_disk(self, make, tmp_path):
        (tmp_path / "log.csv").symlink_to("/dev/full")
        dataset = make(on_error="skip", bad_files_log=tmp_path / "log.csv")
        with pytest.warns(FastpipeWarning, match="No space left"):
            assert dataset[1] is None
        assert dataset.bad_files.skipped == 1

    def test_odd_names(self, tmp_path, bad_files_log):
        names = ['a "quoted", name.jpg', "two\nlines.jpg", "é ü.jpg"] if sys.platform != "win32" else ["é ü.jpg"]
        paths = [str(tmp_path / name) for name in names]
        if sys.platform == "linux":
            paths.append(os.fsdecode(bytes(tmp_path) + b"/not utf-8 \xff.jpg"))
        for _ in range(2):
            listed = fastpipe.ImageList(
                (paths, [0] * len(paths)), on_error="skip", bad_files_log=bad_files_log, max_bad_fraction=1
            )
            assert [listed[at] for at in range(len(paths))] == [None] * len(paths)
        assert [row["path"] for row in logged(bad_files_log)] == paths

    @pytest.mark.skipif(sys.platform != "linux", reason="other start methods import torch in each process")
    @pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
    def test_many_processes_write_each_file_once(self, tmp_path, bad_files_log):
        """As ranks do: processes that share nothing but the log."""
        paths = [str(tmp_path / f"missing {number}.jpg") for number in range(60)]
        context = multiprocessing.get_context("fork")
        ranks = [context.Process(target=read_all, args=(paths, bad_files_log, rank)) for rank in range(4)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        assert [rank.exitcode for rank in ranks] == [0] * 4
        assert Counter(row["path"] for row in logged(bad_files_log)) == Counter(paths)


def read_all(paths, bad_files_log, rank):
    source = (paths, list(range(len(paths))))
    listed = fastpipe.ImageList(source, on_error="skip", bad_files_log=bad_files_log, max_bad_fraction=1)
    order = random.Random(rank).sample(range(len(paths)), len(paths))
    sys.exit([listed[number] for number in order] != [None] * len(paths))


class TestLimits:
    def test_stops_with_the_numbers_and_the_log(self, make, spoiled_index, bad_files_log):
        dataset = make(on_error="skip", max_bad_fraction=0.1)
        with pytest.raises(
            BadFilesError, match=r"4 of the 30 samples .* max_bad_fraction=0\.1 .*bad_files\.csv"
        ) as caught:
            dataset.__getitems__(range(COUNT))
        assert spoiled_index.path(15) in str(caught.value)
        assert len(logged(bad_files_log)) == 4

    def test_what_comes_again_counts_once_and_an_epoch_counts_anew(self, make):
        dataset = make(on_error="replace", max_bad_fraction=0.1, seed=0)
        for epoch in range(4):
            dataset.set_epoch(epoch)
            for index in (1, 4, 1, 10, 1, 4):
                dataset[index]
            assert dataset.bad_files == BadFileCounts(0, 3, 3)
        dataset.set_epoch(9)
        assert dataset.bad_files == BadFileCounts(0, 0, 3)

    @pytest.mark.parametrize(("fraction", "stops"), [(0, True), (0.19, True), (0.2, False), (1, False)])
    def test_edges(self, make, fraction, stops):
        dataset = make(on_error="skip", max_bad_fraction=fraction)
        if stops:
            with pytest.raises(BadFilesError):
                dataset.__getitems__(range(COUNT))
        else:
            dataset.__getitems__(range(COUNT))

    def test_arguments(self, make):
        with pytest.raises(DatasetError, match="'raise', 'skip', 'replace'"):
            make(on_error="ignore")
        dataset = make()
        dataset.on_error = "ignore"
        with pytest.raises(DatasetError, match="'ignore'"):
            dataset[0]
        dataset.on_error = "skip"
        assert dataset[1] is None
        for fraction in (-0.1, 1.1, float("nan")):
            with pytest.raises(DatasetError, match="from 0 to 1"):
                make(max_bad_fraction=fraction)


class TestState:
    def test_warns_at_the_first_bad_file_of_an_epoch(self, make):
        dataset = make(on_error="skip", seed=0)
        for epoch in range(2):
            dataset.set_epoch(epoch)
            with pytest.warns(FastpipeWarning) as warned:
                dataset.__getitems__(range(COUNT))
            assert [str(w.message).count("sample 1)") for w in warned] == [1]
            assert warned[0].filename == __file__

    def test_copies_have_counts_of_their_own(self, make):
        dataset = make(on_error="skip")
        dataset[1]
        other = pickle.loads(pickle.dumps(dataset))
        assert other.bad_files == BadFileCounts(0, 0, 0)
        assert len(other.__getitems__(range(COUNT))) == len(GOOD)
        assert other.bad_files.skipped == 6
        assert dataset.bad_files.skipped == 1

    def test_recipes_are_of_the_file_itself(self, make):
        dataset = make(on_error="replace", seed=0)
        with pytest.raises(DecodeError):
            dataset.recipe(4)

    def test_no_thread_is_left_behind_by_an_error(self, make):
        before = threading.active_count()
        for _ in range(3):
            with pytest.raises(OSError, match="sample"):
                make(threads=2).__getitems__(range(COUNT))
        assert threading.active_count() <= before + 6

    def test_bad_file_is_a_value(self):
        bad = BadFile(3, "a.jpg", 1, None, DecodeError("a.jpg", "JPEG", "pil", "cut\n off"))
        assert bad.reason == "JPEG: cut off"
        assert pickle.loads(pickle.dumps(bad)).reason == bad.reason
        assert BadFile(3, "a.jpg", 1, None, KeyError("x" * 999)).reason[:12] == "KeyError: 'x"
        assert len(BadFile(3, "a.jpg", 1, None, KeyError("x" * 999)).reason) == 300


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_file_stays_listed_while_another_process_counts_it():
    """Two workers may find the same file bad: as its own sample, and in another's place."""

    def count(record, stop):
        while not stop.is_set():
            for index in range(record.count):
                record.mark(index, SKIPPED)

    fork = multiprocessing.get_context("fork")
    for _ in range(20):
        record, stop = BadFileRecord(10), fork.Event()
        other = fork.Process(target=count, args=(record, stop))
        other.start()
        while record.counts().skipped < record.count:
            time.sleep(0.001)
        for index in range(record.count):
            record.listed[index] = True
            time.sleep(0.0003)
        stop.set()
        other.join()
        assert record.listed.all()
        assert record.counts().skipped == record.count
