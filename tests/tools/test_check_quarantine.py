"""Moving bad files away and back: no file is ever overwritten or lost."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from pathlib import Path

import corpus
import numpy as np
import pytest

from fastpipe.errors import DatasetError
from fastpipe.tools.check import quarantine
from fastpipe.tools.check.findings import FileRow
from fastpipe.tools.check.quarantine import check_target, move_away, undo


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name in ("a/0.jpg", "a/sub/1.jpg", "b/2.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
        os.utime(folder / name, ns=(10**18, 10**18 + 123))
    return folder


def rows_of(root: Path, *, kind: str = "truncated") -> tuple[list[FileRow], dict[int, int]]:
    """A row for each file below a root, as a check would have them, and the files' times."""
    files = sorted(path for path in root.rglob("*") if path.is_symlink() or not path.is_dir())
    rows = [
        FileRow(number, str(path.relative_to(root)), (kind,), True, "why", "JPEG", 0, 0, path.stat().st_size)
        for number, path in enumerate(files)
    ]
    return rows, {number: path.stat().st_mtime_ns for number, path in enumerate(files)}


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("undo-")
    }


def move(root: Path, target: Path, **options: str) -> quarantine.Moved:
    rows, mtimes = rows_of(root, **options)
    return move_away(rows, os.path.join(root, ""), mtimes, check_target(target, str(root)))


