"""`pack` and `unpack` refuse sources and targets that can't be, and stop at errors without losing what is done."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import archives
import corpus
import pytest
from comparison import assert_same, contents

import fastpipe
from fastpipe.errors import ConfigError, DatasetError
from fastpipe.packing import pack, pack_run, unpack

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")


def test_a_store_that_fails(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec", reason="stores take fsspec: pip install fsspec")
    system = fsspec.filesystem("memory")
    system.put(str(folder), "/packing/train", recursive=True)
    try:
        pack("memory://packing/train", tmp_path / "whole.zip")
        assert_same(fastpipe.ImageFolder(tmp_path / "whole.zip"), fastpipe.ImageFolder(folder))
        monkeypatch.setattr("fastpipe.packing.work.FILES", 2)
        monkeypatch.setattr(pack_run, "FILES", 2)
        asked: list[str] = []
        read = fastpipe.RemoteSource.read_file

        def failing(self: Any, file: Any) -> bytes:
            asked.append(file)
            if len(asked) == 6:
                raise OSError(5, "the store is gone", str(file))
            return read(self, file)

        monkeypatch.setattr(fastpipe.RemoteSource, "read_file", failing)
        with pytest.raises(DatasetError, match=r"the store is gone.*the same command continues"):
            pack("memory://packing/train", tmp_path / "cut.zip", jobs=1)
        result = pack("memory://packing/train", tmp_path / "cut.zip", jobs=1)
        assert 0 < result.resumed < 14
        assert (tmp_path / "cut.zip").read_bytes() == (tmp_path / "whole.zip").read_bytes()
    finally:
        system.rm("/packing", recursive=True)


def test_a_source_file_that_cannot_be_read_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "dog" / "lost.jpg").symlink_to("nowhere.jpg")
    with pytest.raises(DatasetError, match=r"lost\.jpg can't be read: .*No such file.*the same command continues"):
        pack(folder, tmp_path / "out.zip", jobs=1)
    (folder / "dog" / "lost.jpg").unlink()
    assert pack(folder, tmp_path / "out.zip").files == 14
    archives.shards(folder, tmp_path / "in", 2)
    (tmp_path / "in" / "no.tar").mkdir()
    with pytest.raises(DatasetError, match=r"\*\.tar can't be read: .*no\.tar"):
        pack(tmp_path / "in" / "*.tar", tmp_path / "shards")


def test_other_shards_than_it_was_begun_with_are_told_in_words(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out-{000..}.tar"
    pack(folder, target, shard_size=2_000_000)
    with pytest.raises(
        DatasetError, match=r"was begun with shards of 2\.0 MB, not with shards of 1\.0 kB: give the same"
    ):
        pack(folder, target, shard_size=1000)
    with pytest.raises(DatasetError, match=r"of 2\.0 MB, not with shards of 3\.0 kB or 5 samples: give"):
        pack(folder, target, shard_size=3000, shard_samples=5)


@pytest.mark.parametrize("name", ["train", "train/cat/new", "train/out.zip", "train/{0..}.tar", "link/out"])
def test_a_target_in_its_source_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(folder)
    before = contents(folder)
    with pytest.raises(DatasetError, match=r"lies in the source|is there already"):
        pack(folder, tmp_path / name)
    assert contents(folder) == before


def test_a_target_among_its_shards_is_refused(folder: Path, tmp_path: Path) -> None:
    archives.shards(folder, tmp_path / "in", 2)
    for name in ("in", "in/{000..}.tar", "in/all.tar", "in/new-{0..}.tar"):
        with pytest.raises(DatasetError, match=r"lies in the source|would be one of|is there already"):
            pack(tmp_path / "in" / "*.tar", tmp_path / name)
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["000.tar", "001.tar"]


def test_targets_that_cannot_be(folder: Path, tmp_path: Path) -> None:
    for name, said in (
        ("s3://bucket/out", "a target is written on a disk"),
        (tmp_path / "out.tar.gz", "a target is a folder"),
        (tmp_path / "out-*.tar", "the number that the first one gets"),
        (tmp_path / "{0..}", "end in .tar or .zip"),
    ):
        with pytest.raises(DatasetError, match=said):
            pack(folder, name)
    (tmp_path / "there.zip").write_bytes(b"mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_bytes(b"mine")
    for name in ("there.zip", "full"):
        with pytest.raises(DatasetError, match="is there already"):
            pack(folder, tmp_path / name)
    assert (tmp_path / "there.zip").read_bytes() == b"mine"


def test_another_source_or_other_options_are_an_error(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "out")
    with pytest.raises(DatasetError, match=r"begun with the source .*train, not with the source .*train/cat:"):
        pack(folder / "cat", tmp_path / "out")
    with pytest.raises(DatasetError, match="begun by fastpipe pack, not by fastpipe unpack"):
        unpack(folder, tmp_path / "out")
    pack(folder, tmp_path / "{0..}.tar", shard_samples=5)
    with pytest.raises(DatasetError, match="begun with shards"):
        pack(folder, tmp_path / "{0..}.tar", shard_samples=6)


def test_changed_and_missing_files_are_errors(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "out")
    file = folder / "cat" / "3.jpg"
    os.utime(file, ns=(1, 1))
    assert pack(folder, tmp_path / "out").resumed == 14  # the same bytes at another time
    data = file.read_bytes()
    file.write_bytes(corpus.jpeg(30, 31))
    with pytest.raises(DatasetError, match=r"3\.jpg has changed since it came to"):
        pack(folder, tmp_path / "out")
    file.write_bytes(data)
    (tmp_path / "out" / "cat" / "3.fpj").unlink()
    with pytest.raises(DatasetError, match=r"3\.fpj is gone"):
        pack(folder, tmp_path / "out")
    pack(folder, tmp_path / "out.zip")
    (tmp_path / "out.zip").unlink()
    with pytest.raises(DatasetError, match=r"out\.zip is gone"):
        pack(folder, tmp_path / "out.zip")


def test_two_at_once_are_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[BaseException] = []
    take = pack_run.PackRun._take

    def other(self: Any, *arguments: Any) -> None:
        if not said:
            with pytest.raises(DatasetError, match="another process is writing") as caught:
                pack(folder, tmp_path / "out.tar")
            said.append(caught.value)
        take(self, *arguments)

    monkeypatch.setattr(pack_run.PackRun, "_take", other)
    assert pack(folder, tmp_path / "out.tar").files == 14
    assert said


@pytest.mark.parametrize("name", ["out", "out.zip"])
def test_what_is_not_read_back_is_an_error(
    folder: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastpipe.packing import target

    compare = target._compare

    def damaged(read: Any, data: bytes, path: str) -> None:
        compare(lambda count: bytes(read(count))[:-1] + b"?", data, path)

    monkeypatch.setattr(target, "_compare", damaged)
    with pytest.raises(DatasetError, match="the bytes read back aren't those written"):
        pack(folder, tmp_path / name)
    monkeypatch.undo()
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "cache"))
    pack(folder, tmp_path / name)
    assert_same(fastpipe.ImageFolder(tmp_path / name), fastpipe.ImageFolder(folder))


def test_names_that_lead_out_are_refused(tmp_path: Path) -> None:
    shard = archives.shard(tmp_path / "in.tar", {"../out.jpg": corpus.jpeg(8, 8), "../out.cls": b"1"})
    with pytest.raises(DatasetError, match="outside of the target"):
        pack(str(shard), tmp_path / "to.tar")


@pytest.mark.parametrize("name", ["to.tar", "to.zip", "to-{000..}.tar", "to", "new/below/to.tar", "new/to"])
def test_a_run_that_is_refused_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    shard = archives.shard(tmp_path / "in.tar", {"../out.jpg": corpus.jpeg(8, 8), "../out.cls": b"1"})
    out = tmp_path / "out"
    out.mkdir()
    for _ in range(2):
        with pytest.raises(DatasetError, match="outside of the target"):
            pack(str(shard), out / name)
        assert list(out.iterdir()) == []


@pytest.mark.parametrize("name", ["to.tar", "to"])
def test_a_run_that_is_refused_leaves_the_record_of_another(folder: Path, tmp_path: Path, name: str) -> None:
    pack(folder, tmp_path / name)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*fastpipe-pack.jsonl")}
    assert len(before) == 1
    shard = archives.shard(tmp_path / "in.tar", {"../out.jpg": corpus.jpeg(8, 8), "../out.cls": b"1"})
    with pytest.raises(DatasetError, match="begun"):
        pack(str(shard), tmp_path / name)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*fastpipe-pack.jsonl")} == before


def test_arguments(folder: Path, tmp_path: Path) -> None:
    for options, said in (
        ({"jobs": 0}, "jobs=0"),
        ({"shard_samples": 0}, "shard_samples=0"),
        ({"shard_size": "many"}, "shard_size='many'"),
        ({"image": "image"}, "columns of Parquet files"),
        ({"jobs": 1, "scheduler": "tcp://127.0.0.1:1"}, "jobs are threads of this machine"),
    ):
        with pytest.raises(ConfigError, match=said):
            pack(folder, tmp_path / "out", **options)  # type: ignore[arg-type]
    with pytest.raises(DatasetError, match="a int can't be packed"):
        pack(7, tmp_path / "out")
    assert not (tmp_path / "out").exists()
