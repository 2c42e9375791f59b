"""A row without an image or a label is a bad sample: met when it is asked for, and never while it is listed."""

from __future__ import annotations

import io
import pickle
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import fastpipe
from fastpipe import transforms as T
from fastpipe.datasets import ImageArray
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.index.open import named_container
from fastpipe.tools.check.run import check

JPEGS = [corpus.jpeg(20 + number, 30, seed=number) for number in range(5)]
KIND = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def _table(folder: Path, rows: list[Any], labels: list[Any], compression: str = "none", kind: Any = KIND) -> Any:
    file = folder / "a.parquet"
    pq.write_table(pa.table({"image": pa.array(rows, kind), "label": labels}), file, compression=compression)
    return lambda **options: fastpipe.ImageTable(file, **options)


def _struct(folder: Path) -> Any:
    rows = [{"bytes": data, "path": None} for data in JPEGS]
    return _table(folder, [rows[0], None, rows[2], {"bytes": None, "path": None}, rows[4]], [3, 4, 4, 3, 4])


def _compressed(folder: Path) -> Any:
    rows = [{"bytes": data, "path": None} for data in JPEGS]
    return _table(folder, [rows[0], None, rows[2], {"bytes": None, "path": ""}, rows[4]], [3, 4, 4, 3, 4], "zstd")


def _plain(folder: Path) -> Any:
    return _table(folder, [JPEGS[0], None, JPEGS[2], None, JPEGS[4]], [3, 4, 4, 3, 4], kind=pa.binary())


def _labels(folder: Path) -> Any:
    return _table(folder, JPEGS, [3, None, 4, None, 4], kind=pa.binary())


def _address(folder: Path) -> Any:
    rows = [{"bytes": data, "path": None} for data in JPEGS]
    rows[1], rows[3] = ({"bytes": None, "path": path} for path in ("https://host/a.jpg", "zip://a.jpg::b.zip"))
    return _table(folder, rows, [3, 4, 4, 3, 4])


def _missing_file(folder: Path) -> Any:
    rows = [{"bytes": data, "path": None} for data in JPEGS]
    rows[1], rows[3] = ({"bytes": None, "path": str(folder / "gone.jpg")} for _ in range(2))
    return _table(folder, rows, [3, 4, 4, 3, 4])


def _shard(folder: Path, members: list[tuple[str, bytes]]) -> Any:
    with tarfile.open(folder / "a.tar", "w") as archive:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return lambda **options: fastpipe.ImageShards(folder / "a.tar", **options)


def _shard_labels(folder: Path) -> Any:
    members = []
    for number, (data, label) in enumerate(zip(JPEGS, [b"3", None, b"4", b"", b"4"], strict=True)):
        members += [(f"{number}.jpg", data), *([(f"{number}.cls", label)] if label is not None else [])]
    return _shard(folder, members)


def _shard_images(folder: Path) -> Any:
    members = []
    for number, (data, label) in enumerate(zip(JPEGS, [b"3", b"4", b"4", b"3", b"4"], strict=True)):
        members += [(f"{number}.jpg", data), *([(f"{number}.png", data)] if number == 1 else [])]
        members += [(f"{number}.jpg", data)] if number == 3 else []
        members += [(f"{number}.cls", label)]
    return _shard(folder, members)


def _zip(folder: Path) -> Any:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        for number, data in enumerate(JPEGS):
            kind = zipfile.ZIP_DEFLATED if number in (1, 3) else zipfile.ZIP_STORED
            archive.writestr(f"{'c3' if number in (0, 3) else 'c4'}/{number}.jpg", data, kind)
    return lambda **options: fastpipe.ImageFolder(folder / "a.zip", **options)


def _files(folder: Path) -> list[str]:
    for number, data in enumerate(JPEGS):
        (folder / f"{number}.jpg").write_bytes(data)
    return [f"{number}.jpg" for number in range(5)]


def _sequences(folder: Path) -> Any:
    paths: list[Any] = _files(folder)
    paths[1], paths[3] = None, float("nan")
    return lambda **options: fastpipe.ImageList((paths, [3, 4, 4, 3, 4]), root=folder, **options)


def _sequence_labels(folder: Path) -> Any:
    paths = [str(folder / path) for path in _files(folder)]
    return lambda **options: fastpipe.ImageList((paths, [3, None, 4, None, 4]), root="elsewhere", **options)


def _text(ending: str, lines: list[str]) -> Any:
    def make(folder: Path) -> Any:
        _files(folder)
        (folder / f"list{ending}").write_text("\n".join(lines) + "\n")
        return lambda **options: fastpipe.ImageList(folder / f"list{ending}", root=folder, **options)

    return make


