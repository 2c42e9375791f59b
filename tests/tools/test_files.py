"""Which files a tool looks at."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import torchvision_here  # noqa: F401 - torchvision beside a CPU torch
from PIL import Image

from fastpipe import transforms as T
from fastpipe import verify
from fastpipe.errors import DatasetError, FastpipeWarning
from fastpipe.tools.bench.samples import sample_folder
from fastpipe.tools.check.files import index_of
from fastpipe.tools.doctor.loader_setup import open_dataset
from fastpipe.tools.inputs import choose_files, dataset_of
from fastpipe.tools.preview import preview_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder, count in (("a", 1), ("b", 50), ("c/deep", 2)):
        (tmp_path / folder).mkdir(parents=True)
        for number in range(count):
            (tmp_path / folder / f"{number}.JPG").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / ".hidden.jpg").write_text("")
    return tmp_path


def test_files_from_all_folders_in_turn(root: Path) -> None:
    chosen = choose_files(root, 3)
    assert {Path(path).relative_to(root).parts[0] for path in chosen} == {"a", "b", "c"}
    assert choose_files(root, 3) == chosen
    everything = choose_files(root, 1000)
    assert len(everything) == len(set(everything)) == 53
    assert any(choose_files(root, 3, seed) != chosen for seed in range(1, 5))


def test_one_file_and_several_whatever_their_extension(root: Path) -> None:
    odd = root / "odd.dat"
    odd.write_bytes(b"")
    assert choose_files(str(odd), 5) == [str(odd)]
    given = [root / "a" / "0.JPG", root / "b" / "3.JPG", odd]
    assert choose_files(given, 5) == list(map(str, given))
    assert set(choose_files(given, 2)) < set(map(str, given))
    assert len(choose_files([root / "a", odd], 5)) == 2


def test_a_link_that_leads_back_ends(root: Path) -> None:
    try:
        (root / "b" / "back").symlink_to(root, target_is_directory=True)
    except OSError:
        pytest.skip("no links here")
    assert len(choose_files(root, 1000)) == 53


def test_folders_that_cannot_be_listed_are_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the commands, too; root may list everything, so the listing itself fails here."""
    real = os.scandir

    def refused(folder: str | int) -> Any:
        if not isinstance(folder, int) and Path(folder).name == "b":  # an open folder is a number
            raise PermissionError(13, "Permission denied", folder)
        return real(folder)

    monkeypatch.setattr("fastpipe.tools.inputs.os.scandir", refused)
    with pytest.warns(FastpipeWarning, match=rf"1 folder can't be listed.*{re.escape(str(root / 'b'))}\. Check"):
        found = choose_files(root, 8)
    assert sorted(Path(path).parent.name for path in found) == ["a", "deep", "deep"]
    with pytest.warns(FastpipeWarning, match="1 folder can't be listed"):
        preview_files(root, None, 3)
    with pytest.warns(FastpipeWarning, match="1 folder can't be listed"):
        verify(T.ToTensor(), root)


def test_errors(root: Path) -> None:
    with pytest.raises(DatasetError, match="there is no"):
        choose_files(root / "missing", 1)
    (root / "empty").mkdir()
    with pytest.raises(DatasetError, match="no image is found there"):
        choose_files(root / "empty", 1)
    with pytest.raises(DatasetError, match="no image is found there"):
        choose_files([], 1)


def test_a_dataset_of_them(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (5, 4)).save(tmp_path / "cat" / "0.png")
    dataset = dataset_of(tmp_path, None, 3)
    assert dataset.classes == ["cat"]
    assert dataset[0][0].size == (5, 4)


def test_links_that_lead_to_themselves(tmp_path: Path) -> None:
    """`is_dir` of such a link raises; as an image's name it is one that can't be opened."""
    Image.new("RGB", (9, 8)).save(tmp_path / "good.png")
    for name in ("loop", "loop.jpg"):
        try:
            (tmp_path / name).symlink_to(tmp_path / name)
        except OSError:
            pytest.skip("no links here")
    chosen = choose_files(tmp_path, 9)
    assert {Path(path).name for path in chosen} == {"good.png", "loop.jpg"}
    sheet = preview_files(tmp_path, None, 9, views=1)
    assert len(sheet.failed) == 1
    assert "loop.jpg" in sheet.failed[0]
    certificate = verify(T.ToTensor(), tmp_path, drawings=1)
    assert certificate.holds
    assert any("both refuse" in note and "loop.jpg" in note for note in certificate.notes)
    assert index_of(tmp_path).path(0).endswith("good.png")


def test_a_path_means_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    photo = tmp_path / "photos" / "cat" / "0.png"
    Image.new("RGB", (5, 4)).save(photo)
    (tmp_path / "photo-without-ending").write_bytes(photo.read_bytes())
    for name in ("list.txt", "list-without-ending"):
        (tmp_path / name).write_text(f"{photo} 7\n")
    for given, wanted in (
        ("~/photos", [(str(photo), 0)]),
        ("~/photos/cat", [(str(photo), 0)]),
        (Path("~/photos/cat/0.png"), [(str(photo), 0)]),
        ("~/photo-without-ending", [(str(tmp_path / "photo-without-ending"), 0)]),
        ("~/list.txt", [(str(photo), 7)]),
        ("~/list-without-ending", [(str(photo), 7)]),
    ):
        assert list(open_dataset(given, None).samples) == wanted
        assert index_of(given).path(0) == wanted[0][0]
    assert choose_files("~/photos", 3) == [str(photo)]
    assert [sample.name for sample in sample_folder("~/photos")] == [str(photo)]
