"""``fastpipe explain``: a transform, a dataset, or a folder with a transform."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from fastpipe.cli import main
from fastpipe.cli.app import app
from fastpipe.tools.bench.samples import make_folder

PLAN = """
from fastpipe import transforms as T
class Holder:
    transform = T.Compose([T.RandomResizedCrop(32), T.Lambda(lambda image: image.rotate(3)), T.ToTensor()])
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "plan_to_explain.py").write_text(PLAN)
    make_folder(tmp_path / "photos", 1, 2, sizes=((50, 70),))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "plan_to_explain", raising=False)
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["explain", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def failure(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    with pytest.raises(SystemExit) as caught:
        main(["explain", *arguments])
    return caught.value.code, capsys.readouterr().err


def test_a_transform(project: Path) -> None:
    output = run("plan_to_explain:Holder.transform")
    assert "RandomResizedCrop" in output
    assert "Lambda() is called with each image" in output


def test_a_folder_with_a_transform_and_with_the_standard_one(project: Path) -> None:
    output = run("photos", "--transform", "plan_to_explain.py:Holder.transform")
    assert "of 50×70" in output
    assert output.startswith("photos, 3 transforms\n")
    assert "Lambda() is called with each image" in output
    assert "the whole transform is planned" in run("photos")


def test_size_json_and_quiet(project: Path) -> None:
    values = json.loads(run("photos", "--size", "1000x2000", "--json", "-"))
    assert values["shape"] == [1000, 2000]
    assert run("photos", "--quiet", "--json", "plan.json") == ""
    assert json.loads((project / "plan.json").read_text(encoding="utf-8"))["shape"] == [50, 70]


def test_errors(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = failure(["photos", "--size", "big"], capsys)
    assert code == 2
    assert "such as 375x500" in said
    code, said = failure(["no/photos", "--transform", "plan_to_explain:Holder.transform"], capsys)
    assert code == 1
    assert "there is no no" in said.replace("\\", "/")
    code, said = failure(["photo"], capsys)
    assert code == 1
    assert "there is no file or folder photo; did you mean photos?" in said
    code, said = failure(["no/photos"], capsys)
    assert code == 1
    assert "there is no file or folder no/photos; to explain what a script makes, give MODULE:NAME" in said


def test_a_loader(project: Path) -> None:
    (project / "loading.py").write_text(
        f"{PLAN}\nimport fastpipe, torch\n"
        "dataset = fastpipe.ImageFolder('photos', Holder.transform, index=None)\n"
        "loader = torch.utils.data.DataLoader(torch.utils.data.ConcatDataset([dataset, dataset]))\n"
    )
    assert run("loading.py:loader").startswith("DataLoader of ConcatDataset of ImageFolder of photos, 3 transforms")


@pytest.mark.parametrize("code", ["import no_such_package_here", "def x():\n    return no_such_package_here"])
def test_the_user_s_own_error_is_told_with_its_line(
    code: str, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "fails_to_explain", raising=False)
    (project / "fails_to_explain.py").write_text(f"\n\n{code}\n")
    status, said = failure(["fails_to_explain.py:x"], capsys)
    assert status == 1
    assert "no_such_package_here" in said
    assert f"fails_to_explain.py, line {3 + code.count(chr(10))})" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("folder", ["", "sub"])
def test_a_script_without_its_transform_s_name_says_what_to_write(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    script = Path(folder) / "train.py"
    (tmp_path / script).write_text("transform = None\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["explain", str(script)])
    assert caught.value.code == 1
    assert f"Write {script}:NAME, such as {script}:transform" in capsys.readouterr().err


def test_no_example_is_made_up_of_what_is_no_image(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "notes.txt").write_text("buy milk")
    code, said = failure(["notes.txt"], capsys)
    assert code == 1
    assert said.startswith("fastpipe: error: can't decode ")
    assert "notes.txt" in said
    assert "give --size HxW" in said
    assert "of 40×30" in run("notes.txt", "--size", "40x30")