def _list_table(folder: Path) -> Any:
    paths: list[Any] = _files(folder)
    paths[1] = None
    pq.write_table(pa.table({"path": paths, "label": ["c", "d", "d", None, "d"]}), folder / "list.parquet")
    return lambda **options: fastpipe.ImageList(folder / "list.parquet", root=folder, **options)


SETS: dict[str, Callable[[Path], Any]] = {
    "a table of structs": _struct,
    "a compressed table": _compressed,
    "a table of bytes": _plain,
    "a table's labels": _labels,
    "a table of addresses": _address,
    "a table of paths": _missing_file,
    "a shard's labels": _shard_labels,
    "a shard's images": _shard_images,
    "two sequences": _sequences,
    "a sequence of labels": _sequence_labels,
    "text": _text(".txt", ["0.jpg 3", "1.jpg", "2.jpg 4", "4", "4.jpg 4"]),
    "CSV": _text(".csv", ["path,label", "0.jpg,3", ",4", "2.jpg,4", "3.jpg", "4.jpg,4"]),
    "floats in CSV": _text(".csv", ["path,label", "0.jpg,3.0", ",4.0", "2.jpg,4.0", "3.jpg,", "4.jpg,4.0"]),
    "a list in Parquet": _list_table,
}
SMALL = T.Compose([T.Resize((8, 8)), T.ToTensor()])


def _expected(number: int) -> torch.Tensor:
    image = Image.open(io.BytesIO(JPEGS[number])).convert("RGB").resize((8, 8), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy()) / 255


@pytest.mark.filterwarnings("ignore:.*unpacked once.*:fastpipe.errors.FastpipeWarning")
@pytest.mark.parametrize("name", SETS)
def test_a_bad_row_is_a_bad_sample(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "cache"))
    make = SETS[name](tmp_path)
    for _ in range(2):  # listed, and then opened
        dataset = make(transform=SMALL)
        assert len(dataset) == 5
        for index in (0, 2, 4):
            assert torch.equal(dataset[index][0], _expected(index))
        for index in (1, 3):
            with pytest.raises(OSError, match=f"sample {index} of the dataset"):
                dataset[index]
        targets = [dataset.targets[index] for index in (0, 2, 4)]
        assert targets[1] == targets[2] != targets[0]
    skipping = pickle.loads(pickle.dumps(make(transform=SMALL, on_error="skip", max_bad_fraction=1.0)))
    with pytest.warns(FastpipeWarning, match="can't be read"):
        batches = list(fastpipe.DataLoader(skipping, batch_size=3))
    assert torch.equal(torch.cat([images for images, _ in batches]), torch.stack([_expected(n) for n in (0, 2, 4)]))
    assert torch.cat([some for _, some in batches]).tolist() == targets
    assert skipping.bad_files.skipped == 2
    replacing = make(transform=SMALL, on_error="replace", max_bad_fraction=1.0)
    with pytest.warns(FastpipeWarning, match="can't be read"):
        ((images, replaced),) = fastpipe.DataLoader(replacing, batch_size=5)
    assert len(images) == 5
    assert set(replaced.tolist()) == set(targets)
    found = check(dataset, progress=False, jobs=1)
    assert found.bad == 2
    assert [row.number for row in found.rows[:2]] == [1, 3]
    assert dataset.subset([0, 1])[0][1] == targets[0]


