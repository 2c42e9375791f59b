"""A cache is one machine's: another one is refused, and takes nothing away."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fastpipe.errors import DatasetError
from fastpipe.sources import Cache, _cache_folder
from fastpipe.sources._cache_folder import MARK

pytestmark = pytest.mark.skipif(not _cache_folder._boot(), reason="the system has no id of its boot")

_USER = "import sys, fastpipe; fastpipe.Cache(sys.argv[1], '1 MB'); print('open', flush=True); sys.stdin.read()"


def _files(folder: Path) -> set[str]:
    names = {os.path.join(at, name) for at, _, files in os.walk(folder) for name in files}
    return {name for name in names if "manifest.sqlite-" not in name}


def _as_other_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cache_folder, "_boot", lambda: "another boot")
    monkeypatch.setattr(_cache_folder, "_machine", lambda: "another machine")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_a_folder_in_use_elsewhere_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _USER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"open\n"
        Cache(folder)  # another process of the same machine
        (folder / "files" / "ab").mkdir()
        (folder / "files" / "ab" / ("ab" * 16)).write_bytes(b"being written")
        before = _files(folder)
        _as_other_machine(monkeypatch)
        with pytest.raises(DatasetError, match=r"cache of another machine.*folder of its own"):
            Cache(folder)
        monkeypatch.setattr(_cache_folder, "_machine", lambda: "")  # one that can't tell machines apart
        with pytest.raises(DatasetError, match="cache of another machine"):
            Cache(folder)
        assert _files(folder) == before
        user.communicate()


def test_without_locks_the_mark_s_time_tells(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cache(folder)
    monkeypatch.setattr(_cache_folder, "is_alive", lambda *_, unknown=True: unknown)
    _as_other_machine(monkeypatch)
    with pytest.raises(DatasetError, match="last 5 minutes"):
        Cache(folder)
    then = time.time() - 400
    os.utime(folder / MARK, (then, then))
    Cache(folder)  # a disk that was moved
    assert (folder / MARK).read_text() == "another boot\nanother machine"


def test_a_use_renews_the_mark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(folder)
    then = time.time() - 400
    os.utime(folder / MARK, (then, then))
    monkeypatch.setattr(_cache_folder, "_MARKED_EVERY_S", -1.0)
    cache._opened().flush()
    assert (folder / MARK).stat().st_mtime > then + 300


@pytest.mark.parametrize("mark", ["old boot", "old boot\n{machine}"])
def test_a_restart_of_this_machine_is_none_of_another(folder: Path, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    """Also of a version that wrote no name of the machine."""
    subprocess.run(
        [sys.executable, "-c", _USER, str(folder)], stdin=subprocess.DEVNULL, check=True, capture_output=True
    )
    (folder / MARK).write_text(mark.format(machine=_cache_folder._machine()))
    Cache(folder)
    assert (folder / MARK).read_text().startswith(_cache_folder._boot())
