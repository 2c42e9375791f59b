"""``fastpipe preview``: writes a picture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image
from torchvision_here import torchvision  # noqa: F401  (makes `import torchvision` work in the package)

from fastpipe.cli import main
from fastpipe.cli.app import app
from fastpipe.tools.bench.samples import make_folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_folder(tmp_path / "photos", 1, 3, sizes=((50, 70),))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_picture_is_written(project: Path) -> None:
    result = CliRunner().invoke(app, ["preview", "photos", "--n", "2"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Written to preview.png: ")
    wide = Image.open(project / "preview.png").width
    options = ["--n", "2", "--views", "1", "--side", "64", "--out", "other.jpg", "--quiet"]
    result = CliRunner().invoke(app, ["preview", "photos", *options, "-t", "fastpipe.transforms:RandomHorizontalFlip"])
    assert (result.exit_code, result.output) == (0, "")
    assert Image.open(project / "other.jpg").width < wide


def test_what_cannot_be_shown_is_said_and_nothing_at_all_is_exit_code_1(project: Path) -> None:
    files = sorted((project / "photos").rglob("*.jpg"))
    files[0].write_bytes(b"not an image")
    options = ["--n", "9", "--views", "1", "--out", "some.png"]
    result = CliRunner().invoke(app, ["preview", "photos", *options])
    assert result.exit_code == 0
    assert result.output.count("Not shown: ") == 1
    assert files[0].name in result.output
    assert CliRunner().invoke(app, ["preview", str(files[0]), *options]).exit_code == 1


@pytest.mark.parametrize("error", ["RuntimeError", "ValueError", "AssertionError"])
def test_a_transform_that_raises_is_one_line_with_the_users_own(
    error: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = f"""import torchvision.transforms as T
def careful(image):
    return T.functional.hflip(image)
def boom(image):
    careful(image)
    raise {error}("boom")
transform = T.Compose([T.RandomCrop(20), T.Lambda(boom), T.ToTensor()])
"""
    (project / "train.py").write_text(code)
    with pytest.raises(SystemExit) as ended:
        main(["preview", "photos", "-t", "train.py:transform"])
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("fastpipe: error: nothing can be shown of all 3 samples, such as ")
    assert f"the transform fails: {error}: boom ({project}/train.py, line 6)" in said
    assert said.count("\n") == 1
    assert not (project / "preview.png").exists()


def test_a_transform_that_raises_for_one_image_leaves_the_others(project: Path) -> None:
    odd = sorted((project / "photos").rglob("*.jpg"))[0]
    Image.new("RGB", (33, 22)).save(odd)
    (project / "train.py").write_text(
        "def transform(image):\n    assert image.width > 50, 'too narrow'\n    return image\n"
    )
    result = CliRunner().invoke(app, ["preview", "photos", "-t", "train.py:transform"])
    assert result.exit_code == 0, result.output
    assert "Written to preview.png" in result.output
    said = " ".join(result.output.split())
    assert f"{odd.name}: the transform fails: AssertionError: too narrow (" in said
    assert "train.py, line 2)" in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere"], 1, "there is no nowhere"),
        (["nowhere", "--out", "no/such/folder.png"], 2, "can't write no/such/folder.png"),  # before it is drawn
        (["nowhere", "--out", "grid"], 2, "grid: no picture format has that extension; take .png or .jpg"),
        (["photos", "--transform", "photos"], 1, "give MODULE:NAME"),
    ],
    ids=["path", "out", "ending", "transform"],
)
def test_errors(arguments: list[str], code: int, said: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["preview", *arguments])
    assert caught.value.code == code
    assert said in capsys.readouterr().err


def test_many_files_make_several_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos = tmp_path / "many"
    photos.mkdir()
    for number in range(45):
        Image.new("RGB", (20, 10)).save(photos / f"{number}.png")
    out = tmp_path / "grid.png"
    with pytest.raises(SystemExit) as caught:
        main(["preview", str(photos), "--n", "45", "--views", "1", "--side", "16", "--out", str(out)])
    assert caught.value.code == 0
    with Image.open(out) as first, Image.open(tmp_path / "grid-2.png") as second:
        assert first.height > 5 * second.height
    assert "grid-2.png" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["preview", str(photos), "--n", "4000"])
    assert caught.value.code == 2