def _members(numbers: range) -> list[tuple[str, bytes]]:
    """A sample of each number: the first label is 3, the others 4."""
    return [member for n in numbers for member in ((f"{n}.jpg", JPEGS[n]), (f"{n}.cls", b"4" if n else b"3"))]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut in a member": lambda data: data[: data.index(JPEGS[2]) + 100],
    "cut in a header": lambda data: data[: data.index(b"2.jpg") + 100],
    "a block that is no member": lambda data: data.replace(b"2.jpg", b"\x01.jpg"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_stands_before_the_damage_of_a_shard_is_used(damage: str, tmp_path: Path) -> None:
    make = _shard(tmp_path, _members(range(5)))
    file = tmp_path / "a.tar"
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    with pytest.warns(FastpipeWarning, match=r"a\.tar.* damaged after [12]\..* 2 samples before that can be used"):
        dataset = make(transform=SMALL, index=tmp_path / "index")
    warnings.filterwarnings("ignore", ".*can be used", FastpipeWarning)  # a new shard may be listed again
    bad = 2 if damage == "cut in a member" else 1  # the member, and what follows
    for _ in range(2):
        assert len(dataset) == 2 + bad
        for index in range(2):
            assert torch.equal(dataset[index][0], _expected(index))
        with pytest.raises(OSError, match=rf"damaged from here on.*what follows {bad}"):
            dataset[1 + bad]
        dataset = make(transform=SMALL, index=tmp_path / "index")
    assert check(dataset, progress=False, jobs=1).bad == bad
    skipping = make(transform=SMALL, on_error="skip", max_bad_fraction=1.0, index=tmp_path / "index")
    with pytest.warns(FastpipeWarning, match="can't be read"):
        ((images, targets),) = fastpipe.DataLoader(skipping, batch_size=4)
    assert (len(images), targets.tolist(), skipping.bad_files.skipped) == (2, [3, 4], bad)


SPOILED: dict[str, Callable[[Path], object]] = {
    "no label anywhere": lambda file: _shard(file.parent, [("3.jpg", JPEGS[3]), ("4.jpg", JPEGS[4])]),
    "another file": lambda file: file.write_bytes(b"<html>Not found</html>" * 99),
    "an empty file": lambda file: file.write_bytes(b""),
    "a compressed one": lambda file: file.write_bytes(b"\x1f\x8b" + bytes(99)),
}


@pytest.mark.filterwarnings("ignore:.*can be used:fastpipe.errors.FastpipeWarning")
@pytest.mark.parametrize("spoiled", SPOILED)
def test_a_shard_without_a_usable_sample_is_bad_samples(spoiled: str, tmp_path: Path) -> None:
    _shard(tmp_path, _members(range(3)))
    (tmp_path / "a.tar").rename(tmp_path / "b.tar")
    SPOILED[spoiled](tmp_path / "a.tar")
    dataset = fastpipe.ImageShards(tmp_path / "*.tar", SMALL, on_error="skip", max_bad_fraction=1.0)
    bad = len(dataset) - 3
    assert bad == (2 if spoiled == "no label anywhere" else 1)
    with pytest.warns(FastpipeWarning, match="can't be read"):
        ((_, targets),) = fastpipe.DataLoader(dataset, batch_size=9)
    assert (targets.tolist(), dataset.bad_files.skipped) == ([3, 4, 4], bad)
    (tmp_path / "b.tar").unlink()
    with pytest.raises(DatasetError, match=r"no usable sample: .*a\.tar"):
        fastpipe.ImageShards(tmp_path / "*.tar", SMALL)


@pytest.mark.filterwarnings("ignore:.*unpacked once.*:fastpipe.errors.FastpipeWarning")
@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_a_damaged_row_group_is_bad_samples(compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "cache"))
    rows = [{"bytes": data, "path": None} for data in JPEGS]
    file = tmp_path / "a.parquet"
    table = pa.table({"image": pa.array(rows, KIND), "label": [3, 4, 4, 3, 4]})
    pq.write_table(table, file, compression=compression, row_group_size=2, use_dictionary=False)
    about = pq.read_metadata(file).row_group(1).column(0)
    data = bytearray(file.read_bytes())
    data[about.data_page_offset : about.data_page_offset + 60] = bytes(60)
    file.write_bytes(data)
    for _ in range(2):
        dataset = fastpipe.ImageTable(file, SMALL)
        assert len(dataset) == 5
        for index in (0, 1, 4):
            assert torch.equal(dataset[index][0], _expected(index))
        for index in (2, 3):
            with pytest.raises(OSError, match=rf"row group is.*a\.parquet.{index}"):
                dataset[index]
    assert check(dataset, progress=False, jobs=1).bad == 2
    skipping = fastpipe.ImageTable(file, SMALL, on_error="skip", max_bad_fraction=1.0)
    with pytest.warns(FastpipeWarning, match="can't be read"):
        ((_, targets),) = fastpipe.DataLoader(skipping, batch_size=9)
    assert (targets.tolist(), skipping.bad_files.skipped) == ([3, 4, 4], 2)
    pq.write_table(table, file, compression=compression, use_dictionary=False)
    data = bytearray(file.read_bytes())
    data[4:64] = bytes(60)
    file.write_bytes(data)
    with pytest.raises(DatasetError, match=r"no usable sample: .*a\.parquet is damaged in its row group 0"):
        fastpipe.ImageTable(file, SMALL)


