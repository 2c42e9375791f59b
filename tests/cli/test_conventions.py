"""Conventions of all commands: help, exit codes, pipes, Ctrl-C, completion."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any, Optional

import click
import corpus
import pytest
from click.testing import CliRunner

from fastpipe import __version__, core
from fastpipe.cli import main, parameters
from fastpipe.cli.app import app
from fastpipe.cli.doctor import doctor

GROUP: Any = app
COMMANDS = sorted(GROUP.commands)

WITHOUT_JSON: set[str] = {"preview", "run"}
"""Commands that print nothing that a program could use; ``run`` has ``--report FILE.json``."""


def exit_code(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert isinstance(caught.value.code, int)
    return caught.value.code


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"], terminal_width=80)
    assert result.exit_code == 0
    said = " ".join(result.output.split())
    assert f"Example: fastpipe {name}" in said
    assert "--quiet" in said
    assert "-q" in said
    assert name in WITHOUT_JSON or "--json" in said
    assert "\x1b" not in result.output
    assert not re.search(r"<(int|float|text|path)|RANGE|INTEGER|TEXT", result.output)  # the parser's words
    short = CliRunner().invoke(app, [name, "-h"], terminal_width=80)
    assert short.output == result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_and_argument_has_a_sentence_of_help(name: str) -> None:
    for parameter in GROUP.commands[name].params:
        text = parameter.help if isinstance(parameter, click.Option) else parameter.about.removesuffix("  [required]")
        assert text, f"{name} {parameter.name}"
        assert text.rstrip().endswith((".", "…", ")")), f"{name} {parameter.name}: {text}"


def test_hints_as_python_3_10_gives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, an annotation of a parameter whose default is None becomes an Optional of the whole."""
    plain = typing.get_type_hints

    def hints(function: Any, include_extras: bool) -> dict[str, Any]:
        defaults = inspect.signature(function).parameters
        found = plain(function, include_extras=include_extras)
        return {
            name: Optional[hint] if name in defaults and defaults[name].default is None else hint  # noqa: UP045
            for name, hint in found.items()
        }

    monkeypatch.setattr("fastpipe.cli.parameters.get_type_hints", hints)
    made = parameters.command(doctor)
    assert [one.to_info_dict() for one in made.params] == [
        one.to_info_dict() for one in GROUP.commands["doctor"].params
    ]


def test_the_list_of_commands_cuts_no_sentence_off() -> None:
    result = CliRunner().invoke(app, ["--help"], terminal_width=80)
    assert "..." not in result.output.partition("Commands:")[2]
    for name in COMMANDS:
        assert f"\n  {name} " in result.output
    assert result.output.partition("Commands:\n")[2].split()[0] == "run"


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_exit_code_2(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code([name, "--no-such-option"]) == 2
    printed = capsys.readouterr()
    assert "--no-such-option" in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_the_path_of_images_has_one_name_in_all_commands() -> None:
    names = {
        parameter.metavar
        for command in GROUP.commands.values()
        for parameter in command.params
        if parameter.param_type_name == "argument"
    }
    assert {name.strip("[]") for name in names} == {
        "PATH",
        "PATH|MODULE:NAME",
        "SOURCE",
        "TARGET",
        "SCRIPT [ARGUMENTS]…",
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_a_place_that_isn_t_there_is_told_in_a_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code([name, os.path.join("no", "such", "place")]) in (1, 2)
    printed = capsys.readouterr()
    assert printed.out == ""
    if not printed.err.startswith("Usage:"):  # else something else is missing on the command line
        assert printed.err.startswith("fastpipe: error: ")
        assert os.path.join("no", "such", "place") in printed.err or "torchvision, which doesn't load" in printed.err
        assert printed.err.count("\n") == 1


@pytest.mark.parametrize("name", sorted({*COMMANDS} - {"pack", "run", "unpack"}))
def test_an_empty_place_is_told_as_a_pair_of_quotes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code([name, ""]) == 1
    assert "''" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_is_a_line_and_130(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    command = GROUP.commands[name]
    monkeypatch.setattr(type(command), "invoke", interrupted)
    monkeypatch.setattr(type(command), "parse_args", lambda *arguments: [])
    with pytest.raises(SystemExit) as caught:
        GROUP.main([name], "fastpipe")
    assert caught.value.code == 130
    assert capsys.readouterr().err.strip() == "fastpipe: interrupted"


def test_ctrl_c_while_everything_is_still_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fastpipe.cli.app.app", interrupted)
    assert exit_code(["--version"]) == 130
    assert capsys.readouterr().err == "fastpipe: interrupted\n"


def test_python_m_fastpipe() -> None:
    ran = run_python("-m", "fastpipe", "--version")
    built = f"core: {core.build()}; {core.isa()}" if core.available() else f"core: none, {core.why_not()}"
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"fastpipe {__version__}\n{built}\n", "")


def test_the_version_of_a_switched_off_core() -> None:
    ran = run_python("-m", "fastpipe", "--version", FASTPIPE_CORE="off")
    lines = ran.stdout.splitlines()
    assert (ran.returncode, lines[0]) == (0, f"fastpipe {__version__}")
    assert lines[1].startswith("core: none, the core is switched off by FASTPIPE_CORE=off")


def test_help_needs_no_torch() -> None:
    """Help and completion come at once: what a command needs is imported when it runs."""
    code = (
        "import sys\n"
        "from fastpipe.cli import main\n"
        "try:\n"
        "    main(['bench', '--help'])\n"
        "finally:\n"
        "    assert not {'torch', 'cv2', 'numpy', 'matplotlib'} & set(sys.modules), 'heavy'\n"
    )
    ran = run_python("-c", code)
    assert ran.returncode == 0, ran.stderr


def test_a_closed_pipe_ends_help_without_a_traceback() -> None:
    program = subprocess.Popen(
        [sys.executable, "-m", "fastpipe", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.close()
    assert b"Traceback" not in program.stderr.read()
    program.stderr.close()
    program.wait()


def test_completion_knows_the_commands_and_their_options() -> None:
    def completed(words: str, number: int) -> list[str]:
        ran = run_python(
            "-c",
            "from fastpipe.cli import main; main()",
            _FASTPIPE_COMPLETE="bash_complete",
            COMP_WORDS=words,
            COMP_CWORD=str(number),
        )
        return [line.partition(",")[2] for line in ran.stdout.splitlines()]

    assert set(COMMANDS) <= set(completed("fastpipe ", 1))
    assert completed("fastpipe con", 1) == ["configure"]
    assert {"--json", "--rounds"} <= set(completed("fastpipe bench --", 2))


@pytest.mark.parametrize("command", ["bench", "doctor", "index", "preview", "verify"])
def test_a_url_is_a_place(command: str, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "one.jpg").write_bytes(corpus.jpeg(30, 40))
    more = {
        "bench": ["--rounds", "1", "--workers", "0", "--readers", "pil", "--json", str(tmp_path / "bench.json")],
        "doctor": ["--seconds", "0.2", "--batch-size", "1", "--workers", "0", "--gpu-rate", "1"],
        "preview": ["--out", str(tmp_path / "grid.png")],
    }
    outcome = CliRunner().invoke(app, [command, tmp_path.as_uri(), *more.get(command, [])])
    assert outcome.exit_code == 0, outcome.output
