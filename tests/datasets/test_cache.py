"""`fastpipe.Cache`: bounded, shared, whole files only, whoever is killed and whatever the disk says."""

from __future__ import annotations

import errno
import hashlib
import io
import multiprocessing
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import fastpipe
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.sources import ByteSource, Cache, Entry, _cache_folder
from fastpipe.sources.cache import parse_size

KB = 1000


class Dictionary(ByteSource):
    """Files in memory, which counts how often each is read."""

    def __init__(self, files: dict[str, bytes], name: str = "dictionary:") -> None:
        self._name, self.files = name, files
        self.reads: list[str] = []

    @property
    def name(self) -> str:
        return self._name

    def list(self) -> Iterable[Entry]:
        return [Entry(key, len(data), hashlib.md5(data).hexdigest()) for key, data in self.files.items()]

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        self.reads.append(key)
        if key not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", self.url(key))
        data = self.files[key]
        return data[offset:] if length < 0 else data[offset : offset + length]


def content(number: int, size: int = 4096) -> bytes:
    return random.Random(number).randbytes(size)


@pytest.fixture
def source() -> Dictionary:
    return Dictionary({f"{number:03}": content(number) for number in range(40)})


def test_what_was_read_once_is_read_from_the_disk(tmp_path: Path, source: Dictionary) -> None:
    cache = Cache(tmp_path / "cache", "1 MB")
    files = [source.file(entry) for entry in source.list()]
    for _ in range(2):
        found = cache.fetch(files)
        assert [Path(one.container).read_bytes() for one in found] == list(source.files.values())
    assert sorted(source.reads) == sorted(source.files)
    assert cache.get(files[3]) == source.files["003"]
    about = cache.statistics()
    assert (about.files, about.bytes, about.hits, about.misses) == (40, 40 * 4096, 41, 40)
    assert about.fetched_bytes == 40 * 4096


def test_versions_parts_and_sources_are_files_of_their_own(tmp_path: Path, source: Dictionary) -> None:
    cache = Cache(tmp_path / "cache", "1 MB")
    first = source.file(Entry("001", 4096, "one"))
    assert cache.get(first) == content(1)
    source.files["001"] = content(100)
    assert cache.get(first) == content(1)
    assert cache.get(source.file(Entry("001", 4096, "two"))) == content(100)
    other = Dictionary({"001": content(200)}, "other:")
    assert cache.get(other.file(Entry("001", 4096, "one"))) == content(200)
    part = fastpipe.types.RemoteFile("part", source, "001", 10, 20, first.version, False)
    assert cache.get(part) == content(100)[10:30]
    assert cache.statistics().files == 4


