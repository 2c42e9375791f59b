"""`pack(…, keep_names=True)`: the target has the source's files, members and rows, with packed bytes for JPEGs'."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import corpus
import hugging_face_here
import numpy as np
import pytest
from PIL import Image

import fastpipe
from fastpipe.core.packed import is_packed
from fastpipe.core.packed import unpack as restored
from fastpipe.errors import ConfigError, DatasetError
from fastpipe.packing import pack, unpack
from fastpipe.packing.conversions import Packing
from fastpipe.packing.whole import NO_FILE, WholeTarget
from fastpipe.paths import shell_quoted

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")


def _jpegs(count: int = 5) -> list[bytes]:
    return [corpus.jpeg(20 + number, 31, ("420", "444", "gray")[number % 3], number) for number in range(count)]


@pytest.fixture
def whole(folder: Path) -> Path:
    """A data set's folder with all that may lie in one."""
    (folder / "labels.csv").write_text("cat/0.jpg,1\n")
    (folder / ".hidden").write_bytes(b"\0\1")
    (folder / "README.md").write_text("photos")
    (folder / "cat" / "no_ending").write_bytes(_jpegs(1)[0])
    (folder / "empty" / "below").mkdir(parents=True)
    _write_tar(folder / "shards" / "000.tar")
    _write_zip(folder / "masks.zip")
    (folder / "no.zip").write_bytes(b"no zip")
    with tarfile.open(folder / "shards" / "compressed.tar", "w:gz") as archive:
        archive.add(folder / "README.md", "a")
    return folder


