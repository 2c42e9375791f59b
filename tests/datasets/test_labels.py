"""Labels that are text: numbers stay numbers, names are numbered, and a mixture is an error."""

from __future__ import annotations

import io
import json
import math
import tarfile
from pathlib import Path

import corpus
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastpipe
from fastpipe.errors import DatasetError

IMAGE = corpus.jpeg(8, 9)


def _shard(file: Path, labels: list[str]) -> fastpipe.ImageList:
    with tarfile.open(file, "w") as archive:
        for number, label in enumerate(labels):
            as_json = json.dumps({"label": label}).encode()
            for ending, data in (("jpg", IMAGE), ("cls", label.encode()), ("json", as_json)):
                member = tarfile.TarInfo(f"{number}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return fastpipe.ImageShards(file, label="json:label" if file.stem == "json" else "cls")


def _listed(folder: Path, ending: str, labels: list[str]) -> fastpipe.ImageList:
    if ending.endswith(".tar"):
        return _shard(folder / ending, labels)
    if ending == ".parquet":
        rows = pa.table({"image": [IMAGE] * len(labels), "label": labels})
        pq.write_table(rows, folder / "list.parquet", compression="none", use_dictionary=False)
        return fastpipe.ImageTable(folder / "list.parquet")
    separator = {".csv": ",", ".tsv": "\t", ".txt": " "}[ending]
    lines = [f"{number}.jpg{separator}{label}" for number, label in enumerate(labels)]
    file = folder / f"list{ending}"
    file.write_text("\n".join([*([] if ending == ".txt" else [f"path{separator}label"]), *lines]) + "\n")
    return fastpipe.ImageList(file)


ENDINGS = [".csv", ".tsv", ".txt", "cls.tar", "json.tar", ".parquet"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_numbers_stay_numbers(tmp_path: Path, ending: str) -> None:
    integers = [str(number) for number in (11, 2, 0, -3, 2)]
    assert list(_listed(tmp_path, ending, integers).targets) == [11, 2, 0, -3, 2]
    floats = [f"{number}.0" for number in range(12)]
    dataset = _listed(tmp_path, ending, floats)
    assert list(dataset.targets) == [float(number) for number in range(12)]
    assert type(dataset.targets[2]) is float
    assert dataset.classes == []
    as_list = fastpipe.ImageList(([f"{number}.jpg" for number in range(12)], [float(one) for one in floats]))
    assert list(as_list.targets) == list(dataset.targets)
    values = list(_listed(tmp_path, ending, ["1e3", "-2.5", ".5", "nan", "-inf"]).targets)
    assert values[:3] == [1000.0, -2.5, 0.5]
    assert math.isnan(values[3])
    assert values[4] == -math.inf


@pytest.mark.parametrize("ending", ENDINGS)
def test_names_stay_names(tmp_path: Path, ending: str) -> None:
    for names in (["cat", "dog", "ant"], ["nan", "pita", "inf"], ["3000000000", "3000000001"], ["nan", "nan"]):
        dataset = _listed(tmp_path, ending, names)
        assert dataset.classes == sorted({*names})
        assert [dataset.classes[target] for target in dataset.targets] == names


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("odd", ["nan", "cat", "2.0", "1.5", "inf", "10A", "3000000000"])
@pytest.mark.parametrize("place", [0, 7, 12])
def test_a_mixture_is_an_error_that_names_both(tmp_path: Path, ending: str, odd: str, place: int) -> None:
    labels = [str(number) for number in range(12)]
    labels.insert(place, odd)
    row = f"line {place + 1 + (ending != '.txt')}"
    if ending in ENDINGS[3:]:
        row = rf"{place}(\.jpg)?"
    with pytest.raises(DatasetError, match=rf"mixed: '\d+' \(.*is an integer, '{odd}' \(.*{row}\)"):
        _listed(tmp_path, ending, labels)
    if odd not in ("nan", "inf", "2.0", "1.5"):
        labels = [f"{label}.5" if label != odd else label for label in labels]
        with pytest.raises(DatasetError, match="is a float"):
            _listed(tmp_path, ending, labels)


def test_numbers_of_shards_and_tables_are_kept_with_the_index(tmp_path: Path) -> None:
    """Also if one of several containers has changed, and some rows have no label."""
    kind = pa.float64()
    for name, values in (("a", [0.5, None, math.nan]), ("b", [2.0, 1e-3])):
        rows = pa.table({"image": [IMAGE] * len(values), "label": pa.array(values, kind)})
        pq.write_table(rows, tmp_path / f"{name}.parquet", compression="none", use_dictionary=False)
    for _ in range(2):
        dataset = fastpipe.ImageTable(str(tmp_path / "*.parquet"), index=tmp_path / "index")
        assert [str(target) for target in dataset.targets] == ["0.5", "nan", "nan", "2.0", "0.001"]
        with pytest.raises(OSError, match="no label"):
            dataset[1]
    rows = pa.table({"image": [IMAGE], "label": pa.array([7.0], kind)})
    pq.write_table(rows, tmp_path / "b.parquet", compression="none", use_dictionary=False)
    dataset = fastpipe.ImageTable(str(tmp_path / "*.parquet"), index=tmp_path / "index")
    assert [str(target) for target in dataset.targets] == ["0.5", "nan", "nan", "7.0"]
    assert math.isnan(dataset[2][1])
    with pytest.raises(OSError, match="no label"):
        dataset[1]
    integers = pa.table({"image": [IMAGE], "label": [7]})
    pq.write_table(integers, tmp_path / "b.parquet", compression="none", use_dictionary=False)
    with pytest.raises(DatasetError, match="mixed"):
        fastpipe.ImageTable(str(tmp_path / "*.parquet"), index=tmp_path / "index")
