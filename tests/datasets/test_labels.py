"""Labels in lists that are text: numbers stay numbers, names are numbered, and a mixture is an error."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import fastpipe
from fastpipe.errors import DatasetError


def _listed(folder: Path, ending: str, labels: list[str]) -> fastpipe.ImageList:
    separator = {".csv": ",", ".tsv": "\t", ".txt": " "}[ending]
    lines = [f"{number}.jpg{separator}{label}" for number, label in enumerate(labels)]
    file = folder / f"list{ending}"
    file.write_text("\n".join([*([] if ending == ".txt" else [f"path{separator}label"]), *lines]) + "\n")
    return fastpipe.ImageList(file)


ENDINGS = [".csv", ".tsv", ".txt"]


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
    row = place + 1 + (ending != ".txt")
    with pytest.raises(DatasetError, match=rf"mixed: '\d+' \(.*is an integer, '{odd}' \(.*line {row}\)"):
        _listed(tmp_path, ending, labels)
    if odd not in ("nan", "inf", "2.0", "1.5"):
        labels = [f"{label}.5" if label != odd else label for label in labels]
        with pytest.raises(DatasetError, match="is a float"):
            _listed(tmp_path, ending, labels)
