"""A file is what it was, or all of what is new: whatever happens while it is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fastpipe.atomic_write import atomic_write

KILLED = """
import os, signal, sys
from fastpipe.atomic_write import atomic_write
with atomic_write(sys.argv[1]) as stream:
    stream.write(b"half of what is ")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_file_takes_its_place_when_the_block_ends(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for content in (b"first", b"second"):
        before = file.read_bytes() if file.exists() else None
        with atomic_write(file) as stream:
            stream.write(content)
            assert (file.read_bytes() if file.exists() else None) == before
        assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


def write_half(file: Path) -> None:
    with atomic_write(file) as stream:
        stream.write(b"new")
        raise ZeroDivisionError


def test_an_error_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        write_half(file)
    assert file.read_bytes() == b"old"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"), atomic_write(file) as stream:
        stream.write(b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_kill_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(file)], timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert file.read_bytes() == b"old"


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps other permissions")
def test_permissions_stay_where_they_are_to(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o640)
    with atomic_write(file, keeps_mode=True) as stream:
        stream.write(b"new")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o640)
