"""`pack` and `unpack`: every source and target gives the same classes, targets, order, names and pixels."""

from __future__ import annotations

import csv
import io
import json
import os
import tarfile
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import archives
import corpus
import pytest
from comparison import assert_same, contents
from PIL import Image

import fastpipe
from fastpipe import readers
from fastpipe.core import packed as format
from fastpipe.errors import ConfigError, DatasetError
from fastpipe.packing import conversions, pack, pack_run, record, unpack

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

KEPT = {"it is PNG, no JPEG": 2}


def opened(target: Path | str) -> Any:
    """A target of class folders, as its data set."""
    if "{" in str(target):
        return fastpipe.ImageShards(str(target).replace("{000..}", "*"))
    return fastpipe.ImageFolder(target)


@pytest.mark.parametrize("name", ["out", "out.zip", "out.tar", "shards/s-{000..}.tar", "s-{000..}.zip"])
def test_class_folders_to_every_target_and_back(folder: Path, tmp_path: Path, name: str) -> None:
    before = contents(folder)
    given = fastpipe.ImageFolder(folder)
    result = pack(folder, tmp_path / "to" / name, shard_samples=5)
    target = opened(tmp_path / "to" / name)
    assert_same(target, given)
    packed = [str(path).endswith(".fpj") for path, _ in target.samples]
    assert result.files == len(given) == 14
    assert sum(packed) == result.converted == 11
    assert {reason: count for reason, count in result.kept.items() if "PNG" in reason} == KEPT
    assert sum(result.kept.values()) == 3
    assert result.bytes_before == sum(path.stat().st_size for path in folder.rglob("*.*"))
    assert result.resumed == 0
    again = pack(folder, tmp_path / "to" / name, shard_samples=5)
    assert (again.files, again.resumed, again.converted, again.kept) == (14, 14, 11, result.kept)
    back = unpack(str(tmp_path / "to" / name).replace("{000..}", "*"), tmp_path / "back")
    assert back.converted == 11
    if "{" in name:
        assert_same(fastpipe.ImageShards(tmp_path / "back" / f"*{name[-4:]}"), given)
    else:
        assert_same(fastpipe.ImageFolder(tmp_path / "back"), given)
        found = {name.removeprefix("back/"): data for name, data in contents(tmp_path / "back").items()}
        assert found == {name.removeprefix("train/"): data for name, data in before.items()}
    assert (result.same_bytes, result.same_pixels, result.made_smaller) == (14, 0, 0)
    assert (back.same_bytes, back.same_pixels, back.made_smaller) == (back.files, 0, 0)
    assert contents(folder) == before


def test_coefficients_and_segments_come_back(folder: Path, tmp_path: Path) -> None:
    data = corpus.with_segment(corpus.jpeg(20, 30), 0xE1, corpus.exif(6))
    data = corpus.with_segment(data, 0xFE, b"a comment")
    (folder / "cat" / "0.jpg").write_bytes(data)
    result = pack(folder, tmp_path / "out", discard_original_bytes=True)
    assert "11 the pixels, without the original bytes" in " ".join(str(result).split())
    assert "byte for byte" not in str(result)
    for one in (result, unpack(tmp_path / "out", tmp_path / "back")):
        assert (one.same_bytes, one.same_pixels, one.made_smaller) == (3, 11, 0)
        assert (one.about()["same_bytes"], one.about()["same_pixels"]) == (3, 11)
    assert (tmp_path / "back" / "dog" / "progressive.jpg").exists()  # progressive.jpeg, whose ending went, too
    back = (tmp_path / "back" / "cat" / "0.jpg").read_bytes()
    assert format.same_coefficients(back, format.pack(data))
    with Image.open(io.BytesIO(back)) as one, Image.open(io.BytesIO(data)) as other:
        assert one.info["exif"] == other.info["exif"]
        assert one.info["comment"] == b"a comment"