def test_the_least_recently_used_leave(tmp_path: Path, source: Dictionary) -> None:
    cache = Cache(tmp_path / "cache", 10 * 4096)
    files = [source.file(entry) for entry in source.list()]
    for file in files[:10]:
        cache.get(file)
    cache.get(files[0])
    for file in files[10:15]:
        cache.get(file)
    assert [number for number in range(40) if cache.find(files[number])] == [0, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    about = cache.statistics()
    assert (about.bytes, about.evicted) == (10 * 4096, 5)
    on_disk = sum(path.stat().st_size for path in (tmp_path / "cache" / "files").rglob("*") if path.is_file())
    assert on_disk == 10 * 4096


def test_what_is_held_stays(tmp_path: Path, source: Dictionary) -> None:
    cache = Cache(tmp_path / "cache", 10 * 4096)
    files = [source.file(entry) for entry in source.list()]
    cache.fetch(files[:10])
    with cache.pin(files[:8]):
        cache.fetch(files[10:20])
        assert all(cache.find(file) for file in files[:8])
        assert cache.statistics().pinned == 8
        with cache.pin(files[8:40]):
            there = [file for file in files if cache.find(file)]
            assert isinstance(cache.fetch([file for file in files if file not in there])[0], bytes)
    cache.fetch(files[20:30])
    assert not any(cache.find(file) for file in files[:20])


def test_a_file_that_is_missing_or_too_short_is_an_error_beside_the_others(tmp_path: Path, source: Dictionary) -> None:
    cache = Cache(tmp_path / "cache")
    files = [source.file(Entry(key, 4096)) for key in ("001", "gone", "002", "003")]
    source.files["002"] = b"short"
    found = cache.fetch(files)
    assert isinstance(found[1], FileNotFoundError)
    with pytest.raises(OSError, match=r"dictionary:/002: 4096 bytes were expected and 5 came.*List it again"):
        raise found[2]
    assert cache.statistics().files == 2


def test_files_that_somebody_removed_or_cut_off_are_fetched_again(tmp_path: Path, source: Dictionary) -> None:
    cache = Cache(tmp_path / "cache", "1 MB")
    files = [source.file(entry) for entry in source.list()][:3]
    places = cache.fetch(files)
    os.unlink(places[0].container)
    Path(places[1].container).write_bytes(b"")
    assert [cache.get(file) for file in files] == [content(number) for number in range(3)]
    assert cache.statistics().files == 3
    Path(places[2].container).write_bytes(bytes(4096))
    assert cache.check() == 1
    assert cache.get(files[2]) == content(2)


def test_a_full_disk_makes_it_smaller(tmp_path: Path, source: Dictionary, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path / "cache", "1 MB")
    files = [source.file(entry) for entry in source.list()]
    cache.fetch(files[:5])

    class Full(io.FileIO):
        def write(self, data: Any, /) -> int:
            if sum(one.is_file() for one in (tmp_path / "cache" / "files").rglob("*")) >= 5:
                super().write(data[:100])
                raise OSError(errno.ENOSPC, "No space left on device", str(self.name))
            return super().write(data)

    monkeypatch.setattr("fastpipe.atomic_write.open", Full, raising=False)
    assert [cache.get(file) for file in files] == list(source.files.values())
    assert cache.statistics().files <= 5
    with cache.pin(files), pytest.warns(FastpipeWarning, match="can't keep what is read .No space left on device"):
        assert [cache.get(file) for file in files] == list(source.files.values())
    assert not [*(tmp_path / "cache" / "parts").rglob("*/*")]
    assert cache.check() == 0


def test_a_damaged_manifest_is_made_anew(tmp_path: Path, source: Dictionary) -> None:
    folder = tmp_path / "cache"
    files = [source.file(entry) for entry in source.list()]
    Cache(folder).fetch(files)
    for path in folder.glob("manifest.sqlite-*"):
        path.unlink()
    (folder / "manifest.sqlite").write_bytes(b"no database, but long enough to be looked at" * 100)
    cache = Cache(folder)
    assert cache.statistics().files == 0
    assert [cache.get(file) for file in files] == list(source.files.values())


def test_a_restart_of_the_machine(tmp_path: Path, source: Dictionary, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    files = [source.file(entry) for entry in source.list()][:4]
    places = Cache(folder).fetch(files)
    (folder / "fastpipe-cache").write_text("another start")
    monkeypatch.setattr(_cache_folder, "is_alive", lambda *_, unknown=True: False)  # a restart ends all processes
    Path(places[0].container).write_bytes(bytes(4096))  # the blocks were never written
    os.unlink(places[1].container)
    stray = Path(places[2].container).parent / ("0" * 32)
    stray.write_bytes(b"its row was lost")
    cache = Cache(folder)
    assert [bool(cache.find(file)) for file in files] == [False, False, True, True]
    assert cache.statistics().files == 2
    assert not stray.exists()


def _fill(folder: Path, first: int) -> None:
    source = Dictionary({f"{number:03}": content(number) for number in range(40)})
    cache = Cache(folder, 20 * 4096)
    order = [source.file(entry) for entry in source.list()]
    for turn in range(4):
        random.Random(first + turn).shuffle(order)
        for file in order:
            assert cache.get(file) == source.files[file.key]


def test_processes_and_threads_share_it(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    children = [multiprocessing.get_context("fork").Process(target=_fill, args=(folder, n)) for n in range(2)]
    for child in children:
        child.start()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(_fill, [folder] * 3, range(10, 13)))
    for child in children:
        child.join()
        assert child.exitcode == 0
    cache = Cache(folder, 20 * 4096)
    about = cache.statistics()
    on_disk = [path for path in (folder / "files").rglob("*") if path.is_file()]
    assert len(on_disk) == about.files == 20
    assert about.bytes == 20 * 4096
    assert cache.check() == 0


def test_a_fork_uses_what_its_parent_opened(tmp_path: Path, source: Dictionary) -> None:
    cache = Cache(tmp_path / "cache", "1 MB")
    files = [source.file(entry) for entry in source.list()]
    cache.fetch(files[:5])
    hold = cache.pin(files[:5])

    def child() -> None:
        assert all(cache.find(file) for file in files[:5])
        cache.fetch(files[5:10])
        assert cache.statistics().pinned == 5

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    about = Cache(tmp_path / "cache").statistics()
    assert (about.files, about.pinned) == (10, 5)
    hold.release()
    again = pickle.loads(pickle.dumps(cache))
    assert (again.folder, again.capacity) == (cache.folder, 10**6)
    assert again.statistics().pinned == 0


def _fill_for_ever(folder: Path, begun: Connection) -> None:
    source = Dictionary({f"{number:03}": content(number) for number in range(40)})
    cache = Cache(folder, 20 * 4096)
    files = [source.file(entry) for entry in source.list()]
    cache.pin(files[:3])
    begun.send(True)
    while True:
        for start in range(0, 40, 4):
            cache.fetch(files[start : start + 4])


def test_killed_at_any_moment(tmp_path: Path, source: Dictionary) -> None:
    folder = tmp_path / "cache"
    context = multiprocessing.get_context("fork")
    for number in range(8):
        begun, begins = context.Pipe(duplex=False)
        child = context.Process(target=_fill_for_ever, args=(folder, begins))
        child.start()
        assert begun.recv()
        time.sleep(random.Random(number).random() / 50)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        cache = Cache(folder, 20 * 4096)
        on_disk = [path for path in (folder / "files").rglob("*") if path.is_file()]
        about = cache.statistics()
        assert len(on_disk) * 4096 <= about.bytes <= 20 * 4096
    assert about.pinned == 0
    assert len(os.listdir(folder / "owners")) == 8  # of this process
    assert cache.check() == about.files - len(on_disk)
    for entry in source.list():
        assert cache.get(source.file(entry)) == source.files[entry.key]


def test_what_is_no_cache_or_no_capacity(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(DatasetError, match="holds other things: give an empty or a new folder"):
        Cache(tmp_path)
    with pytest.raises(DatasetError, match=r"can't be used as a cache: .*Give a folder on a local disk"):
        Cache(tmp_path / "photo.jpg")
    assert [parse_size(given) for given in ("500 GB", "1.5TiB", "10 kb", "7", 12)] == [
        500 * 10**9, 3 << 39, 10**4, 7, 12,
    ]  # fmt: skip
    for wrong in ("much", "-1 GB", -1, 1.5, True, None):
        with pytest.raises(DatasetError, match="give bytes, as an integer or a text such as '500 GB'"):
            parse_size(wrong)


@pytest.mark.needs_fork
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_waits_until_no_thread_is_in_sqlite(tmp_path: Path) -> None:
    """A child inherits SQLite's own locks as they are: one that is held would stay so, and the child would hang."""
    cache = fastpipe.Cache(tmp_path / "cache", "1 MB")
    done = threading.Event()

    def use() -> None:
        while not done.is_set():
            cache.clear()

    thread = threading.Thread(target=use)
    thread.start()
    try:
        for _ in range(20):
            if (child := os.fork()) == 0:
                signal.alarm(10)
                cache.statistics()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        thread.join()
