"""Interrupted at any moment, killed, or with a full disk: the same bytes in the end, and nothing lost."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import archives
import corpus
import filelock
import pytest
from comparison import contents
from full_disk import full_disk

from fastpipe.errors import DatasetError
from fastpipe.packing import pack, pack_run, record, work
from fastpipe.packing.record import NAME, Record

TARGETS = ["out", "out.zip", "out.tar", "s-{000..}.tar"]


@pytest.fixture(autouse=True)
def _few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files in a task, and all is recorded at once; nothing waits for what other programs write to the disks."""
    monkeypatch.setattr(os, "sync", lambda: None, raising=False)
    monkeypatch.setattr(work, "FILES", 2)
    monkeypatch.setattr(pack_run, "FILES", 2)
    monkeypatch.setattr(pack_run, "COMMIT_S", 0.0)


def target_in(place: Path, name: str) -> Path:
    return place / name


def everything(place: Path) -> dict[str, bytes]:
    """The files of all targets in a folder."""
    return {name.partition("/")[2]: data for name, data in contents(place).items() if not name.endswith(".lock")}


@pytest.mark.parametrize("name", TARGETS)
def test_an_error_at_any_file(folder: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(folder, target_in(tmp_path / "whole", name), shard_samples=4)
    expected = everything(tmp_path / "whole")
    take, taken = pack_run.PackRun._take_rows, [0]

    def interrupted(self: Any, rows: Any) -> None:
        taken[0] += 1
        if taken[0] % 3 == 0:
            raise KeyboardInterrupt
        take(self, rows)

    monkeypatch.setattr(pack_run.PackRun, "_take_rows", interrupted)
    resumed = []
    for _ in range(20):
        try:
            resumed.append(pack(folder, target_in(tmp_path / "cut", name), shard_samples=4, jobs=2).resumed)
            break
        except KeyboardInterrupt:
            continue
    assert 0 < resumed[0] < 14
    assert everything(tmp_path / "cut") == expected


@pytest.mark.parametrize("name", TARGETS)
def test_a_record_that_was_cut_off_anywhere(folder: Path, tmp_path: Path, name: str) -> None:
    """Its last line may be half; what it doesn't tell of is written again."""
    place = tmp_path / "whole"
    pack(folder, target_in(place, name), shard_samples=4)
    expected = everything(place)
    record = next(place.rglob(f"*{NAME}"))
    length = record.stat().st_size
    for share in (0.1, 0.5, 0.83):
        cut = tmp_path / f"cut{share}"
        shutil.copytree(place, cut)
        record = next(cut.rglob(f"*{NAME}"))
        os.truncate(record, max(int(length * share), len(record.read_bytes().splitlines()[0]) + 1))
        # The archive that the record ends in wasn't complete then, and those behind it weren't begun.
        parts = _parts_in(record)
        for file in [file for file in cut.iterdir() if file.suffix in (".tar", ".zip")]:
            if file.name not in parts:
                file.unlink()
            elif file.name == parts[-1]:
                file.rename(f"{file}.part")
        pack(folder, target_in(cut, name), shard_samples=4)
        assert everything(cut) == expected


def test_two_full_shards_that_were_not_ended(folder: Path, tmp_path: Path) -> None:
    """Killed before the second is ended, when the first, of an earlier kill, is left to the end: neither gets more."""
    place = tmp_path / "cut"
    pack(folder, target_in(place, "s-{000..}.tar"), shard_samples=4)
    expected = everything(place)
    record = next(place.rglob(f"*{NAME}"))
    record.write_bytes(b"".join(record.read_bytes().splitlines(keepends=True)[: 1 + 2 * 4]))
    for file in sorted(place.glob("*.tar")):
        if file.name in ("s-000.tar", "s-001.tar"):
            file.rename(f"{file}.part")
        else:
            file.unlink()
    pack(folder, target_in(place, "s-{000..}.tar"), shard_samples=4)
    assert everything(place) == expected


def _parts_in(record: Path) -> list[str]:
    reader = Record.__new__(Record)
    reader.file = str(record)
    return list(dict.fromkeys(row.part for row in reader.read()))


_FORKS = """
import os, sys
from fastpipe.packing import pack, pack_run, work
pack_run.COMMIT_S = 0.0
pack_run.FILES = work.FILES = 2
print("ready", flush=True)
for line in sys.stdin:
    if not (child := os.fork()):
        pack(*line.strip().split("|"), shard_samples=7, progress=False)
        os._exit(0)
    print(child, flush=True)
    sys.stdin.readline()
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.fixture(scope="module")
def forks() -> Iterator[Any]:
    """A process that packs in children, one for each line it is sent: importing takes longer than packing."""
    program = subprocess.Popen(
        [sys.executable, "-c", _FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
    )
    assert program.stdout is not None
    program.stdout.readline()
    yield program
    program.communicate()


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
@pytest.mark.needs_fork
@pytest.mark.parametrize("name", TARGETS)
def test_kill_9_at_20_random_moments(forks: Any, folder: Path, tmp_path: Path, name: str) -> None:
    """Five for each target, one after the other of the same run."""
    for number in range(60):
        (folder / "cat" / f"more{number}.jpg").write_bytes(corpus.jpeg(300, 400, seed=number % 4))
    begun = time.perf_counter()
    pack(folder, target_in(tmp_path / "whole", name), shard_samples=7)
    seconds = time.perf_counter() - begun
    expected = everything(tmp_path / "whole")
    moments = random.Random(name)
    place = tmp_path / "killed"
    killed = 0
    for _ in range(60):
        forks.stdin.write(f"{folder}|{target_in(place, name)}\n")
        forks.stdin.flush()
        child = int(forks.stdout.readline())
        time.sleep(moments.uniform(0, 0.5) * seconds)
        os.kill(child, signal.SIGKILL)  # where it is done already, it waits to be asked about
        forks.stdin.write("\n")
        forks.stdin.flush()
        if int(forks.stdout.readline()):
            killed += 1
        else:  # it was done before
            shutil.rmtree(place)
        if killed == 5:
            break
    assert killed == 5
    pack(folder, target_in(place, name), shard_samples=7)
    assert everything(place) == expected


@pytest.mark.parametrize("name", TARGETS)
def test_a_full_disk(folder: Path, tmp_path: Path, name: str) -> None:
    pack(folder, target_in(tmp_path / "whole", name), shard_samples=4)
    expected = everything(tmp_path / "whole")
    for room in (0, 100, 400, 900, 1300, 2500, 5000, 9000, 11000):
        with full_disk(room), contextlib.suppress(DatasetError):
            pack(folder, target_in(tmp_path / "full", name), shard_samples=4)
    said = set()
    for room in (0, 900, 2500, 5000, 9000):
        place, failed = tmp_path / f"{room}", ""
        try:
            with full_disk(room):
                pack(folder, target_in(place, name), shard_samples=4)
        except DatasetError as error:
            failed = str(error)
        if failed:
            said.add("What was done is kept" in failed)
            assert ("Nothing was written" in failed) == (not any(place.rglob("*jsonl")))
    assert said == {False, True}
    pack(folder, target_in(tmp_path / "full", name), shard_samples=4)
    assert everything(tmp_path / "full") == expected


def test_a_disk_that_is_full_in_the_middle(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system says ENOSPC, at each write in turn, of the archive and of its record."""
    pack(folder, tmp_path / "whole" / "out.zip")
    expected = everything(tmp_path / "whole")
    write = pack_run.OpenPart._put
    commit = Record._write
    for full in range(9):
        count = [0]

        def failing(self: Any, data: Any, count: list[int] = count, full: int = full) -> None:
            count[0] += 1
            if count[0] > full:
                raise OSError(28, "No space left on device", "out.zip")
            (write if isinstance(self, pack_run.OpenPart) else commit)(self, data)

        monkeypatch.setattr(pack_run.OpenPart, "_put", failing)
        monkeypatch.setattr(Record, "_write", failing)
        with pytest.raises(DatasetError, match=r"No space left.*(Nothing was written|the same command continues)"):
            pack(folder, tmp_path / f"{full}" / "out.zip", jobs=1)
        assert (tmp_path / f"{full}").exists() == (full > 1), "where nothing was done, nothing is left"
        monkeypatch.setattr(pack_run.OpenPart, "_put", write)
        monkeypatch.setattr(Record, "_write", commit)
        pack(folder, tmp_path / f"{full}" / "out.zip", jobs=1)
        assert everything(tmp_path / f"{full}") == expected


def test_shards_that_keep_their_names(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archives.shards(folder, tmp_path / "in", 3)
    pack(tmp_path / "in" / "*.tar", tmp_path / "whole")
    take, taken = pack_run.PackRun._take_rows, [0]

    def interrupted(self: Any, rows: Any) -> None:
        taken[0] += 1
        if taken[0] % 5 == 0:
            raise KeyboardInterrupt
        take(self, rows)

    monkeypatch.setattr(pack_run.PackRun, "_take_rows", interrupted)
    for _ in range(20):
        try:
            pack(tmp_path / "in" / "*.tar", tmp_path / "cut")
            break
        except KeyboardInterrupt:
            continue
    assert everything(tmp_path / "cut") == everything(tmp_path / "whole")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a folder in which nobody can make a file")
@pytest.mark.parametrize("name", ["out", "out.zip", "s-{000..}.tar"])
def test_a_place_that_nobody_can_write(folder: Path, name: str) -> None:
    with pytest.raises(DatasetError, match=r"^/proc/.* can't be written: .*Nothing was written: choose a place"):
        pack(folder, f"/proc/{name}")


def test_a_lock_whose_file_was_removed_by_the_run_before_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was just done removes its lock's file after this one has opened it, and before it has the lock."""
    file, acquire, removed = str(tmp_path / "record"), filelock.FileLock.acquire, []

    def acquired(self: Any, *arguments: Any, **options: Any) -> Any:
        result = acquire(self, *arguments, **options)
        if not removed:
            removed.append(1)
            os.unlink(f"{file}.lock")
        return result

    monkeypatch.setattr(filelock.FileLock, "acquire", acquired)
    with record.open_record(file, {}, "a target", lambda: ""):
        assert removed
        with (
            pytest.raises(DatasetError, match="another process is writing to a target"),
            record.open_record(file, {}, "a target", lambda: ""),
        ):
            pass
        assert os.path.exists(f"{file}.lock")
    assert not os.path.exists(f"{file}.lock")
