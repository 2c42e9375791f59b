"""`ImageTable`: images in Parquet, however it is written, and errors that name file and row."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import corpus
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastpipe
from fastpipe import readers
from fastpipe import transforms as T
from fastpipe.errors import DatasetError, FastpipeWarning

IMAGES = [corpus.jpeg(20 + number, 30, seed=number) for number in range(9)]
LABELS = [3, 1, 2, 3, 1, 2, 3, 1, 2]


def table(images: list[bytes | None] = IMAGES, labels: list[Any] = LABELS, struct: bool = False) -> pa.Table:
    column: Any = pa.array(images, pa.binary())
    if struct:
        column = pa.StructArray.from_arrays([column, pa.array(["x.jpg"] * len(images))], ["bytes", "path"])
    return pa.table({"image": column, "label": labels})


def unpacked(dataset: fastpipe.ImageList) -> list[tuple[bytes, int]]:
    return [(readers.read_file(path), label) for path, label in dataset.samples]


LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "a dictionary": {"use_dictionary": True},
    "a dictionary that overflows": {"use_dictionary": True, "dictionary_pagesize_limit": 3000},
    "small pages": {"use_dictionary": False, "data_page_size": 1500},
    "pages of version 2": {"use_dictionary": False, "data_page_version": "2.0", "data_page_size": 1500},
    "row groups": {"row_group_size": 4},
    "lengths apart": {"use_dictionary": False, "column_encoding": "DELTA_LENGTH_BYTE_ARRAY"},
    "prefixes shared": {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
    "an index of pages": {"write_page_index": True, "row_group_size": 2},
}


@pytest.mark.parametrize("struct", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_bytes(tmp_path: Path, layout: str, struct: bool) -> None:
    images = [*IMAGES, IMAGES[0], b"", IMAGES[2]]  # some twice, and an empty one
    labels = [*LABELS, 0, 0, 0]
    options = dict(LAYOUTS[layout])
    if "column_encoding" in options:
        options["column_encoding"] = {"image.bytes" if struct else "image": options["column_encoding"]}
    pq.write_table(table(images, labels, struct), tmp_path / "a.parquet", compression="none", **options)
    if layout == "prefixes shared":  # the bytes of an image aren't in one place
        with pytest.warns(FastpipeWarning, match="encoded"):
            assert unpacked(fastpipe.ImageTable(tmp_path / "a.parquet")) == list(zip(images, labels, strict=True))
        return
    dataset = fastpipe.ImageTable(tmp_path / "a.parquet")
    assert unpacked(dataset) == list(zip(images, labels, strict=True))
    assert dataset.index.containers == (str(tmp_path / "a.parquet"),)
    assert [path for path, _ in dataset.samples][:2] == [str(tmp_path / "a.parquet" / name) for name in ("0", "1")]


def test_a_relative_cache_folder_is_that_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPIPE_CACHE", "cache")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    pq.write_table(table(), tmp_path / "data" / "a.parquet", compression="snappy")
    with pytest.warns(FastpipeWarning, match="unpacked"):
        dataset = fastpipe.ImageTable("data/a.parquet")
    monkeypatch.chdir("/")
    assert unpacked(dataset) == list(zip(IMAGES, LABELS, strict=True))


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip"])
def test_compressed_columns_are_unpacked_once(tmp_path: Path, compression: str, settled: None) -> None:
    pq.write_table(table(struct=True), tmp_path / "a.parquet", compression=compression, row_group_size=2)
    with pytest.warns(
        FastpipeWarning, match=r"a\.parquet are compressed as a column.*Write the file with compression='none'"
    ):
        dataset = fastpipe.ImageTable(tmp_path / "a.parquet")
    assert unpacked(dataset) == list(zip(IMAGES, LABELS, strict=True))
    again = fastpipe.ImageTable(tmp_path / "a.parquet")
    assert again.index.origin == "opened"
    copy = Path(again.samples[0][0].container)
    assert copy.parent == Path(os.environ["FASTPIPE_CACHE"]) / "unpacked"
    assert len(copy.read_bytes()) == sum(map(len, IMAGES))
    copy.unlink()  # as by `fastpipe cache --clear`
    with pytest.warns(FastpipeWarning, match="compressed"):
        assert unpacked(fastpipe.ImageTable(tmp_path / "a.parquet")) == list(zip(IMAGES, LABELS, strict=True))


def test_several_files_batches_and_what_changed(tmp_path: Path, settled: None) -> None:
    for number, part in enumerate((slice(0, 4), slice(4, 9))):
        one = table(IMAGES[part], LABELS[part])
        with_copy = {} if number else {"compression": "none"}
        pq.write_table(one, tmp_path / f"{number}.parquet", **with_copy)
    with pytest.warns(FastpipeWarning, match=r"1\.parquet"):
        dataset = fastpipe.ImageTable(str(tmp_path / "*.parquet"), T.Compose([T.CenterCrop(20), T.ToTensor()]))
    assert unpacked(dataset) == list(zip(IMAGES, LABELS, strict=True))
    folder = tmp_path / "files"
    folder.mkdir()
    for number, data in enumerate(IMAGES):
        (folder / f"{number}.jpg").write_bytes(data)
    files = fastpipe.ImageList(([str(folder / f"{n}.jpg") for n in range(9)], LABELS), dataset.transform)
    for (mine, labels), (others, targets) in zip(
        fastpipe.DataLoader(dataset, batch_size=4), fastpipe.DataLoader(files, batch_size=4), strict=True
    ):
        assert torch.equal(mine, others)
        assert torch.equal(labels, targets)
    pq.write_table(table(IMAGES[:2], [7, 8]), tmp_path / "0.parquet", compression="none")
    assert unpacked(fastpipe.ImageTable(str(tmp_path / "*.parquet"))) == list(
        zip(IMAGES[:2] + IMAGES[4:], [7, 8, *LABELS[4:]], strict=True)
    )


def test_class_names_of_hugging_face_and_of_strings(tmp_path: Path, settled: None) -> None:
    names = ["zebra", "ant", "fly", "bee"]
    about = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}, "image": {"_type": "Image"}}}}
    one = table(struct=True).replace_schema_metadata({"huggingface": json.dumps(about)})
    pq.write_table(one, tmp_path / "a.parquet", compression="none")
    for _ in range(2):  # built, and opened
        dataset = fastpipe.ImageTable(tmp_path / "a.parquet")
        assert dataset.classes == names
        assert dataset.class_to_idx == {name: number for number, name in enumerate(names)}
        assert list(dataset.targets) == LABELS
    pq.write_table(table(labels=[names[label] for label in LABELS]), tmp_path / "b.parquet", compression="none")
    named = fastpipe.ImageTable(tmp_path / "b.parquet")
    assert named.classes == ["ant", "bee", "fly"]
    assert [named.classes[target] for target in named.targets] == [names[label] for label in LABELS]
    assert set(fastpipe.ImageTable(tmp_path / "b.parquet", label=None).targets) == {0}


def test_errors_name_the_file_and_the_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table([None, None], [0, 1]), path, compression="none")
    with pytest.raises(DatasetError, match=r"no usable sample: .*a\.parquet.0: this row has no image"):
        fastpipe.ImageTable(path)
    pq.write_table(table(IMAGES[:2], [[0], [1]]), path, compression="none")
    with pytest.raises(DatasetError, match=r"label of row 0 is \[0\]: neither a number nor a name"):
        fastpipe.ImageTable(path)
    pq.write_table(table(IMAGES[:2], [0, None]), path, compression="none")
    with pytest.raises(DatasetError, match="no column 'photo' among 'image', 'label'"):
        fastpipe.ImageTable(path, image="photo")
    pq.write_table(pa.table({"image": ["a.jpg"], "label": [1]}), path)
    with pytest.raises(DatasetError, match=r"holds string.*fastpipe\.ImageList"):
        fastpipe.ImageTable(path)
    path.write_bytes(b"PAR1 is all of it")
    with pytest.raises(DatasetError, match=r"a\.parquet is no Parquet file, or is damaged"):
        fastpipe.ImageTable(path)
    with pytest.raises(DatasetError, match=r"there is no .*b\.parquet"):
        fastpipe.ImageTable(tmp_path / "b.parquet")


def test_damage_in_the_middle_is_an_error(tmp_path: Path) -> None:
    for compression in ("zstd", "none"):
        out = io.BytesIO()
        pq.write_table(table(), out, compression=compression, use_dictionary=False)
        data = bytearray(out.getvalue())
        data[4:40] = b"\xff" * 36  # the header of the first page
        (tmp_path / "a.parquet").write_bytes(data)
        with pytest.raises(DatasetError, match=r"a\.parquet is damaged in its row group 0"):
            fastpipe.ImageTable(tmp_path / "a.parquet")


def test_a_cache_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "file"))
    pq.write_table(table(), tmp_path / "a.parquet", compression="snappy")
    with pytest.raises(DatasetError, match=r"can't be unpacked into the cache folder.*FASTPIPE_CACHE"):
        fastpipe.ImageTable(tmp_path / "a.parquet", index=None)
