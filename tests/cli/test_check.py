"""``fastpipe check``: what it prints and writes, its exit status, and its errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import corpus
import pytest
from click.testing import CliRunner, Result

from fastpipe.cli import main
from fastpipe.cli.app import app


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for label in ("ant", "bee"):
        (folder / label).mkdir(parents=True)
    (folder / "ant/good.jpg").write_bytes(corpus.jpeg(20, 30))
    (folder / "ant/really a png.jpg").write_bytes(corpus.files()["png-rgb"])
    (folder / "bee/cut.jpg").write_bytes(corpus.jpeg(40, 50)[:-100])
    (folder / "bee/empty.png").touch()
    (folder / "loose.jpg").touch()
    (folder / "ant/phone.HEIC").touch()
    (folder / "ant/notes.md").touch()
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, arguments), "--jobs", "1"])


def test_everything_on_one_folder(root: Path, tmp_path: Path) -> None:
    report = tmp_path / "findings.csv"
    result = run(root, "--report", report)
    assert result.exit_code == 1, result.output
    said = " ".join(result.output.split())
    for line in (
        f"4 files of {root} checked",
        "bad: 2 noted: 1 fine: 1",
        "truncated 1 the file ends before the image does",
        "mislabelled 1",
        "bad truncated bee/cut.jpg (image file is truncated",
        f"report: {report}",
        "not checked: 1 image beside the class folders",
        "not checked: images with endings that ImageFolder doesn't read: .heic 1",
        "classes without a file that can be trained on: bee",
    ):
        assert line in said.replace("\\", "/") or line in said
    with open(report, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(Path(row["path"]).name, row["verdict"], row["kinds"]) for row in rows] == [
        ("cut.jpg", "bad", "truncated"),
        ("empty.png", "bad", "empty"),
        ("really a png.jpg", "noted", "mislabelled"),
    ]
    assert run(root, "--quiet").exit_code == 1


def test_json_and_quiet(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "findings.txt"
    shown = run(root, "--json", "-", "--report", file, "--decode", "header")
    values = json.loads(shown.stdout)
    assert shown.exit_code == 1
    assert values["schema"] == "fastpipe-check/1"
    assert (values["files"], values["bad"], values["noted"], values["fine"]) == (4, 1, 1, 2)
    assert values["counts"] == {"empty": 1, "mislabelled": 1}
    assert [row["path"] for row in values["rows"]] == [str(Path("bee/empty.png")), str(Path("ant/really a png.jpg"))]
    assert "bad    empty" in file.read_text(encoding="utf-8")
    quiet = run(root, "--quiet", "--json", tmp_path / "quiet")
    assert (quiet.exit_code, quiet.output) == (1, "")
    assert json.loads((tmp_path / "quiet").read_text())["bad"] == 2


def test_a_sound_folder_is_exit_code_0(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/0.jpg").write_bytes(corpus.jpeg(20, 30))
    result = run(tmp_path, "--report", tmp_path / "findings.json")
    assert result.exit_code == 0
    assert json.loads((tmp_path / "findings.json").read_text())["rows"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "Missing argument"),
        (["x", "--decode", "half"], 2, "half"),
        (["x", "--timeout", "0"], 2, "more than 0"),
        (["x", "--jobs", "0"], 2, "jobs"),
        (["x", "--report", "x.doc"], 2, ".csv, .json, .txt"),
        (["nowhere"], 1, "there is no nowhere"),
        (["."], 1, "no image"),
    ],
)
def test_errors(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["check", *arguments])
    assert caught.value.code == code
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    assert code == 2 or (err.startswith("fastpipe: error: ") and err.count("\n") == 1)
