"""``fastpipe verify``: text, JSON, picture and exit codes."""

from __future__ import annotations

import json
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
    make_folder(tmp_path / "photos", 1, 2, sizes=((50, 70),))
    (tmp_path / "plan_to_verify.py").write_text(
        "from fastpipe import ImageFolder, transforms as T\ntransform = T.Compose([T.Resize(20), T.ToTensor()])\n"
        "def dataset(): return ImageFolder('photos', transform)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "plan_to_verify", raising=False)
    return tmp_path


def test_text_picture_and_json(project: Path) -> None:
    options = ["photos", "--transform", "plan_to_verify:transform", "--drawings", "1"]
    result = CliRunner().invoke(app, ["verify", *options, "--out", "worst.png", "--json", "found.json"])
    assert result.exit_code == 0, result.output
    assert "PASS: equal, byte for byte" in result.output
    assert "Picture: worst.png" in result.output
    assert "worst image" not in result.output.lower()
    assert Image.open(project / "worst.png").mode == "RGB"
    assert json.loads((project / "found.json").read_text(encoding="utf-8"))["schema"] == "fastpipe-verify/2"
    only = CliRunner().invoke(app, ["verify", *options, "--json", "-"])
    assert json.loads(only.stdout)["holds"] is True
    assert CliRunner().invoke(app, ["verify", *options, "--quiet"]).output == ""


def test_a_dataset(project: Path) -> None:
    result = CliRunner().invoke(app, ["verify", "--dataset", "plan_to_verify:dataset", "--drawings", "1"])
    assert result.exit_code == 0, result.output
    assert "2 of 2" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere"], 1, "there is no nowhere"),
        (["nowhere", "--out", "worst.docx"], 2, "no picture format"),  # said before anything is compared
        (["nowhere", "--out", "no/folder/worst.png"], 2, "can't write no/folder/worst.png"),
        (["nowhere", "--json", "no/folder/found.json"], 2, "give --json a place that can be written"),
        (["photos", "--images", "0"], 2, "--images"),
        (["photos", "--reader", "nope"], 2, "no reader is called 'nope'"),
        ([], 2, "give PATH or --dataset"),
        (["photos", "--dataset", "plan_to_verify:dataset"], 2, "give PATH or --dataset"),
        (["--dataset", "plan_to_verify:dataset", "--reader", "pil"], 2, "a dataset has its own"),
        (["--dataset", "plan_to_verify:transform"], 1, "a dataset of fastpipe's"),
    ],
    ids=["path", "picture", "place", "json", "images", "reader", "nothing", "both", "options", "no dataset"],
)
def test_errors(arguments: list[str], code: int, said: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["verify", *arguments])
    assert caught.value.code == code
    assert said in capsys.readouterr().err


def test_without_torchvision(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(SystemExit) as caught:
        main(["verify", "photos"])
    assert caught.value.code == 1
    err = capsys.readouterr().err
    assert "pip install torchvision" in err
    assert err.count("\n") == 1


def test_a_transform_that_raises_is_named_by_its_line_not_by_the_file(project: Path) -> None:
    (project / "failing.py").write_text(
        "from fastpipe import transforms as T\n"
        "def boom(image):\n"
        "    raise RuntimeError('boom')\n"
        "transform = T.Compose([T.RandomCrop(20), boom, T.ToTensor()])\n"
    )
    result = CliRunner().invoke(app, ["verify", "photos", "-t", "failing.py:transform"])
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert said.count("the transform fails") == 1  # not once for each file
    assert f"Note: the transform fails: RuntimeError: boom ({project}/failing.py, line 3)" in said
    assert "both refuse" not in said
