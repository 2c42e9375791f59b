"""A file is what it was, or all of what is new: whatever happens while it is written."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fastpipe
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


WRITERS = {
    "atomic_write.py": {"open"},
    "datasets/bad_files_log.py": {"open"},  # lines, one whole one after the other
    "packing/record.py": {"open"},  # the same
    "packing/containers.py": {"open"},  # a container under another name until it is complete
    "packing/target.py": {"open"},  # an archive under another name until it is complete
    "pillow/unread.py": {"save"},  # in memory
    "reporting/output.py": {"open", "write_bytes"},  # whether a file can be written; devices and pipes
    "tools/bench/samples.py": {"write_bytes"},  # made photos, for demo and tests
    "tools/check/examine.py": {"fdopen"},  # a pipe
}


def writing_calls(source: str) -> set[str]:
    """The names of the calls that write a file at once: ``open(…, "w")``, ``write_text`` and what else takes a path."""
    found = set()
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = [*call.args, *(word.value for word in call.keywords)]
        texts = [part.value for each in given for part in ast.walk(each) if isinstance(part, ast.Constant)]
        modes = [text for text in texts if isinstance(text, str) and re.fullmatch(r"[rwaxbt+]{1,3}", text)]
        target = ast.unparse(call.args[0]) if call.args else ""
        if (
            (name in {"open", "fdopen"} and any(set(mode) & set("wax+") for mode in modes))
            or (isinstance(call.func, ast.Attribute) and name in {"write_text", "write_bytes", "tofile"})
            or (name in {"save", "savefig"} and call.args and target != "out")  # out: bytes in memory
        ):
            found.add(name)
    return found


def test_nothing_else_writes_files() -> None:
    """A file for the user that `atomic_write` doesn't write is half a file where the disk is full."""
    for source in (
        "open(path, 'w')",
        "Path(p).write_text(t)",
        "figure.savefig(path)",
        "image.save(path)",
        "p.open('wb')",
    ):
        assert writing_calls(source), source
    package = Path(fastpipe.__file__).parent
    found = {
        path.relative_to(package).as_posix(): calls
        for path in package.rglob("*.py")
        if re.search(r"open\(|\.write_|\.tofile\(|\.save", source := path.read_text(encoding="utf-8"))
        and (calls := writing_calls(source))
    }
    assert found == WRITERS


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