ENDINGS = ["n01440764_tench.JPEG", "b.jpeg", "c.JPG", "d.png", "e.webp", "f.PNG"]
TIMES = [1_234_567_890_123_456_789, 1_600_000_000_000_000_001, 3, 1 << 60, 10**18, 5 * 10**17 + 1]


def times_of(place: Path) -> dict[str, int]:
    """The times of a target's files, in ns, by their names without an ending."""
    return {path.stem: path.stat().st_mtime_ns for path in place.rglob("*.*") if "fastpipe-pack" not in path.name}


@pytest.mark.parametrize("name", ["out", "out.zip", "out.tar", "s-{000..}.tar"])
def test_names_and_times_come_back(tmp_path: Path, name: str) -> None:
    """Whatever the container's clock is: a packed image has the file's time to the nanosecond."""
    source = tmp_path / "train" / "class"
    source.mkdir(parents=True)
    for number, (file, moment) in enumerate(zip(ENDINGS, TIMES, strict=True)):
        image = corpus.photo(9 + number, 20, number)
        (source / file).write_bytes(corpus.save(image, "PNG" if file == "f.PNG" else "JPEG"))
        os.utime(source / file, ns=(moment, moment))
    before, times = contents(tmp_path / "train"), times_of(source)
    pack(tmp_path / "train", tmp_path / name)
    if name == "out":
        assert times_of(tmp_path / "out") == times
    elif name.endswith(".zip"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            moments = {Path(info.filename).stem: info.date_time for info in archive.infolist()}
            assert moments["n01440764_tench"] == (2009, 2, 13, 23, 31, 30)  # UTC
            assert moments["c"] == (1980, 1, 1, 0, 0, 0)
    else:
        with tarfile.open(str(tmp_path / name).replace("{000..}", "000")) as archive:
            moments = {Path(member.name).stem: member.mtime for member in archive if not member.name.endswith(".cls")}
            assert moments == {stem: time // 10**9 for stem, time in times.items()}
    unpack(str(tmp_path / name).replace("{000..}", "*"), tmp_path / "back.tar" if "{" in name else tmp_path / "back")
    if "{" in name:
        with tarfile.open(tmp_path / "back.tar") as archive:
            found = {member.name: member.mtime for member in archive if not member.name.endswith(".cls")}
        assert found == {f"class/{file}": time // 10**9 for file, time in zip(ENDINGS, TIMES, strict=True)}
        return
    found = contents(tmp_path / "back")
    assert {name.split("/", 1)[1]: data for name, data in found.items()} == {
        name.split("/", 1)[1]: data for name, data in before.items()
    }
    kept = times["f"] if name == "out" else times["f"] // 10**9 * 10**9
    assert times_of(tmp_path / "back") == {**times, "f": kept}


def test_archives_of_others_and_their_times(folder: Path, tmp_path: Path) -> None:
    """Members' own times, and not the archive's."""
    archives.zipped(folder, tmp_path / "in.zip", "")
    archives.tarred(folder, tmp_path / "in.tar", "")
    for kind in ("zip", "tar"):
        pack(tmp_path / f"in.{kind}", tmp_path / kind)
        unpack(tmp_path / kind, tmp_path / f"back-{kind}")
    with tarfile.open(tmp_path / "in.tar") as archive:
        times = {Path(member.name).stem: int(member.mtime) for member in archive if member.isfile()}
    back = {stem: time // 10**9 for stem, time in times_of(tmp_path / "back-tar").items()}
    assert {stem: time for stem, time in back.items() if times[stem]} == {s: t for s, t in times.items() if t}


def test_a_file_that_cannot_come_back_is_kept(folder: Path, tmp_path: Path) -> None:
    """A block with 16 zeros in front of its end; without its own bytes it is packed."""
    with Image.new("L", (8, 8)) as image:
        data = corpus.save(image, "JPEG")
    place = data.index(b"\xff\xda") + 10
    data = data[:place] + int("00111111110011010" + "1" * 7, 2).to_bytes(3, "big") + b"\xff\xd9"
    (folder / "cat" / "zz.jpg").write_bytes(data)
    result = pack(folder, tmp_path / "out")
    assert result.kept["its own bytes can't be made again from its coefficients"] == 1
    assert (tmp_path / "out" / "cat" / "zz.jpg").read_bytes() == data
    assert (result.converted, result.same_bytes) == (11, result.files)
    assert "11 images packed" in str(result)
    assert "all of them give the original JPEGs, byte for byte" in " ".join(str(result).split())
    assert pack(folder, tmp_path / "others", discard_original_bytes=True).converted == 12
    assert_same(fastpipe.ImageFolder(tmp_path / "others"), fastpipe.ImageFolder(folder))


def test_a_target_is_gone_on_with_as_it_was_begun(folder: Path, tmp_path: Path) -> None:
    """One that was begun before originals were kept goes on without them."""
    pack(folder, tmp_path / "out", discard_original_bytes=True)
    with pytest.raises(
        DatasetError, match="begun with the original files' bytes discarded, not with the original files' bytes kept"
    ):
        pack(folder, tmp_path / "out")
    record = tmp_path / "out" / "fastpipe-pack.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert "original_bytes" not in lines[0]
    older = [lines[0], *([*row[:9], [place[:4] for place in row[9]], *row[10:12]] for row in lines[1:])]
    record.write_text("".join(json.dumps(line) + "\n" for line in older))
    (folder / "cat" / "new.jpg").write_bytes(corpus.jpeg(8, 9))
    result = pack(folder, tmp_path / "out", discard_original_bytes=True)
    assert (result.resumed, result.files, result.same_bytes, result.same_pixels) == (14, 15, 3, 12)


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("start", ["", "train/"])
def test_archives(folder: Path, tmp_path: Path, kind: str, start: str) -> None:
    source = tmp_path / f"in.{kind}"
    (archives.zipped if kind == "zip" else archives.tarred)(folder, source, start)
    for name in ("out", "out.zip"):
        pack(source, tmp_path / name)
        assert_same(fastpipe.ImageFolder(tmp_path / name), fastpipe.ImageFolder(folder))


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_class_with_images_in_subfolders_alone(tmp_path: Path, kind: str) -> None:
    nested = tmp_path / "train" / "cat" / "indoors"
    nested.mkdir(parents=True)
    (nested / "0.jpg").write_bytes(corpus.jpeg(20, 30))
    (nested / "1.png").write_bytes(corpus.files()["png-rgb"])
    target = tmp_path / f"out.{kind}"
    pack(tmp_path / "train", target)
    assert pack(tmp_path / "train", target).resumed == 2
    assert_same(fastpipe.ImageFolder(target), fastpipe.ImageFolder(tmp_path / "train"))
    unpack(target, tmp_path / "back")
    back = {name.removeprefix("back/"): data for name, data in contents(tmp_path / "back").items()}
    assert back == {name.removeprefix("train/"): data for name, data in contents(tmp_path / "train").items()}
    (nested.parent / "2.jpg").write_bytes(corpus.jpeg(8, 9))
    with pytest.raises(DatasetError, match="was begun with the top folder root/, not without a top folder"):
        pack(tmp_path / "train", target)


def test_names_with_two_endings_come_back(folder: Path, tmp_path: Path) -> None:
    for name in ("two.jpg.jpg", "two.png.JPEG"):
        (folder / "cat" / name).write_bytes(corpus.jpeg(9, 8))
    for target in ("out", "out.tar"):
        pack(folder, tmp_path / target)
        unpack(tmp_path / target, tmp_path / f"back-{target}")
    names = [Path(path).name for path, _ in fastpipe.ImageFolder(folder).samples]
    for target in ("back-out", "back-out.tar"):
        assert [Path(path).name for path, _ in fastpipe.ImageFolder(tmp_path / target).samples] == names


def test_a_class_without_an_image_and_files_beside(folder: Path, tmp_path: Path) -> None:
    (folder / "cow").mkdir()
    (folder / "cat" / "notes.txt").write_text("…")
    (folder / "README").write_text("…")
    given = fastpipe.ImageFolder(folder, allow_empty=True)
    for name in ("out", "out.zip", "out.tar"):
        result = pack(folder, tmp_path / name)
        assert result.left_out == {".txt": 1, "": 1}
        assert_same(fastpipe.ImageFolder(tmp_path / name, allow_empty=True), given)
        assert "not copied" in str(result)
    pack(folder, tmp_path / "{0..}.tar")  # labels are numbers, as names alone would be counted anew
    assert list(fastpipe.ImageShards(tmp_path / "0.tar").targets) == list(given.targets)
    (folder / "ape").mkdir()
    with pytest.raises(
        DatasetError, match=r"begun with 3 classes \(cat, cow, dog\), not with 4 classes \(ape, "
    ):  # which would make other numbers of them
        pack(folder, tmp_path / "{0..}.tar")


def test_images_of_one_folder_and_one_image(folder: Path, tmp_path: Path) -> None:
    for source, count in ((folder / "cat", 9), (folder / "cat" / "0.jpg", 1)):
        for name in ("out", "out.zip", "{00..}.tar"):
            result = pack(source, tmp_path / f"{count}" / name)
            assert result.files == count
        assert len(fastpipe.ImageShards(tmp_path / f"{count}" / "00.tar", label=None)) == count
        assert len(list((tmp_path / f"{count}" / "out").glob("*.*"))) == count + 1


def test_a_list(folder: Path, tmp_path: Path) -> None:
    rows = [("dog/cmyk.jpg", 7), ("cat/2.jpg", 3), ("cat/a.png", 7), ("cat/a.JPEG", 7), ("cat/2.jpg", 3)]
    file = tmp_path / "list.csv"
    file.write_text("path,label\n" + "".join(f"{folder / path},{label}\n" for path, label in rows))
    given = fastpipe.ImageList(file, columns=("path", "label"))
    pack(file, tmp_path / "out")
    listed = fastpipe.ImageList(tmp_path / "out" / pack_run.LIST, columns=("path", "label"), root=tmp_path / "out")
    assert_same(listed, given)
    with open(tmp_path / "out" / pack_run.LIST, newline="") as lines:
        assert next(iter(csv.DictReader(lines))) == {"path": "dog/cmyk.jpg", "label": "7"}
    assert len(list((tmp_path / "out").rglob("*.fpj"))) == 2
    for name in ("out.tar", "out.zip", "{0..}.tar"):
        pack(given, tmp_path / name)
        assert_same(fastpipe.ImageShards(str(tmp_path / name).replace("{0..}", "0")), given, names=False)


def test_shards_keep_what_stands_beside_images(folder: Path, tmp_path: Path) -> None:
    shards = archives.shards(folder, tmp_path / "in", 3)
    given = fastpipe.ImageShards(shards, label="json:label")
    pack(tmp_path / "in" / "*.tar", tmp_path / "same")
    assert [path.name for path in sorted((tmp_path / "same").glob("*.tar"))] == [path.name for path in shards]
    assert_same(fastpipe.ImageShards(tmp_path / "same" / "*.tar", label="json:label"), given)
    with tarfile.open(shards[0]) as one, tarfile.open(tmp_path / "same" / shards[0].name) as other:
        before, after = one.getnames(), other.getnames()
        assert [name.split(".")[0] for name in before] == [name.split(".")[0] for name in after]
        member = next(name for name in after if name.endswith("json"))
        assert one.extractfile(member).read() == other.extractfile(member).read()  # type: ignore[union-attr]
    for name in ("new-{0000..}.tar", "one.zip"):
        result = pack(tmp_path / "in" / "*.tar", tmp_path / name, shard_size=5000)
        pattern = str(tmp_path / name).replace("{0000..}", "*")
        assert_same(fastpipe.ImageShards(pattern, label="json:label"), given, names=False)
        assert result.parts > 2 or name == "one.zip"
    unpack(tmp_path / "same" / "*.tar", tmp_path / "back")
    assert_same(fastpipe.ImageShards(tmp_path / "back" / "*.tar", label="json:label"), given)


def test_a_member_that_is_there_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in shards that were drawn with replacement; both come, also where the run was interrupted between them."""
    monkeypatch.setattr(pack_run, "FILES", 1)
    with tarfile.open(tmp_path / "in.tar", "w") as tar:
        for name in ("a.jpg", "b.jpg", "a.jpg", "a.cls", "b.jpg"):
            about, data = tarfile.TarInfo(name), corpus.jpeg(9, 9)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
    take, taken = pack_run.PackRun._take, [0]

    def interrupted(self: Any, *arguments: Any) -> None:
        taken[0] += 1
        if taken[0] == 3:
            raise KeyboardInterrupt
        take(self, *arguments)

    monkeypatch.setattr(pack_run.PackRun, "_take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pack(tmp_path / "in.tar", tmp_path / "out.tar", jobs=1)
    pack(tmp_path / "in.tar", tmp_path / "out.tar", jobs=1)
    with tarfile.open(tmp_path / "out.tar") as tar:
        assert tar.getnames() == ["a.fpj", "b.fpj", "a.fpj", "a.cls", "b.fpj"]


def test_parquet(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet takes pyarrow: pip install pyarrow")
    import pyarrow.parquet

    images = fastpipe.ImageFolder(folder)
    for number in range(2):
        some = [images.samples[at] for at in range(number, len(images), 2)]
        columns = {
            "image": [{"bytes": Path(path).read_bytes(), "path": None} for path, _ in some],
            "label": [label for _, label in some],
            "caption": [f"the caption of {Path(path).name}" for path, _ in some],
        }
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / f"t{number}.parquet", compression="none")
    given = fastpipe.ImageTable(tmp_path / "t*.parquet")
    pack(tmp_path / "t*.parquet", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").glob("*.tar")) == ["t0.tar", "t1.tar"]
    assert_same(fastpipe.ImageShards(tmp_path / "out" / "*.tar"), given, names=False)
    with tarfile.open(tmp_path / "out" / "t1.tar") as shard:
        first = shard.getnames()[:3]
        assert first == ["000000000.fpj", "000000000.cls", "000000000.json"]
        said = json.loads(shard.extractfile(first[2]).read())  # type: ignore[union-attr]
        assert said == {"caption": f"the caption of {Path(images.samples[1][0]).name}"}
    pack(tmp_path / "t*.parquet", tmp_path / "{0..}.tar", label="caption")
    captions = fastpipe.ImageShards(tmp_path / "0.tar")
    assert len(captions.classes) == len(set(images.samples))


@pytest.mark.parametrize("name", ["out", "out.zip", "out.tar", "s-{000..}.tar"])
def test_new_files_are_added(folder: Path, tmp_path: Path, name: str) -> None:
    new = [folder / "cat" / "00.jpg", folder / "ape" / "x.jpg"]
    pack(folder, tmp_path / name, shard_samples=5)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.fpj")}
    for path in new:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(corpus.jpeg(12, 13, seed=5))
    if name != "out" and "{" not in name:
        (folder / "cat" / "00.jpg").rename(folder / "cat" / "zz.jpg")
    result = pack(folder, tmp_path / name, shard_samples=5)
    assert (result.files, result.resumed) == (16, 14)
    if "{" in name:  # in new shards, behind the others
        assert result.parts == 4
        shards = fastpipe.ImageShards(tmp_path / "s-*.tar")
        assert len(shards) == 16
        assert [str(path)[len(str(tmp_path)) + 6 :] for path, _ in shards.samples][-2:] == [
            ".tar/ape/x.fpj",
            ".tar/cat/00.fpj",
        ]
    else:
        assert_same(fastpipe.ImageFolder(tmp_path / name), fastpipe.ImageFolder(folder))
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_smaller(folder: Path, tmp_path: Path) -> None:
    result = pack(folder, tmp_path / "out", max_side=20)
    sizes = {readers.read_header(path).size for path, _ in fastpipe.ImageFolder(tmp_path / "out").samples}
    assert max(max(size) for size in sizes) == 20
    assert result.changes.images == 9
    assert "made smaller before: 9 images" in str(result)
    assert result.about()["smaller"]["images"] == 9
    assert pack(folder, tmp_path / "out", max_side=20).changes == result.changes
    with pytest.raises(DatasetError, match=r"was begun with images made smaller \(max_side 20.*\), not without making"):
        pack(folder, tmp_path / "out")
    with pytest.raises(ConfigError, match="max_side=0"):
        pack(folder, tmp_path / "other", max_side=0)


@pytest.mark.parametrize("discard", [False, True])
@pytest.mark.parametrize("name", ["out", "out.zip", "s-{000..}.tar"])
def test_what_is_said_of_bytes_is_what_comes_back(tmp_path: Path, name: str, discard: bool) -> None:
    """A set of all kinds: each file that comes back is compared with its original, and counted as the report counts."""
    source = tmp_path / "train" / "class"
    source.mkdir(parents=True)
    files = {
        "small.jpg": corpus.jpeg(20, 30),
        "large.jpg": corpus.jpeg(60, 90),
        "progressive.jpg": corpus.save(corpus.photo(70, 50), "JPEG", progressive=True),
        "cmyk.jpg": corpus.save(Image.fromarray(corpus.photo(16, 16)).convert("CMYK"), "JPEG"),
        "large-cmyk.jpg": corpus.save(Image.fromarray(corpus.photo(50, 60)).convert("CMYK"), "JPEG"),
        "tiny.png": corpus.save(corpus.photo(9, 7), "PNG"),
        "picture.png": corpus.save(corpus.photo(90, 70), "PNG"),
        "small-progressive.jpg": corpus.save(corpus.photo(13, 31), "JPEG", progressive=True),
    }
    for file, data in files.items():
        (source / file).write_bytes(data)
    packed = pack(tmp_path / "train", tmp_path / name, max_side=40, discard_original_bytes=discard)
    unpacked = unpack(str(tmp_path / name).replace("{000..}", "*"), tmp_path / "back.zip")
    with zipfile.ZipFile(tmp_path / "back.zip") as archive:
        stems = {Path(member).stem: archive.read(member) for member in archive.namelist() if ".cls" not in member}
    same_bytes = same_pixels = smaller = 0
    for file, data in files.items():
        back = stems[Path(file).stem]
        with Image.open(io.BytesIO(data)) as one, Image.open(io.BytesIO(back)) as other:
            same_bytes += back == data
            same_pixels += back != data and one.size == other.size and one.tobytes() == other.tobytes()
            smaller += one.size != other.size
    assert (same_bytes, same_pixels, smaller) == ((2, 2, 4) if discard else (4, 0, 4))
    assert (packed.same_bytes, packed.same_pixels, packed.made_smaller) == (same_bytes, same_pixels, smaller)
    for result in (packed, pack(tmp_path / "train", tmp_path / name, max_side=40, discard_original_bytes=discard)):
        said = " ".join(str(result).split())
        assert "byte for byte" not in said
        assert f"{same_bytes} all bytes" in said
        assert f"{smaller} a smaller image: the original can't be restored" in said
        assert ("the pixels, without the original bytes" in said) == discard
        assert "kept as they are" not in said
        about = result.about()
        assert (about["same_bytes"], about["same_pixels"], about["made_smaller"]) == (same_bytes, same_pixels, smaller)
    labels = len(files) if "{" in name else 0  # members of shards beside the images, which are copied
    if not discard:  # what unpack finds in the packed images; other files, it copies
        assert (unpacked.same_bytes, unpacked.same_pixels, unpacked.made_smaller) == (6 + labels, 0, 2)
        assert "2 a smaller image: the original can't be restored" in " ".join(str(unpacked).split())
        assert "byte for byte" not in str(unpacked)
    else:
        assert (unpacked.same_bytes, unpacked.same_pixels, unpacked.made_smaller) == (4 + labels, 4, 0)
        assert "4 the pixels of the packed image, without the original bytes" in " ".join(str(unpacked).split())


def test_a_record_without_counts_of_bytes_claims_none(folder: Path, tmp_path: Path) -> None:
    """One of a container that was written as a whole, before made-smaller images were counted."""
    files, kept, before, after = 9, {"it is PNG, no JPEG": 2}, 900, 800
    old = [files, kept, before, after, [3, 90, 30, 60, 50, 1.0, 0.5], 7]
    line = json.dumps(["s.tar", 1, 2, 3, 4, "", 9, "s.tar", 5, [], None, old, 0]).encode() + b"\n"
    row = record._row(line)
    assert row is not None
    assert row.whole is not None
    assert (row.whole.files, row.whole.same_bytes, row.whole.smaller) == (9, 0, 3)


def test_what_is_not_proved_is_kept(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = format.pack(corpus.jpeg(24, 40, "420", 9))
    real = format.pack
    wrong = (folder / "cat" / "2.jpg").read_bytes()
    monkeypatch.setattr(conversions, "pack", lambda data, **options: other if data == wrong else real(data, **options))
    result = pack(folder, tmp_path / "out", discard_original_bytes=True)
    assert result.kept["its proof failed: please report it"] == 1
    assert (tmp_path / "out" / "cat" / "2.jpg").read_bytes() == wrong


def test_archives_are_those_that_others_read(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "out.zip")
    pack(folder, tmp_path / "out.tar")
    names = [path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")]
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        days = {about.filename.split(".")[0]: about.date_time[:3] for about in archive.infolist()}
        moments = {path.stem.split(".")[0]: path.stat().st_mtime for path in folder.rglob("*.*")}
        assert {name.split("/")[-1]: day for name, day in days.items()} == {
            stem: time.gmtime(moment)[:3] for stem, moment in moments.items()
        }
        members = {name: archive.read(name) for name in names}
    with tarfile.open(tmp_path / "out.tar") as archive:
        assert archive.getnames() == names
        assert {Path(about.name).stem.split(".")[0]: about.mtime for about in archive.getmembers()} == {
            stem: int(moment) for stem, moment in moments.items()
        }
        assert {name: archive.extractfile(name).read() for name in names} == members  # type: ignore[union-attr]


@pytest.mark.slow  # where a file has no holes, 4 GB are written
def test_a_zip_beyond_4_gb(tmp_path: Path) -> None:
    """Members behind 4 GB have their place in zip64's records; the file has a hole before them."""
    from fastpipe.packing.archives import MemberOffset, Zip

    data = b"far away"
    zipped, start = Zip(), (1 << 32) + 7
    member = zipped.member("ä/far.txt", data, zlib.crc32(data))
    place = MemberOffset("ä/far.txt", zlib.crc32(data), len(data), start)
    with open(tmp_path / "far.zip", "wb") as file:
        file.seek(start)
        file.write(member)
        file.write(zipped.end(zipped.directory(place), 1, start + len(member)))
    with zipfile.ZipFile(tmp_path / "far.zip") as archive:
        assert archive.read("ä/far.txt") == data
    many = Zip()
    count = 70_000
    pieces, directory, at = [], bytearray(), 0
    for number in range(count):
        name = f"{number}/" if number == 5 else str(number)
        pieces.append(many.member(name, b"", 0))
        directory += many.directory(MemberOffset(name, 0, 0, at))
        at += len(pieces[-1])
    with zipfile.ZipFile(io.BytesIO(b"".join([*pieces, many.end(directory, count, at)]))) as archive:
        assert len(archive.infolist()) == count
        assert archive.infolist()[5].is_dir()
        assert archive.read("69999") == b""
