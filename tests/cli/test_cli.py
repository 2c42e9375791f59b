"""The command line: through click's runner, through `main`, and as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from fastpipe.cli import main
from fastpipe.cli.app import app
from fastpipe.config import MachineConfig, current_config
from fastpipe.tools.bench.samples import make_folder

SMALL = ["--images", "2", "--rounds", "1", "--workers", "0"]
HUGE = str(10**30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("photos")
    make_folder(root, 1, 4, kinds=("jpeg-420", "png"), sizes=((50, 70),))
    return str(root)


def exit_code(arguments: Sequence[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    code = caught.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize("command", ["bench", "configure", "explain"])
def test_help_shows_an_example(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: fastpipe {command}" in result.output


@pytest.mark.needs_core
@pytest.mark.needs_reader("cv2")
def test_bench_prints_tables_and_writes_json(folder: str, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    result = CliRunner().invoke(app, ["bench", folder, *SMALL, "--readers", "pil,cv2", "--json", str(file)])
    assert result.exit_code == 0, result.output
    assert "jpeg: 2 images" in result.output
    assert "png: 2 images" in result.output
    assert "* chosen:" in result.output
    values = json.loads(file.read_text(encoding="utf-8"))
    assert {one["reader"] for one in values["results"]} == {"pil", "cv2"}
    assert set(values["choices"]) == {"jpeg", "png"}
    assert not MachineConfig.path().exists()


def test_json_alone_goes_to_standard_output(folder: str) -> None:
    result = CliRunner().invoke(app, ["bench", folder, *SMALL, "--readers", "pil", "--format", "png", "--json", "-"])
    assert json.loads(result.stdout)["images"].keys() == {"png"}


def test_what_can_t_be_written_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fastpipe.tools.bench.result.measure", None)
    (tmp_path / "file").touch()
    assert exit_code(["bench", *SMALL, "--json", str(tmp_path / "file" / "x")]) == 2
    assert "give --json a place that can be written" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert exit_code(["doctor", str(tmp_path), "--plot", str(tmp_path / "x.png")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_quiet_is_quiet(folder: str) -> None:
    result = CliRunner().invoke(app, ["configure", folder, *SMALL, "--readers", "pil", "--quiet"])
    assert (result.exit_code, result.output) == (0, "")
    assert current_config().readers == {"jpeg": "pil", "png": "pil"}


@pytest.mark.needs_core
@pytest.mark.needs_reader("imageio", "turbojpeg")
def test_configure_show_set_reset(folder: str) -> None:
    run = CliRunner().invoke
    assert "No config file" in run(app, ["configure", "--show"]).output
    result = run(app, ["configure", folder, *SMALL, "--format", "png", "--readers", "imageio"])
    assert result.exit_code == 0, result.output
    assert "png = imageio" in result.output
    assert "png = pil" in run(app, ["configure", "--set", "jpg=turbojpeg", "--set", "PNG=pil"]).output
    stored = MachineConfig.load()
    assert stored.readers == {"jpeg": "turbojpeg", "png": "pil"}
    assert stored.measured["png"].keys() == {"imageio"}
    assert "jpeg = turbojpeg" in run(app, ["configure", "--show"]).output
    shown = json.loads(run(app, ["configure", "--show", "--json", "-"]).stdout)
    assert shown["readers"] == {"jpeg": "turbojpeg", "png": "pil"}
    assert (shown["exists"], shown["differs"], shown["override"]) == (True, [], None)
    assert run(app, ["configure", "--show", "--quiet"]).output == ""
    assert run(app, ["configure", "--set", "jpeg=pil", "--quiet"]).output == ""
    assert "Removed" in run(app, ["configure", "--reset"]).output
    assert "already" in run(app, ["configure", "--reset"]).output
    assert current_config() == MachineConfig()


def test_show_says_what_overrides_and_what_is_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    MachineConfig(readers={"jpeg": "cv2"}, machine={"cpus": -1}).save()
    result = CliRunner().invoke(app, ["configure", "--show"])
    assert result.exit_code == 1
    shown = result.output
    assert "is not used" in shown
    assert "was -1" in shown
    result = CliRunner().invoke(app, ["configure", "--set", "png=pil"])
    assert "dropped" in result.output
    assert MachineConfig.load().readers == {"png": "pil"}
    monkeypatch.setenv("FASTPIPE_READER", "pil")
    assert "FASTPIPE_READER=pil overrides it" in CliRunner().invoke(app, ["configure", "--show"]).output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["configure", "--set", "jpeg=nope"], "no reader is called 'nope'"),
        (["configure", "--set", "webp=turbojpeg"], "not webp"),
        (["configure", "--set", "jpeg"], "FORMAT=READER"),
        (["configure", "--set", "jepg=pil"], "no format is called 'jepg'"),
        (["bench", "no/such/folder"], "there is no"),
        (["bench", "--readers", "nope"], "no reader is called 'nope'"),
        (["bench", "--format", "gif"], "can't make 'gif'"),
        (["bench", *SMALL, "--format", "png", "--readers", "turbojpeg"], "decodes png"),
        (["bench", ""], "there is no path in ''"),
        (["bench", "x" * 5000], "there is no xxx"),
        (["bench", "--readers", " "], "readers=[' '] names none"),
        (["bench", "--format", ","], "formats=[','] names none"),
        (["bench", "--images", HUGE], "images=1000"),
        (["bench", "--rounds", HUGE], "rounds=1000"),
        (["bench", "--workers", HUGE], "workers=1000"),
        (["configure", ""], "there is no path in ''"),
        (["check", "FOLDER", "--jobs", HUGE], "jobs=1000"),
        (["check", "FOLDER", "--size", HUGE], "size=1000"),
        (["doctor", "FOLDER", "--workers", HUGE], "workers=1000"),
        (["doctor", "FOLDER", "--batch-size", HUGE], "batch_size=1000"),
        (["doctor", "FOLDER", "--seconds", "inf"], "seconds=inf"),
        (["doctor", "FOLDER", "--gpu-rate", "1e400"], "gpu_rate=inf"),
        (["index", "FOLDER", "--label", "cls"], "--image and --label are for shards"),
        pytest.param(["pack", "FOLDER", "packed", "--jobs", HUGE], "jobs=1000", marks=pytest.mark.needs_core),
        pytest.param(
            ["pack", "FOLDER", "packed", "--shard-samples", HUGE], "shard_samples=1000", marks=pytest.mark.needs_core
        ),
        pytest.param(
            ["pack", "FOLDER", "packed", "--shard-size", "9" * 400], "shard_size='999", marks=pytest.mark.needs_core
        ),
        (["preview", ""], "there is no path in ''"),
        (["preview", "FOLDER", "--views", HUGE], "views=1000"),
        (["preview", "FOLDER", "--side", HUGE], "side=1000"),
        (["verify", ""], "there is no path in ''"),
        (["verify", "FOLDER", "--reader", ""], "reader='': give a reader's name"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_errors_take_one_line_and_no_traceback(
    arguments: list[str], said: str, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [folder if word == "FOLDER" else word for word in arguments]
    if "turbojpeg" in "".join(arguments):
        pytest.importorskip("turbojpeg", exc_type=ImportError)
    assert exit_code(arguments) == (1 if said.startswith("there is no") else 2)  # of PATH, or of an option
    err = capsys.readouterr().err
    assert err.startswith("fastpipe: error: ")
    assert said in err
    assert err.count("\n") == 1


def test_a_broken_config_file_is_named_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    MachineConfig.path().write_text('[readers]\njpeg = "cv2\n', encoding="utf-8")
    assert exit_code(["configure", "--show"]) == 0  # nothing stops for it
    said = " ".join(capsys.readouterr().out.split())
    assert f"{MachineConfig.path()}: " in said
    assert "line 2" in said
    assert "built-in defaults apply" in said
    assert exit_code(["configure", "--reset"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["configure", "--show", "--reset"],
        ["configure", "x", "--show"],
        ["configure", "--reset", "--json", "-"],
        ["bogus"],
        ["bench", "--rounds", "0"],
    ],
)
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str]) -> None:
    assert exit_code(arguments) == 2


@pytest.mark.slow
def test_a_second_process_uses_what_was_configured(folder: str) -> None:
    """As a real program, in a pipe: no escape codes, and the file serves the next process and its workers."""
    command = [sys.executable, "-m", "fastpipe", "configure", folder, *SMALL[:-1], "1", "--readers", "pil,cv2"]
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=_utf8(), check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert "\x1b" not in ran.stdout
    assert f"Written to {MachineConfig.path()}" in ran.stdout
    code = (
        "from fastpipe.config import current_config\n"
        "print(current_config().reader_for('JPEG'), current_config().reader_for('PNG'))"
    )
    second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    stored = MachineConfig.load()
    assert second.stdout.split() == [stored.readers["jpeg"], stored.readers["png"]]
    assert "pil" in stored.measured["jpeg"]


@pytest.mark.slow
def test_a_closed_pipe_leaves_no_traceback_and_still_configures(folder: str) -> None:
    program = subprocess.Popen(
        [sys.executable, "-m", "fastpipe", "configure", folder, *SMALL, "--readers", "pil"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_utf8(),
    )
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.close()
    stderr = program.stderr.read().decode()
    program.stderr.close()
    assert program.wait() == 1
    assert stderr == ""
    assert MachineConfig.load().readers == {"jpeg": "pil", "png": "pil"}


def _utf8() -> dict[str, str]:
    return {**os.environ, "PYTHONIOENCODING": "utf-8"}


def test_showing_the_config_waits_for_no_torch() -> None:
    code = "import sys; from fastpipe.cli.app import app; app(['configure', '--show'], standalone_mode=False); "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
