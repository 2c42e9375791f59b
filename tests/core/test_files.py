"""Files that the core reads for a batch: what isn't a photo, what changes meanwhile, memory, threads and fork."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import core_jobs
import corpus
import numpy as np
import pytest

from fastpipe import core
from fastpipe.core import Status
from fastpipe.core.addresses import address_of_bytes
from fastpipe.core.files import c_string

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.needs_core


@pytest.fixture
def photos(tmp_path: Path) -> list[str]:
    paths = []
    for name, data in corpus.files().items():
        path = tmp_path / f"{name}.bin"
        path.write_bytes(data)
        paths.append(str(path))
    return paths


def pool_of(threads: int) -> core.Pool | None:
    return core.Pool(threads) if threads else None


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_bytes_and_headers(photos: list[str], threads: int) -> None:
    files = core.Files(4)  # more make room
    for paths in (photos, photos[::-1], photos[:3]):
        found = core_jobs.read_files(files, paths, pool=pool_of(threads))
        assert len(found) == len(files) == len(paths)
        for index, (path, header) in enumerate(zip(paths, found, strict=True)):
            data = Path(path).read_bytes()
            assert core_jobs.was_read(files, index)
            assert files.bytes(index) == data
            assert files.place(index)[1] == len(data)
            assert header == core.read_header(data)
    with pytest.raises(IndexError):
        files.place(3)
    files.clear()
    with pytest.raises(IndexError):
        files.bytes(0)
    assert core_jobs.read_files(files, []) == []


def test_what_was_read_is_decoded(photos: list[str]) -> None:
    files, batch = core.Files(), core.JobArray(len(photos))
    with core.Pool(2) as pool:
        found = core_jobs.read_files(files, photos, pool=pool)
        sizes = {index: header.size for index, header in enumerate(found) if not isinstance(header, Status)}
        good = [index for index, (height, width) in sizes.items() if height * width < 1 << 26]  # some only claim them
        outs = {}
        for job, index in zip(batch, good, strict=False):
            header = found[index]
            outs[index] = np.empty((header.height, header.width, 3), np.uint8)
            job.read_place(files.place(index))
            job.write_array(outs[index])
        statuses = pool.run(batch, len(good))
    assert statuses.count(Status.OK) > len(good) // 2
    for index, status in zip(good, statuses, strict=True):
        if status == Status.OK:
            expected = corpus.reference(Path(photos[index]).stem)
            np.testing.assert_array_equal(outs[index], expected)


def test_what_is_in_memory(photos: list[str]) -> None:
    """Beside files, in one list: nothing is read, and nothing copied."""
    contents = [Path(path).read_bytes() for path in photos]
    expected = core_jobs.read_files(core.Files(), photos)
    mixed = [path if number % 2 else contents[number] for number, path in enumerate(photos)]
    for threads in (0, 2):
        files = core.Files()
        assert core_jobs.read_files(files, [*mixed, b"", b"no picture"], pool=pool_of(threads))[:-2] == expected
        assert [files.bytes(number) for number in range(len(files))] == [*contents, b"", b"no picture"]
        assert core_jobs.read_files(files, [contents[0]], max_bytes=10) == [Status.TOO_LARGE]


def test_what_is_no_file(tmp_path: Path) -> None:
    empty, text, folder = tmp_path / "empty", tmp_path / "text", tmp_path / "folder"
    empty.touch()
    text.write_text("no picture")
    folder.mkdir()
    missing = [str(tmp_path / "missing"), str(tmp_path / "a\0b"), "", str(text / "below"), str(tmp_path / ("x" * 5000))]
    files = core.Files()
    paths = [str(empty), str(text), str(folder), *missing, str(text)]
    found = core_jobs.read_files(files, paths)
    assert all(isinstance(status, Status) for status in found)
    read = [core_jobs.was_read(files, index) for index in range(len(paths))]
    assert read == [True, True, False, False, False, False, False, False, True]
    assert [files.bytes(index) for index in (0, 1, 2, 3)] == [b"", b"no picture", b"", b""]
    errors = [core_jobs.os_error(files, index) for index in range(len(paths))]
    assert errors[:2] == [0, 0]
    assert errors[3:6] == [errno.ENOENT] * 3
    if os.name != "nt":
        assert errors[2] == errno.EISDIR
        assert errors[6:8] == [errno.ENOTDIR, errno.ENAMETOOLONG]
    assert found[1] == Status.UNKNOWN_FORMAT
    assert {found[2], found[3]} == {Status.IO_ERROR}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_what_would_keep_a_reader_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(tmp_path)  # a socket's path is short
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        files = core.Files()
        found = core_jobs.read_files(
            files, [str(tmp_path / "fifo"), "/dev/zero", str(tmp_path / "socket"), str(tmp_path / "loop")]
        )
    assert found == [Status.IO_ERROR] * 4
    assert [core_jobs.os_error(files, index) for index in range(4)] == [errno.EINVAL] * 3 + [errno.ELOOP]
    job = core.Job()  # which reads by itself
    core_jobs.read_path(job, tmp_path / "fifo")
    job.write_array(np.empty((8, 8, 3), np.uint8))
    assert core.run(job) == Status.IO_ERROR


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"x")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root reads everything")
    files = core.Files()
    assert core_jobs.read_files(files, [str(path)]) == [Status.IO_ERROR]
    assert core_jobs.os_error(files, 0) == errno.EACCES


def test_a_length_that_is_refused(tmp_path: Path) -> None:
    """A sparse file of a terabyte takes no room on the disk, but all memory."""
    huge, small = tmp_path / "huge", tmp_path / "small"
    try:
        with open(huge, "wb") as file:
            file.truncate(1 << 40)
    except OSError:
        pytest.skip("no such file here")
    small.write_bytes(b"x" * 1000)
    files = core.Files()
    assert core_jobs.read_files(files, [str(huge), str(small)], max_bytes=1000) == [
        Status.TOO_LARGE,
        Status.UNKNOWN_FORMAT,
    ]
    assert [core_jobs.was_read(files, 0), core_jobs.was_read(files, 1)] == [False, True]
    assert core_jobs.held_bytes(files) < 1 << 24
    assert core_jobs.read_files(files, [str(small)], max_bytes=999) == [Status.TOO_LARGE]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no such files here")
def test_files_that_are_longer_than_they_say(tmp_path: Path) -> None:
    path = "/proc/self/maps"  # a regular file of 0 bytes
    files = core.Files()
    core_jobs.read_files(files, [path])
    assert len(files.bytes(0)) > 1000
    assert files.bytes(0).splitlines()[-1].endswith(b"[vsyscall]") or files.bytes(0).endswith(b"\n")
    assert core_jobs.read_files(files, [path], max_bytes=100) == [Status.TOO_LARGE]
    core_jobs.read_files(files, [path], max_bytes=1 << 30)
    assert core_jobs.was_read(files, 0)


def test_files_that_grow_and_shrink(tmp_path: Path) -> None:
    """Whatever comes is a state of the file, or two mixed, and never more or less memory than there is."""
    path, stop = tmp_path / "file", threading.Event()
    path.write_bytes(b"x")

    def change() -> None:
        with open(path, "r+b") as file:
            while not stop.is_set():
                for size in (0, 300_000, 10, 5_000_000, 4096):
                    file.truncate(size)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        files = core.Files()
        for _ in range(300):
            core_jobs.read_files(files, [str(path)] * 4)
            for index in range(4):
                if core_jobs.was_read(files, index):
                    assert len(files.bytes(index)) <= 5_000_000
    finally:
        stop.set()
        thread.join()


def test_memory_serves_again_and_is_given_back(tmp_path: Path) -> None:
    paths = []
    for index in range(8):
        path = tmp_path / str(index)
        path.write_bytes(bytes([index]) * (30 << 20))
        paths.append(str(path))
    files = core.Files()
    for _ in range(3):
        core_jobs.read_files(files, paths[:1] * 3)
        once = core_jobs.held_bytes(files)
        assert 90 << 20 <= once < 110 << 20
    core_jobs.read_files(files, paths)
    assert files.bytes(7) == b"\7" * (30 << 20)
    assert core_jobs.held_bytes(files) >= 240 << 20
    files.clear()
    assert core_jobs.held_bytes(files) <= 128 << 20


def test_many_files(photos: list[str]) -> None:
    paths = (photos * (3000 // len(photos) + 1))[:3000]
    files = core.Files(3000)
    with core.Pool(4) as pool:
        found = core_jobs.read_files(files, paths, pool=pool)
    assert found == core_jobs.read_files(files, paths)
    assert found[: len(photos)] * 2 == found[: 2 * len(photos)]


def test_names(tmp_path: Path) -> None:
    names = ["Ordnung", "über", "写真", "a b'c"]
    if sys.platform == "linux":
        names.append(os.fsdecode(b"\xff\xfe"))
    for name in names:
        (tmp_path / name).write_bytes(os.fsencode(name))
    files = core.Files()
    core_jobs.read_files(files, [str(tmp_path / name) for name in names])
    assert [files.bytes(index) for index in range(len(names))] == [os.fsencode(name) for name in names]
    core_jobs.read_files(files, [str(tmp_path / "\ud800\ud800")])  # no name at all
    assert not core_jobs.was_read(files, 0)


def test_threads_with_files_of_their_own(photos: list[str]) -> None:
    expected = core_jobs.read_files(core.Files(), photos)
    wrong: list[int] = []
    shared = core.Pool(3)

    def work(number: int) -> None:
        files = core.Files()
        pool = shared if number % 2 else None
        wrong.extend(number for _ in range(20) if core_jobs.read_files(files, photos, pool=pool) != expected)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared.close()
    assert wrong == []


@pytest.mark.needs_fork
def test_a_child_after_fork(photos: list[str]) -> None:
    """Files that were read are still there; reading goes on, also if another thread of the parent was reading."""
    code = """if True:
        import os, sys, threading
        sys.path.insert(0, "tests")
        import core_jobs
        from fastpipe import core
        paths = sys.argv[1:]
        files, other, pool = core.Files(), core.Files(), core.Pool(3)
        expected = core_jobs.read_files(files, paths, pool=pool)
        first = files.bytes(0)
        stop = threading.Event()
        def busy():
            while not stop.is_set():
                core_jobs.read_files(other, paths, pool=pool)
        thread = threading.Thread(target=busy)
        thread.start()
        for _ in range(10):
            child = os.fork()
            if not child:
                good = files.bytes(0) == first
                found = [core_jobs.read_files(one, paths, pool=pool) for one in (files, other, core.Files())]
                good = good and found == [expected] * 3
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        thread.join()
        assert core_jobs.read_files(files, paths) == expected
    """
    command = [sys.executable, "-W", "ignore", "-c", code, *photos]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.needs_fork
def test_a_child_leaves_memory_that_it_inherits(photos: list[str]) -> None:
    """Another thread of the parent may have been reading into it: it isn't freed, and so not twice, either."""
    code = """if True:
        import os, sys
        from fastpipe import core
        from fastpipe.core.library import native
        files = core.Files()
        files.load(sys.argv[1:])
        first = files.bytes(0)
        child = os.fork()
        if not child:
            for _ in range(2):
                native().fpc_files_free(files._memory.address)
            os._exit(files.bytes(0) != first)
        assert os.waitpid(child, 0)[1] == 0
    """
    command = [sys.executable, "-W", "ignore", "-c", code, *photos]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_descriptors_are_closed(photos: list[str], tmp_path: Path) -> None:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("nobody counts them here")
    before = len(list(folder.iterdir()))
    core_jobs.read_files(core.Files(), [*photos, str(tmp_path), "/dev/null", "missing"])
    assert len(list(folder.iterdir())) == before