def _write_tar(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for number, data in enumerate(_jpegs()):
            for name, content in ((f"{number:06d}.jpg", data), (f"{number:06d}.cls", b"7")):
                member = tarfile.TarInfo(name)
                member.size, member.mtime, member.mode = len(content), 1_600_000_000 + number, 0o640
                archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "000000.jpg"
        archive.addfile(link)


def _write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = b"of a friend"
        archive.writestr("c/", b"")
        for number, data in enumerate(_jpegs()):
            archive.writestr(f"c/{number}.jpg", data)
        archive.writestr("c/about.json", b"{}" * 50, compress_type=zipfile.ZIP_DEFLATED)


def _tar(path: Path) -> list[Any]:
    with tarfile.open(path, "r:") as archive:
        files = [(one, archive.extractfile(one) if one.isreg() else None) for one in archive]
        return [
            ((one.name, one.mtime, one.mode, one.type, one.linkname), file.read() if file else b"")
            for one, file in files
        ]


def _zip(path: Path) -> list[Any]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return [
            ((one.filename, one.date_time, one.compress_type, archive.comment), archive.read(one))
            for one in archive.infolist()
        ]


def _all(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _assert_stands_in(packed: bytes, original: bytes) -> None:
    assert (restored(packed) if is_packed(packed) else packed) == original
    assert is_packed(packed) == (
        original.startswith(b"\xff\xd8\xff") and Image.open(io.BytesIO(original)).mode != "CMYK"
    )


def test_a_folder_stands_in_for_its_source(whole: Path, tmp_path: Path) -> None:
    before, target = _all(whole), tmp_path / "to" / "packed"
    result = pack(whole, target, keep_names=True, progress=False)
    assert _all(whole) == before
    after = _all(target)
    assert after.keys() == before.keys()
    assert (target / "empty" / "below").is_dir()
    for name, data in after.items():
        if name.endswith(("000.tar", "masks.zip")):
            listed = _tar if name.endswith("tar") else _zip
            for (about, packed), (expected, original) in zip(listed(target / name), listed(whole / name), strict=True):
                assert about == expected
                _assert_stands_in(packed, original)
        else:
            _assert_stands_in(data, before[name])
            assert (target / name).stat().st_mtime_ns == (whole / name).stat().st_mtime_ns
    assert result.files == result.same_bytes
    assert result.converted == sum(map(is_packed, after.values())) + 10
    assert sorted(path.name for path in target.parent.iterdir()) == [
        *("packed", "packed.README.txt", "packed.fastpipe-pack.jsonl")
    ]
    said = (tmp_path / "to" / "packed.README.txt").read_text()
    assert f"fastpipe unpack {shell_quoted(str(target))} FOLDER --keep-names" in said


@pytest.mark.parametrize("with_record", [True, False])
def test_unpack_gives_back_all_files(whole: Path, tmp_path: Path, with_record: bool) -> None:
    pack(whole, tmp_path / "packed", keep_names=True, progress=False)
    if not with_record:
        os.unlink(WholeTarget(str(tmp_path / "packed"), "folder", "").record)
    unpack(tmp_path / "packed", tmp_path / "back", keep_names=None if with_record else True, progress=False)
    before, back = _all(whole), _all(tmp_path / "back")
    assert back.keys() == before.keys()
    for name, data in before.items():
        if name.endswith(("000.tar", "masks.zip")):
            listed = _tar if name.endswith("tar") else _zip
            assert listed(tmp_path / "back" / name) == listed(whole / name)
        else:
            assert back[name] == data


def test_continuing(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(whole, tmp_path / "undisturbed", keep_names=True, progress=False)
    calls = []

    def stop(self: Any, *given: Any) -> Any:
        calls.append(given)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return convert(self, *given)

    convert = Packing.convert
    monkeypatch.setattr(Packing, "convert", stop)
    with pytest.raises(KeyboardInterrupt):
        pack(whole, tmp_path / "packed", keep_names=True, jobs=1, progress=False)
    monkeypatch.setattr(Packing, "convert", convert)
    assert not list((tmp_path / "packed").rglob("*.part"))
    pack(whole, tmp_path / "packed", keep_names=True, progress=False)
    assert _all(tmp_path / "packed") == _all(tmp_path / "undisturbed")
    (whole / "cat" / "new.jpg").write_bytes(_jpegs()[4])
    again = pack(whole, tmp_path / "packed", keep_names=True, progress=False)
    assert again.files - again.resumed == 1
    assert is_packed((tmp_path / "packed" / "cat" / "new.jpg").read_bytes())
    with pytest.raises(DatasetError, match="continue it with --keep-names"):
        pack(whole, tmp_path / "packed", progress=False)


@pytest.mark.parametrize("ending", ["tar", "zip"])
def test_one_archive(tmp_path: Path, ending: str) -> None:
    write, listed = (_write_tar, _tar) if ending == "tar" else (_write_zip, _zip)
    write(tmp_path / f"a.{ending}")
    pack(tmp_path / f"a.{ending}", tmp_path / f"b.{ending}", keep_names=True, progress=False)
    for (about, packed), (expected, original) in zip(
        listed(tmp_path / f"b.{ending}"), listed(tmp_path / f"a.{ending}"), strict=True
    ):
        assert about == expected
        _assert_stands_in(packed, original)
    unpack(tmp_path / f"b.{ending}", tmp_path / f"c.{ending}", progress=False)
    assert listed(tmp_path / f"c.{ending}") == listed(tmp_path / f"a.{ending}")


def _parquet_options(file: Any) -> Any:
    about = file.metadata
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    columns = [[group.column(number) for number in range(about.num_columns)] for group in groups]
    return (
        about.metadata,
        [group.num_rows for group in groups],
        [[(one.path_in_schema, one.compression, one.is_stats_set) for one in group] for group in columns],
    )


@pytest.mark.parametrize("kind", ["hugging face", "pyarrow"])
def test_parquet(tmp_path: Path, kind: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    jpegs = [*_jpegs(), corpus.save(corpus.photo(9, 9), "PNG")]
    source, target, back = (tmp_path / name for name in ("data/train.parquet", "packed/train.parquet", "back"))
    source.parent.mkdir()
    if kind == "hugging face":
        datasets = hugging_face_here.datasets()
        rows = [
            {
                "image": {"bytes": data, "path": f"{number}.jpg"},
                "label": number % 2,
                "more": [{"bytes": data}] * (number % 3),
            }
            for number, data in enumerate(jpegs)
        ]
        image, label = datasets.Image(), datasets.ClassLabel(names=["a", "b"])
        features = datasets.Features({"image": image, "label": label, "more": datasets.List(image)})
        datasets.Dataset.from_list(rows, features=features).to_parquet(source, batch_size=4)
    else:
        columns = {
            "jpg": pyarrow.array([*jpegs, None], pyarrow.large_binary()),
            "lists": pyarrow.array([*([one, None, one] for one in jpegs), None], pyarrow.list_(pyarrow.binary())),
            "structs": pyarrow.array([*({"bytes": one, "n": 1} for one in jpegs), None]),
            "text": ["a"] * 7,
            "raw": [b"\0\1"] * 7,
        }
        table = pyarrow.table(columns).replace_schema_metadata({"own": "metadata"})
        compression = {"jpg": "none", "text": "zstd", "raw": "gzip"}
        parquet.write_table(table, source, row_group_size=3, compression=compression, use_dictionary=["text"])
    result = pack(source.parent, target.parent, keep_names=True, progress=False)
    one, other = parquet.ParquetFile(source), parquet.ParquetFile(target)
    assert one.schema_arrow.equals(other.schema_arrow, check_metadata=True)
    assert _parquet_options(one) == _parquet_options(other)
    assert (result.files, result.converted) == ((12, 9) if kind == "hugging face" else (31, 20))
    unpack(target.parent, back, progress=False)
    assert parquet.ParquetFile(back / "train.parquet").read().equals(one.read())
    for name in one.schema_arrow.names:
        for mine, theirs in zip(other.read()[name].to_pylist(), one.read()[name].to_pylist(), strict=True):
            _assert_same_value(mine, theirs)
    if kind == "hugging face":
        with fastpipe.install():
            packed, plain = (
                datasets.Dataset.from_parquet(str(path), cache_dir=str(tmp_path / path.parent.name))
                for path in (target, source)
            )
            for row, expected in zip(packed, plain, strict=True):
                assert row["label"] == expected["label"]
                np.testing.assert_array_equal(row["image"], expected["image"])


def _assert_same_value(one: Any, other: Any) -> None:
    if isinstance(other, bytes):
        _assert_stands_in(one, other) if len(other) > 2 else None
    elif isinstance(other, list):
        for mine, theirs in zip(one, other, strict=True):
            _assert_same_value(mine, theirs)
    elif isinstance(other, dict):
        _assert_same_value([*one.values()], [*other.values()])
    else:
        assert one == other


def test_what_is_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_side"):
        pack(whole, tmp_path / "a", keep_names=True, max_side=9)
    with pytest.raises(DatasetError, match="kind"):
        pack(whole, tmp_path / "a.zip", keep_names=True)
    with pytest.raises(ConfigError, match="give one of these"):
        pack(whole / "labels.csv", tmp_path / "a", keep_names=True)
    with pytest.raises(ConfigError, match="on this machine"):
        pack("s3://bucket/a", tmp_path / "a", keep_names=True)
    with pytest.raises(DatasetError, match="give the paths of a folder"):
        pack(tmp_path / "nowhere", tmp_path / "a", keep_names=True)
    with pytest.raises(DatasetError, match="never changed"):
        pack(whole, whole / "a", keep_names=True)
    assert not (tmp_path / "a").exists()


def test_links_are_followed_once(whole: Path, tmp_path: Path) -> None:
    (whole / "again").symlink_to(whole / "cat")
    (whole / "cat" / "above").symlink_to(whole)
    (whole / "nowhere").symlink_to(whole / "gone")
    result = pack(whole, tmp_path / "packed", keep_names=True, progress=False)
    assert result.left_out == {NO_FILE: 1}
    assert "not copied: 1 that is neither a file nor a folder, such as a link to nothing" in " ".join(
        str(result).split()
    )
    assert is_packed((tmp_path / "packed" / "again" / "0.jpg").read_bytes())
    assert not (tmp_path / "packed" / "cat" / "above").exists()
