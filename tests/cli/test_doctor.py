"""``fastpipe doctor``: what it prints and writes, exit codes, and wrong usage."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import corpus
import pytest
from click.testing import CliRunner

import fastpipe
from fastpipe.cli import main
from fastpipe.cli.app import app
from fastpipe.tools.doctor import examine

slow_start = pytest.mark.skipif(sys.platform != "linux", reason="forks workers; spawned ones start slowly")
SHORT = ["--seconds", "0.3", "--batch-size", "4"]


@pytest.fixture(autouse=True)
def _two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "usable_cpus", lambda: 2)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    (root / "class").mkdir()
    for number in range(8):
        (root / "class" / f"{number}.jpg").write_bytes(corpus.jpeg(60, 80, seed=number))
    return root


@slow_start
def test_a_healthy_folder(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out, picture = tmp_path / "doctor.json", tmp_path / "doctor.png"
    arguments = ["doctor", str(root), *SHORT, "--gpu-rate", "1", "--json", str(out), "--plot", str(picture)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    for text in ("8 samples, batches of 4", "Where the time goes", "draw", "Findings", f"Picture: {picture}"):
        assert text in result.output
    assert json.loads(out.read_text(encoding="utf-8"))["gpu_rate"] == 1
    assert picture.stat().st_size > 10_000


@slow_start
def test_a_problem_is_exit_status_1_and_quiet_is_quiet(root: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", str(root), *SHORT, "--gpu-rate", "1e9", "--quiet"])
    assert (result.exit_code, result.output) == (1, "")


@slow_start
def test_a_dataset_of_the_users(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "doctors_patient.py").write_text(
        "import torch, fastpipe\n"
        "from fastpipe import transforms as T\n"
        "transform = T.Compose([T.Resize((16, 16)), T.ToTensor()])\n"
        "def loader():\n"
        f"    dataset = fastpipe.ImageFolder({str(root)!r}, transform)\n"
        "    return torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=1)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    short = ["--seconds", "0.3", "--json", "-"]
    values = json.loads(CliRunner().invoke(app, ["doctor", "-d", "doctors_patient:loader", *short]).stdout)
    assert (values["batch_size"], values["workers"], values["stages"]["output"]) == (4, 1, [16, 16])
    arguments = ["doctor", str(root), "-t", "doctors_patient:transform", "-b", "3", "-w", "2", *short]
    values = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert (values["batch_size"], values["workers"], values["stages"]["output"]) == (3, 2, [16, 16])


def test_versions(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--versions"])
    assert result.exit_code == 0, result.output
    lines = {line.split("  ")[0]: line for line in result.output.splitlines()}
    assert fastpipe.__version__ in lines["fastpipe"]
    assert "libjpeg" in lines["reader pil"]
    assert {"python", "torch", "numpy"} <= set(lines)
    out = tmp_path / "versions.json"
    assert CliRunner().invoke(app, ["doctor", "--versions", "--quiet", "--json", str(out)]).output == ""
    assert json.loads(out.read_text(encoding="utf-8"))["readers"]["pil"]["pillow"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "what is to be examined"),
        ([".", "--dataset", "train:dataset"], "one of them"),
        (["--dataset", "train:dataset", "--transform", "train:transform"], "has its own"),
        ([".", "--gpu-rate", "0"], "above 0"),
        ([".", "--seconds", "-1"], "above 0"),
        ([".", "--versions"], "examines nothing"),
        ([".", "--batch-size", "0"], "batch"),
    ],
    ids=["nothing", "both", "two transforms", "no rate", "no time", "versions of a folder", "no batch"],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--json", "nowhere/doctor.json"], "can't write nowhere"),
        (["--plot", "nowhere/doctor.png"], "can't write nowhere"),
        (["--plot", "doctor.docx"], "names none of the formats"),
    ],
    ids=["json", "plot", "format"],
)
def test_what_cannot_be_written_is_said_before_measuring(
    root: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--plot" in arguments:
        pytest.importorskip("matplotlib")
    monkeypatch.setattr(examine, "setup_of", lambda *arguments: pytest.fail("measured"))
    with pytest.raises(SystemExit) as caught:
        main(["doctor", str(root), *arguments])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err.replace("\\", "/")


def test_no_such_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["doctor", str(tmp_path / "nowhere")])
    assert caught.value.code == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("fastpipe: error: there is no ")
    assert printed.err.count("\n") == 1