def test_paths_of_any_length(tmp_path: Path) -> None:
    """Windows takes those beyond 260 characters in a form of their own alone, which Python may not be set to use."""
    folder = str(tmp_path)
    while len(folder) < 300:
        folder = os.path.join(folder, "a folder of a long name")
    prefix = "\\\\?\\" if os.name == "nt" else ""
    os.makedirs(prefix + folder)
    data = corpus.jpeg(20, 30)
    for path in (os.path.join(folder, "photo.jpg"), os.path.join(folder, "..", os.path.basename(folder), "photo.jpg")):
        with open(prefix + os.path.normpath(path), "wb") as file:
            file.write(data)
        files = core.Files()
        files.load([path, os.path.join(folder, "none.jpg")])
        assert core_jobs.was_read(files, 0)
        assert files.bytes(0) == data
        assert core_jobs.os_error(files, 1) == errno.ENOENT


@pytest.mark.parametrize("data", [b"", b"a", b"\0b\0", bytes(range(256)) * 100])
def test_address_of_bytes(data: bytes) -> None:
    address = address_of_bytes(data)
    assert ctypes.string_at(address, len(data) + 1) == data + b"\0"
    assert address == ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value


def test_names_that_no_file_has() -> None:
    assert c_string("a\0b") == c_string("\ud800") == b""
    assert c_string("ä.jpg") == os.fsencode("ä.jpg")
