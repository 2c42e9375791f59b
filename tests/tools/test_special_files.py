"""Commands on what is no regular file: an error that says what it is or, in a folder, a bad file; none waits."""

from __future__ import annotations

import sys
from pathlib import Path

import corpus
import pytest
from click.testing import CliRunner
from special_files import SPECIAL, needs_special_files

from fastpipe.cli.app import app
from fastpipe.errors import FastpipeError
from fastpipe.tools.doctor import disk, examine

pytestmark = needs_special_files

OPTIONS = {
    "bench": ["--rounds", "1", "--workers", "0", "--readers", "pil"],
    "check": ["--jobs", "1"],
    "doctor": ["--seconds", "0.2", "--batch-size", "4"],
    "explain": [],
    "index": [],
    "pack": ["TARGET"],
    "preview": ["--out", "TARGET.png"],
    "unpack": ["TARGET"],
    "verify": ["--images", "99", "--drawings", "1"],
}
STOP = {"pack", "unpack"}  # a file that can't be read stops these, and is named
SAID = {
    "device": "a character device",
    "fifo": "a FIFO (named pipe)",
    "socket": "a socket",
    "folder": "no image",
    "dangling": "there is no",
    "loop": "Too many levels of symbolic links|there is no",
}


def outcome(command: str, path: Path, folder: Path) -> tuple[int, str]:
    """Exit status and all words of a command, which ends with one of fastpipe's errors if it fails."""
    options = [one.replace("TARGET", str(folder / "target")) for one in OPTIONS[command]]
    result = CliRunner().invoke(app, [command, str(path), *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        assert isinstance(result.exception, FastpipeError), result.exception
        return 1, str(result.exception)
    return result.exit_code, result.output


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("command", OPTIONS)
def test_by_its_name(command: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / f"{kind}.jpg"
    SPECIAL[kind](path)
    status, said = outcome(command, path, tmp_path)
    assert status == 1
    assert str(path) in said
    if command == "index":
        assert "is not a folder" in said or "class folder" in said
    else:
        assert any(words in said for words in SAID[kind].split("|")), said


@pytest.mark.skipif(sys.platform != "linux", reason="forks workers; spawned ones start slowly")
@pytest.mark.parametrize("command", OPTIONS)
def test_among_the_images_of_a_folder(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(examine, "usable_cpus", lambda: 1)
    root = tmp_path / "root"
    (root / "class").mkdir(parents=True)
    for number in range(9):
        (root / "class" / f"{number}.jpg").write_bytes(corpus.jpeg(60, 80, seed=number))
    for kind, make in SPECIAL.items():
        make(root / "class" / f"{kind}.jpg")
    status, said = outcome(command, root, tmp_path)
    assert status == (1 if command in {*STOP, "check", "doctor"} else 0), said
    if command in STOP:
        assert "can't be read" in said
        assert "class/dangling.jpg" in said
    elif command == "check":
        assert all(f"{kind}.jpg" in said for kind in SPECIAL if kind != "folder")
    elif command == "doctor":
        assert "samples that can't be made" in said
        assert "5 of 14 sampled" in said
    elif command == "index":
        assert "14 files in 1 class of" in said


def test_the_disk_is_measured_without_waiting(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{kind}.jpg") for kind in SPECIAL]
    for kind, make in SPECIAL.items():
        make(tmp_path / f"{kind}.jpg")
    assert [disk.is_resident(path) for path in paths] == [None] * len(paths)
    assert disk.measure_disk(paths, len(paths), 0.1).cold_per_s is None
