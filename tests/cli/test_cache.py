"""`fastpipe cache`: what it shows, and that it removes what is fastpipe's and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import filelock
import pytest

import fastpipe
from fastpipe.cli import main


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["cache", *arguments])
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "0.jpg").write_bytes(b"")
    fastpipe.ImageFolder(tmp_path / "photos")
    cache = Path(os.environ["FASTPIPE_CACHE"])
    (cache / "listings" / "0123").mkdir(parents=True)
    for name in ("results.sqlite", "results.sqlite-wal", "lock"):
        (cache / "listings" / "0123" / name).write_text("")
    (cache / "mine.txt").write_text("not fastpipe's")
    return cache


def test_what_is_there_is_shown_and_stays(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{cache}\n")
    assert "indexes of folders: 1, " in printed
    assert "interrupted listings of stores: 1, " in printed
    assert run("--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["cleared"], found["left"]) == ("fastpipe-cache/1", False, [])
    assert {kind: one["count"] for kind, one in found["contents"].items()} == {
        "folders": 1,
        "lists": 0,
        "unpacked": 0,
        "listings": 1,
        "cluster": 0,
        "annotations": 0,
    }
    assert found["contents"]["folders"]["bytes"] > 0
    assert list((cache / "folders").iterdir())


def test_without_a_home_there_is_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("FASTPIPE_CACHE")
    monkeypatch.setattr("fastpipe.index.format.user_folder", lambda of: None)
    assert run("--clear") == 2
    error = capsys.readouterr().err
    assert "this user has no home folder. Set FASTPIPE_CACHE" in error
    assert len(error.splitlines()) <= 2


def test_clearing_removes_what_is_fastpipe_s(cache: Path, tmp_path: Path) -> None:
    assert run("--clear", "--quiet") == 0
    assert [path.name for path in cache.iterdir()] == ["mine.txt"]
    assert len(fastpipe.ImageFolder(tmp_path / "photos")) == 1  # made again


def test_what_is_in_use_stays(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with filelock.FileLock(cache / "listings" / "0123" / "lock"):
        assert run("--clear") == 1
        assert "0123: in use" in capsys.readouterr().out
        assert len([*(cache / "listings" / "0123").iterdir()]) == 3
    assert run("--clear") == 0
    assert not (cache / "listings").exists()


def test_an_empty_cache(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--clear") == 0
    assert "cleared" in capsys.readouterr().out


def test_a_cache_of_files_from_stores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe({f"/shown/cat/{number}.jpg": bytes(5000) for number in range(3)})
    kept = fastpipe.Cache(tmp_path / "kept", "1 MB")
    source = kept.over(fastpipe.RemoteSource("memory://shown"))
    files = [source.file(entry) for entry in source.list()]
    places = source.fetch(files)
    hold = kept.pin(files[:1])
    assert run(kept.folder) == 0
    printed = capsys.readouterr().out
    assert f"{kept.folder}\n  files: 3, 25 kB; held by running epochs: 1\n" in printed
    assert "asked for: 3, of which 0 were there; evicted: 0" in printed
    Path(places[1].container).write_bytes(bytes(4999) + b"1")
    assert run(kept.folder, "--check", "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["damaged"], found["files"]) == ("fastpipe-store-cache/1", 1, 2)
    assert run(kept.folder, "--clear") == 1
    assert "cleared but for 1 file of running epochs" in capsys.readouterr().out
    hold.release()
    assert run(kept.folder, "--clear", "--quiet") == 0
    assert kept.statistics().files == 0
    assert run(str(tmp_path)) == 1
    assert "is no cache of files from stores" in capsys.readouterr().err
    assert run("--check") == 2
