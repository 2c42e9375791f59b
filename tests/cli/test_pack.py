"""``fastpipe pack`` and ``fastpipe unpack``: what they print and write, their exit status, and their errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import corpus
import pytest
from click.testing import CliRunner, Result

import fastpipe
from fastpipe.cli import main
from fastpipe.cli.app import app

pytestmark = pytest.mark.needs_core


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "root"
    for name in ("ant/1.jpg", "ant/2.jpg", "bee/3.jpeg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(corpus.jpeg(20, 30))
    (folder / "bee/flat.png").write_bytes(corpus.files()["png-rgb"])
    (folder / "bee/notes.txt").touch()
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_a_folder_there_and_back(root: Path, tmp_path: Path) -> None:
    result = run("pack", root, tmp_path / "out.zip", "--jobs", 1)
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    for line in (
        f"3 images packed to {tmp_path / 'out.zip'} in",
        "not packed: 1 it is PNG, no JPEG",
        "files with the endings .txt 1",
        "bytes: ",
    ):
        assert line in said
    assert len(fastpipe.ImageFolder(tmp_path / "out.zip")) == 4
    again = run("pack", root, tmp_path / "out.zip")
    assert "4 files of 4 were there before" in again.output
    result = run("unpack", tmp_path / "out.zip", tmp_path / "back")
    assert result.exit_code == 0, result.output
    assert "3 images unpacked to" in result.output
    run("pack", root, tmp_path / "out")
    assert (tmp_path / "out" / "fastpipe-pack.jsonl").exists()
    assert ".jsonl" not in run("unpack", tmp_path / "out", tmp_path / "again").output
    assert len(fastpipe.ImageFolder(tmp_path / "back")) == 4


def test_json_and_quiet(root: Path, tmp_path: Path) -> None:
    result = run("pack", root, tmp_path / "{0..}.tar", "--shard-samples", 2, "--max-side", 10, "--json", "-")
    about: dict[str, Any] = json.loads(result.stdout)
    assert about.pop("seconds") > 0
    smaller = about.pop("smaller")
    assert smaller["images"] == 4
    assert (about["schema"], about["command"]) == ("fastpipe-pack/2", "pack")
    assert (about["files"], about["converted"], about["parts"], about["resumed"]) == (4, 3, 2, 0)
    assert about["kept"] == {"it is PNG, no JPEG": 1}
    assert about["left_out"] == {".txt": 1}
    result = run("pack", root, tmp_path / "out", "--quiet", "--json", tmp_path / "out.json")
    assert (result.exit_code, result.output) == (0, "")
    assert json.loads((tmp_path / "out.json").read_text())["converted"] == 3


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["ROOT", "ROOT/out"], 1, "lies in the source"),
        (["ROOT", "s3://bucket/out"], 1, "is written on a disk of this machine"),
        (["ROOT", "OUT", "--max-side", "5", "--short-side", "5"], 2, "so give one"),
        (["ROOT", "OUT", "--shard-size", "large"], 2, "shard_size='large'"),
        (["ROOT", "OUT", "--label", "label"], 2, "columns of Parquet files"),
        (["ROOT/none", "OUT"], 1, "there is no"),
    ],
)
def test_errors_are_a_line(
    root: Path, tmp_path: Path, arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"ROOT": str(root), "OUT": str(tmp_path / "out")}
    given = [argument.replace("ROOT", places["ROOT"]).replace("OUT", places["OUT"]) for argument in arguments]
    with pytest.raises(SystemExit) as caught:
        main(["pack", *given])
    printed = capsys.readouterr()
    assert (caught.value.code, printed.out, printed.err.count("\n")) == (status, "", 1)
    assert said in printed.err
    assert not (tmp_path / "out").exists()


def test_interrupted(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fastpipe.packing.pack_run.make", interrupted)
    result = run("pack", root, tmp_path / "out.tar")
    assert result.exit_code == 130
    assert "interrupted; the same command continues from here" in result.output
    monkeypatch.undo()
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "cache"))
    assert run("pack", root, tmp_path / "out.tar").exit_code == 0