@pytest.fixture(params=["one file system", "two file systems"])
def two_disks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Once as it is, once with renames refused between the data set and elsewhere, as between file systems."""
    if request.param == "two file systems":
        replace = os.replace

        def across(source: str, target: str) -> None:
            if ("root" in Path(source).parts) != ("root" in Path(target).parts):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            replace(source, target)

        monkeypatch.setattr(os, "replace", across)
    return request.param == "two file systems"


def test_there_and_back(root: Path, tmp_path: Path, two_disks: bool) -> None:
    before = content(root)
    moved = move(root, tmp_path / "bad")
    assert (moved.count, moved.left) == (3, ())
    assert content(root) == {}
    assert content(tmp_path / "bad") == before
    assert (tmp_path / "bad/a/0.jpg").stat().st_mtime_ns // 1000 == (10**18 + 123) // 1000
    assert moved.undo_list is not None
    back = undo(moved.undo_list)
    assert (back.count, back.left, back.undo_list) == (3, (), None)
    assert content(root) == before
    assert list((tmp_path / "bad").iterdir()) == []


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no second file system to move to")
def test_to_another_file_system_for_real(root: Path) -> None:
    shared = Path("/dev/shm")
    if os.stat(shared).st_dev == os.stat(root).st_dev:
        pytest.skip("no second file system to move to")
    target = shared / f"fastpipe-test-{os.getpid()}"
    before = content(root)
    try:
        moved = move(root, target)
        assert content(target) == before
        assert content(root) == {}
        assert moved.undo_list is not None
        undo(moved.undo_list)
        assert content(root) == before
    finally:
        shutil.rmtree(target, ignore_errors=True)


def test_nothing_is_overwritten(root: Path, tmp_path: Path, two_disks: bool) -> None:
    kept = tmp_path / "bad/a/0.jpg"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"mine")
    moved = move(root, tmp_path / "bad")
    assert content(tmp_path / "bad") == {
        "a/0.jpg": b"mine",
        "a/0~2.jpg": b"a/0.jpg",
        "a/sub/1.jpg": b"a/sub/1.jpg",
        "b/2.jpg": b"b/2.jpg",
    }
    (root / "b/2.jpg").write_bytes(b"a new one")
    assert moved.undo_list is not None
    back = undo(moved.undo_list)
    assert (back.count, len(back.left)) == (2, 1)
    assert "there is a file again" in back.left[0][1]
    assert content(root) == {"a/0.jpg": b"a/0.jpg", "a/sub/1.jpg": b"a/sub/1.jpg", "b/2.jpg": b"a new one"}
    assert content(tmp_path / "bad") == {"a/0.jpg": b"mine", "b/2.jpg": b"b/2.jpg"}
    (root / "b/2.jpg").unlink()
    assert undo(back.undo_list or "").count == 1
    assert content(tmp_path / "bad") == {"a/0.jpg": b"mine"}


def test_a_name_that_is_taken_meanwhile_is_left_alone(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_list = quarantine._write_list

    def then_somebody_comes(folder: Path, plan: list[tuple[str, str, FileRow]]) -> str:
        (folder / "a").mkdir()
        (folder / "a/0.jpg").write_bytes(b"theirs")
        return write_list(folder, plan)

    monkeypatch.setattr(quarantine, "_write_list", then_somebody_comes)
    moved = move(root, tmp_path / "bad")
    assert (moved.count, [Path(path).name for path, _ in moved.left]) == (2, ["0.jpg"])
    assert (tmp_path / "bad/a/0.jpg").read_bytes() == b"theirs"
    assert (root / "a/0.jpg").read_bytes() == b"a/0.jpg"


@pytest.mark.parametrize("broken", [0, 1, 2, 3])
def test_whatever_fails_the_list_brings_everything_back(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_disks: bool, broken: int
) -> None:
    """Killed at any of the calls that change the disk; undo, as often as it takes, restores the data set."""
    before = content(root)
    calls = 0

    def interrupting(patch: pytest.MonkeyPatch, name: str) -> None:
        plain = getattr(os, name)

        def call(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 2 + 3 * broken:
                raise KeyboardInterrupt
            return plain(*arguments, **options)

        patch.setattr(os, name, call)

    with monkeypatch.context() as patch:
        for name in ("replace", "unlink", "makedirs"):
            interrupting(patch, name)
        with contextlib.suppress(KeyboardInterrupt):
            move(root, tmp_path / "bad")
    found = {**content(tmp_path / "bad"), **content(root)}
    assert before.items() <= found.items()  # none is lost, wherever it is now
    (undo_list,) = (tmp_path / "bad").glob("undo-*.jsonl")
    undo(undo_list)
    assert content(root) == before


def test_files_that_changed_vanished_or_can_t_be_reached_stay(root: Path, tmp_path: Path) -> None:
    rows, mtimes = rows_of(root)
    (root / "a/0.jpg").write_bytes(corpus.jpeg(8, 8))
    (root / "a/sub/1.jpg").unlink()
    os.utime(root / "b/2.jpg", ns=(1, 1))
    moved = move_away(rows, os.path.join(root, ""), mtimes, check_target(tmp_path / "bad", str(root)))
    assert (moved.count, moved.undo_list) == (0, None)
    assert [reason.partition(":")[0] for _, reason in moved.left] == [
        "has changed since it was checked",
        "can't be reached (No such file or directory)",
        "has changed since it was checked",
    ]
    assert move(root, tmp_path / "bad", kind="unreachable").count == 0
    assert content(tmp_path / "bad") == {}


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_a_link_moves_itself(root: Path, tmp_path: Path, two_disks: bool) -> None:
    outside = tmp_path / "outside.jpg"
    outside.write_bytes(b"not to be moved")
    link = root / "a/link.jpg"
    link.symlink_to(outside)
    move(root, tmp_path / "bad")
    assert os.readlink(tmp_path / "bad/a/link.jpg") == str(outside)
    assert not os.path.lexists(link)
    assert outside.read_bytes() == b"not to be moved"


def test_paths_of_lists_stay_below_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere/0.jpg"
    outside.parent.mkdir()
    outside.write_bytes(b"0")
    row = FileRow(0, str(outside), ("truncated",), True, "", "JPEG", 0, 0, 1)
    other = FileRow(1, os.path.join("x", "..", "..", "elsewhere", "0.jpg"), ("truncated",), True, "", "JPEG", 0, 0, 1)
    mtimes = {0: outside.stat().st_mtime_ns, 1: outside.stat().st_mtime_ns}
    moved = move_away([row, row], "", mtimes, check_target(tmp_path / "bad", ""))
    assert (moved.count, moved.left) == (1, ())  # named twice, moved once
    (found,) = content(tmp_path / "bad")
    assert found.endswith("elsewhere/0.jpg")
    undo(moved.undo_list or "")
    move_away([other], os.path.join(tmp_path, "y", ""), mtimes, check_target(tmp_path / "bad", ""))
    assert list(content(tmp_path / "bad")) == ["x/elsewhere/0.jpg"]


def test_not_into_the_data_set(root: Path, tmp_path: Path) -> None:
    for inside in (root, root / "bad", root / "a", root / "x" / ".." / "bad"):
        with pytest.raises(DatasetError, match="taken for a class"):
            check_target(inside, str(root))
    assert not (root / "bad").exists()
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match="can't be moved to"):
        check_target(tmp_path / "file" / "bad", str(root))


def test_what_is_no_undo_list(tmp_path: Path) -> None:
    for text in ("", "x", "{}", '{"format": "other"}', '{"format": "fastpipe check moves"}\n{"from": 1}'):
        (tmp_path / "list.jsonl").write_text(text)
        with pytest.raises(DatasetError, match="is no undo list"):
            undo(tmp_path / "list.jsonl")
    with pytest.raises(DatasetError, match="can't be read"):
        undo(tmp_path / "nowhere.jsonl")


def test_an_undo_list_that_can_t_be_written_moves_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    before = content(root)
    with pytest.raises(DatasetError, match="nothing is moved"):
        move(root, tmp_path / "bad")
    assert content(root) == before
    assert list((tmp_path / "bad").iterdir()) == []


def test_lists_don_t_replace_each_other(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.strftime", lambda _: "undo-now")
    lists = []
    for number in range(3):
        (root / f"a/new{number}.jpg").write_bytes(np.uint8(number).tobytes())
        lists.append(move(root, tmp_path / "bad").undo_list)
    assert [Path(name or "").name for name in lists] == ["undo-now.jsonl", "undo-now~2.jsonl", "undo-now~3.jsonl"]
    lines = Path(lists[1] or "").read_text().splitlines()
    assert json.loads(lines[1])["why"] == "truncated"
