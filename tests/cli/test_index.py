"""``fastpipe index``: what it prints and writes, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from full_disk import full_disk
from PIL import Image

from fastpipe import ImageFolder
from fastpipe.cli import main
from fastpipe.cli.app import app
from fastpipe.reporting.output import pluralize


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for label in ("ant", "bee"):
        (root / label).mkdir(parents=True)
        Image.new("RGB", (31, 17)).save(root / label / "plain.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (9, 300)).save(root / "ant/progressive.jpg", progressive=True, exif=exif)
    Image.new("CMYK", (20, 10)).save(root / "ant/cmyk.JPG")
    Image.new("RGB", (5, 6)).save(root / "bee/really a png.jpg", format="PNG")
    (root / "bee/zero.webp").write_bytes(b"")
    return root


def test_statistics(photos: Path, tmp_path: Path) -> None:
    file = tmp_path / "statistics.json"
    result = CliRunner().invoke(app, ["index", str(photos), "--stats", "--json", str(file)])
    assert result.exit_code == 0, result.output
    values = json.loads(file.read_text(encoding="utf-8"))
    sizes = sorted(path.stat().st_size for path in photos.rglob("*.*"))
    assert values == {
        "root": str(photos),
        "files": 6,
        "classes": {"ant": 3, "bee": 3},
        "endings": {"jpg": 5, "webp": 1},
        "bytes": {"total": sum(sizes), "smallest": 0, "median": int((sizes[2] + sizes[3]) / 2), "largest": sizes[-1]},
        "empty": 1,
        "unreachable": 0,
    }
    for line in (
        "6 files in 2 classes",
        "bee 3",
        "jpg 5",
        "empty files 1",
        "unreachable files 0",
    ):
        assert line in " ".join(result.output.split())


def test_it_is_the_index_that_image_folder_opens(photos: Path, tmp_path: Path) -> None:
    for options, index in (([], "auto"), (["--at", str(tmp_path / "here")], tmp_path / "here")):
        result = CliRunner().invoke(app, ["index", str(photos), *options])
        assert result.exit_code == 0, result.output
        dataset = ImageFolder(photos, index=index)
        assert str(dataset.index.location) in result.output
        assert dataset.index.sizes is not None


def test_refresh_looks_at_files_again(photos: Path) -> None:
    def empty(*options: str) -> int:
        result = CliRunner().invoke(app, ["index", str(photos), "--json", "-", *options])
        return json.loads(result.stdout)["empty"]

    assert empty() == 1
    with open(photos / "bee/zero.webp", "r+b") as file:
        Image.new("RGB", (2, 1)).save(file, format="WEBP")
    assert empty("--refresh") == 0


def test_many_classes_are_shortened(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"c{number:02}").mkdir()
        (tmp_path / f"c{number:02}" / "x.png").touch()
    result = CliRunner().invoke(app, ["index", str(tmp_path), "--stats"])
    assert "10 more classes" in result.output


def test_a_folder_without_images_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "notes.txt").touch()
    with pytest.raises(SystemExit) as caught:
        main(["index", str(tmp_path)])
    assert caught.value.code == 1
    said = capsys.readouterr()
    assert f"there is no image in {tmp_path}" in said.err
    assert "0 files" not in said.out


def test_one_of_each_is_singular(tmp_path: Path) -> None:
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "x.png").touch()
    assert "1 file in 1 class of " in CliRunner().invoke(app, ["index", str(tmp_path)]).output
    assert [pluralize(count, thing) for thing in ("file", "class", "index") for count in (0, 1, 2000)] == [
        *("0 files", "1 file", "2,000 files"),
        *("0 classes", "1 class", "2,000 classes"),
        *("0 indexes", "1 index", "2,000 indexes"),
    ]


def test_no_such_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["index", str(tmp_path / "nowhere")])
    assert caught.value.code == 1
    assert "nowhere is not a folder" in capsys.readouterr().err


@pytest.mark.filterwarnings("always::fastpipe.errors.FastpipeWarning")
@pytest.mark.parametrize("options", [[], ["--json", "-"]], ids=["text", "json"])
def test_an_index_that_is_not_kept_is_exit_code_1(
    options: list[str], photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a full disk training goes on without; the command has done nothing then."""
    with full_disk(10), pytest.raises(SystemExit) as ended:
        main(["index", str(photos), *options])
    said = capsys.readouterr()
    assert ended.value.code == 1
    assert "fastpipe: warning: the index can't be kept at " in said.err
    assert f"fastpipe: error: the index of {photos} isn't kept: give --at" in said.err
    assert not options or json.loads(said.out)["files"] == 6
    with pytest.raises(SystemExit) as ended:
        main(["index", str(photos), *options])
    assert not ended.value.code
