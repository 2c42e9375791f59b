"""The JSON, the tables, and where they go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fastpipe import progress_bar
from fastpipe.errors import ConfigError
from fastpipe.reporting.output import check_writable, make_console
from fastpipe.tools.bench.result import SCHEMA


def test_the_json_names_what_a_program_needs(make_result) -> None:
    values = json.loads(json.dumps(make_result().to_dict()))
    assert values["schema"] == SCHEMA
    assert {"created", "machine", "versions", "workers", "rounds", "images", "results"} <= set(values)
    assert {"choices", "notes"} <= set(values)
    assert values["images"]["jpeg"] == {"count": 10, "mean_bytes": 98765.4}
    assert len(values["results"][0]["single"]["rounds_us"]) == 5


def test_whether_a_file_can_be_written_is_known_before(tmp_path: Path) -> None:
    check_writable("-", "--json")
    check_writable(tmp_path / "new.json", "--json")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").write_text("kept")
    check_writable(tmp_path / "old", "--json")
    assert (tmp_path / "old").read_text() == "kept"
    for place in (tmp_path / "missing" / "x.json", tmp_path):
        with pytest.raises(ConfigError, match="give --json a place"):
            check_writable(place, "--json")


def test_the_tables(make_result, capsys: pytest.CaptureFixture[str]) -> None:
    make_result().print_on(make_console())
    printed = capsys.readouterr().out
    assert "Made <CPU> & Co, 8 CPUs, Linux; 5 rounds, 2 DataLoader workers" in printed
    assert "cv2 *" in printed
    assert "the reader 'x' doesn't load here" in printed


def test_the_tables_without_workers_and_with_one(make_result, capsys: pytest.CaptureFixture[str]) -> None:
    make_result(workers=0).print_on(make_console())
    assert "workers" not in capsys.readouterr().out.replace("0 DataLoader workers", "")
    make_result(workers=1, rounds=1).print_on(make_console())
    assert "1 round, 1 DataLoader worker\n" in capsys.readouterr().out


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_told_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], quiet: bool
) -> None:
    monkeypatch.setattr(progress_bar.SlowBar, "delay_s", 0.0)
    monkeypatch.setattr(progress_bar.SlowBar, "redrawn_s", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar.SlowBar() as bar:
        bar.show(0, 0, "no terminal")
    monkeypatch.setattr(progress_bar, "_is_terminal", lambda: True)
    with progress_bar.SlowBar(shown=not quiet) as bar:
        bar.show(0, 0, "looking for [images]")
        bar.show(1, 4, "round 1")
    said = capsys.readouterr().err
    assert "no terminal" not in said
    assert ("looking for [images]" in said, "round 1" in said, "25%" in said) == (not quiet,) * 3
