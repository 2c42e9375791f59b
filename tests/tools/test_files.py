"""Which files a tool looks at."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from fastpipe.errors import DatasetError
from fastpipe.tools.files import choose_files, dataset_of


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