@pytest.mark.filterwarnings("ignore:.*counts as one bad sample.*:fastpipe.errors.FastpipeWarning")
@pytest.mark.parametrize(
    ("spoiled", "first"), [("text", True), ("empty", False), ("cut", False), ("no footer", True), ("a shard", True)]
)
def test_a_file_that_is_no_parquet_file_is_one_bad_sample(
    spoiled: str, first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "cache"))
    rows = [{"bytes": data, "path": None} for data in JPEGS]
    good, bad = (tmp_path / name for name in (("b.parquet", "a.parquet") if first else ("a.parquet", "b.parquet")))
    pq.write_table(pa.table({"image": pa.array(rows, KIND), "label": [3, 4, 4, 3, 4]}), good, compression="none")
    whole = good.read_bytes()
    bad.write_bytes(
        {"text": b"not a table", "empty": b"", "cut": whole[:-9], "no footer": b"PAR1" * 9, "a shard": bytes(10240)}[
            spoiled
        ]
    )
    at = 0 if first else 5
    for _ in range(2):
        dataset = fastpipe.ImageTable(tmp_path / "*.parquet", SMALL)
        assert len(dataset) == 6
        for index in range(5):
            image, target = dataset[index + first]
            assert torch.equal(image, _expected(index))
            assert target == (3, 4, 4, 3, 4)[index]
        with pytest.raises(OSError, match=rf"no Parquet file.*{bad.name}"):
            dataset[at]
    assert check(dataset, progress=False, jobs=1).bad == 1
    skipping = fastpipe.ImageTable([good, bad], SMALL, on_error="skip", max_bad_fraction=1.0)
    with pytest.warns(FastpipeWarning, match="can't be read"):
        ((_, targets),) = fastpipe.DataLoader(skipping, batch_size=9)
    assert (targets.tolist(), skipping.bad_files.skipped) == ([3, 4, 4, 3, 4], 1)
    replacing = fastpipe.ImageTable([good, bad], SMALL, on_error="replace", max_bad_fraction=1.0)
    with pytest.warns(FastpipeWarning, match="can't be read"):
        assert replacing[5][1] in (3, 4)
    found = named_container(str(tmp_path / "*.parquet"))
    assert found is not None
    assert len(found.index) == 6
    good.unlink()
    with pytest.raises(DatasetError, match=rf"{bad.name} is no Parquet file"):
        fastpipe.ImageTable(bad, SMALL)


def test_an_array_s_targets_are_handed_out_whatever_they_are() -> None:
    """Images in memory have no bad rows: None may be meant, and an error is the user's transform's."""
    data = np.random.default_rng(0).integers(0, 256, (3, 8, 9, 3), np.uint8)
    dataset = ImageArray(data, [0, None, float("nan")], SMALL, on_error="skip")
    assert [str(dataset[index][1]) for index in range(3)] == ["0", "None", "nan"]

    def fails(image: object) -> object:
        raise ValueError("the user's")

    dataset = ImageArray(data, [0, 1, 2], T.Compose([fails, T.ToTensor()]), on_error="skip")
    with pytest.raises(ValueError, match="the user's"):
        next(iter(fastpipe.DataLoader(dataset, batch_size=3)))


def test_a_zip_with_compressed_members(tmp_path: Path) -> None:
    dataset = _zip(tmp_path)(transform=SMALL, on_error="skip", max_bad_fraction=1.0)
    numbers = [int(Path(path).stem) for path, _ in dataset.samples]
    with pytest.warns(FastpipeWarning, match="compressed"):
        samples = [dataset[index] for index in range(5)]
    assert [numbers[index] for index in range(5) if samples[index] is None] == [3, 1]


def test_a_row_with_a_path_is_read_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `datasets.Image` opens it."""
    decode = pytest.importorskip("datasets").Image().decode_example
    for folder, number in (("one", 1), ("two", 2)):
        (tmp_path / folder / "photos").mkdir(parents=True)
        (tmp_path / folder / "photos" / "a.jpg").write_bytes(JPEGS[number])
    absolute = str(tmp_path / "one" / "photos" / "a.jpg")
    rows = [{"bytes": None, "path": "photos/a.jpg"}, {"bytes": JPEGS[0], "path": "b.jpg"}]
    make = _table(tmp_path, [*rows, {"bytes": None, "path": absolute}], ["x", "y", "x"])
    for folder, number in (("one", 1), ("two", 2)):
        monkeypatch.chdir(tmp_path / folder)
        dataset = make(transform=SMALL)
        assert [dataset.classes[target] for target in dataset.targets] == ["x", "y", "x"]
        assert torch.equal(dataset[0][0], _expected(number))
        assert torch.equal(dataset[1][0], _expected(0))
        assert torch.equal(dataset[2][0], _expected(1))
        for index, row in enumerate((*rows, {"bytes": None, "path": absolute})):
            assert torch.equal(dataset[index][0], SMALL(decode(row).convert("RGB")))


def test_without_any_usable_row_the_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no usable sample"):
        _table(tmp_path, [None, None], [1, 2])()
    with pytest.raises(DatasetError, match=r"has no \.cls"):
        _shard(tmp_path, [("0.jpg", JPEGS[0]), ("1.jpg", JPEGS[1])])()
    with pytest.raises(DatasetError, match="neither is any other row"):
        fastpipe.ImageList(([None, None], [1, 2]))
