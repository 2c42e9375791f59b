"""A disk that fills up while something is written: what was there stays, and no half of a file is left."""

from __future__ import annotations

import contextlib
import csv
import importlib
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from full_disk import full_disk
from PIL import Image
from torchvision_here import torchvision  # noqa: F401  (makes `import torchvision` work in the package)

import fastpipe
from fastpipe.cli import main
from fastpipe.config import MachineConfig
from fastpipe.errors import ConfigError, DatasetError, FastpipeWarning
from fastpipe.hooks import run
from fastpipe.reporting.output import write_file, write_json

FULL = "File too large|could be written"


def contents(folder: Path) -> dict[str, bytes]:
    """All files but locks."""
    files = [path for path in folder.rglob("*") if path.is_file() and "lock" not in path.name]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("room", [0, 10, 200, 600])
def test_the_index(photos, tmp_path, room):
    location = tmp_path / "index"
    fastpipe.ImageIndex.from_folder(photos, location=location)
    before = contents(location)
    (photos / "class2").mkdir()
    for number in range(60):
        (photos / f"class2/another image {number}.jpg").touch()
    with full_disk(room), pytest.raises(DatasetError, match=FULL):
        fastpipe.ImageIndex.from_folder(photos, location=location)
    assert contents(location) == before
    assert len(fastpipe.ImageIndex.from_folder(photos, location=location)) == 84


@pytest.mark.parametrize("room", [0, 10, 200, 600])
def test_the_first_index_of_a_folder(photos, tmp_path, room):
    with full_disk(room), pytest.raises(DatasetError, match=FULL):
        fastpipe.ImageIndex.from_folder(photos, location=tmp_path / "index")
    assert contents(tmp_path / "index") == {}
    assert len(fastpipe.ImageIndex.from_folder(photos, location=tmp_path / "index")) == 24


def test_the_index_in_the_cache_is_done_without(photos, monkeypatch):
    with full_disk(10), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len(fastpipe.ImageFolder(photos)) == 24
    assert any("File too large" in str(one.message) for one in told)


@pytest.mark.parametrize("room", [0, 10, 100])
def test_the_config(tmp_path, room):
    file = MachineConfig(readers={"jpeg": "pil"}).save(tmp_path / "config.toml")
    before = contents(tmp_path)
    with full_disk(room), pytest.raises(ConfigError, match=FULL):
        MachineConfig(readers={"jpeg": "cv2"}).save(file)
    assert contents(tmp_path) == before
    assert MachineConfig.load(file).readers == {"jpeg": "pil"}


@pytest.mark.parametrize("room", [0, 10, 1000])
def test_reports(tmp_path, room):
    """Those of check are in tests/tools."""
    page, figures = tmp_path / "report.html", tmp_path / "figures.json"
    for existing in (False, True):
        if existing:
            page.write_text("the old one")
            figures.write_text("the old ones")
        before = contents(tmp_path)
        with full_disk(room), pytest.raises(ConfigError, match=FULL):
            write_file(page, "<html>" * 1000, "--report")
        with full_disk(room), pytest.raises(ConfigError, match=FULL):
            write_json(str(figures), {"figures": list(range(1000))})
        assert contents(tmp_path) == before


@pytest.mark.parametrize("room", [0, 87, 2000])
@pytest.mark.parametrize("command", ["preview", "verify"])
def test_pictures(photos, tmp_path, room, command, capsys):
    """As the commands write them: a good picture that was there stays, and nothing half is left."""
    picture = tmp_path / "picture.png"
    small = ["--images=1"] if command == "verify" else ["--n=1", "--views=1"]
    arguments = [command, str(photos), "--out", str(picture), "--quiet", *small]
    for existing in (False, True):
        if existing:
            Image.new("RGB", (300, 200), (10, 20, 30)).save(picture)
        before = contents(tmp_path)
        with full_disk(room), pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 1
        assert "fastpipe: error: can't write" in (said := capsys.readouterr().err)
        assert "File too large" in said
        assert contents(tmp_path) == before
    with pytest.raises(SystemExit):
        main(arguments)
    with Image.open(picture) as image:
        image.load()


@pytest.mark.parametrize(
    "arguments", ["check --report=", "check --json=", "explain --json=", "index --json=", "verify --images=1 --json="]
)
def test_what_a_command_writes(photos, tmp_path, arguments, capsys):
    """The error names the option whose file it is."""
    command, *options, option = arguments.split()
    file = tmp_path / "written.json"
    written = [command, str(photos), "--quiet", *options, f"{option}{file}"]
    for folder in (photos, *photos.iterdir()):
        os.utime(folder, (0, 0))  # one that has just been changed is listed, and its index kept, again
    with contextlib.suppress(SystemExit):
        main(written)
    before = file.read_bytes()
    with full_disk(5), pytest.raises(SystemExit) as ended:
        main(written)
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert f"fastpipe: error: can't write {file}: File too large; give {option.rstrip('=')} a place" in said
    assert contents(tmp_path)["written.json"] == before
    assert [name for name in contents(tmp_path) if name.endswith(".part")] == []


@pytest.mark.parametrize("ending", ["json", "html"])
def test_the_report_of_a_script(tmp_path, ending):
    """The script is done by then: a line, no traceback."""
    report = tmp_path / f"report.{ending}"
    report.write_text("the old one")
    said = []
    with full_disk(5):
        run._report_at_exit(os.getpid(), None, SimpleNamespace(write=said.append), str(report), quiet=True)
    assert said == [f"fastpipe: error: can't write {report}: File too large; give --report a place that can be written"]
    assert contents(tmp_path) == {report.name: b"the old one"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_that_can_t_be_written():
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "fastpipe", "explain", "--help"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "fastpipe: error: the output can't be written: No space left on device\n"


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_plots(tmp_path, ending):
    figure_module = pytest.importorskip("matplotlib.figure")
    plots = importlib.import_module("fastpipe.tools.doctor.picture")
    figure = figure_module.Figure()
    figure.subplots().plot([1, 2, 3])
    plot = tmp_path / f"plot.{ending}"
    plots.save(figure, plot)
    before = contents(tmp_path)
    with full_disk(100), pytest.raises(ConfigError, match=FULL):
        plots.save(figure, plot)
    assert contents(tmp_path) == before


def test_reports_go_where_links_and_pipes_lead(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("the old one")
    page.chmod(0o640)
    (tmp_path / "link.html").symlink_to(page)
    write_file(tmp_path / "link.html", "the new one", "--report")
    assert page.read_text() == "the new one"
    assert page.stat().st_mode & 0o777 == 0o640
    assert sorted(contents(tmp_path)) == ["link.html", "page.html"]
    os.mkfifo(tmp_path / "pipe")
    got = []
    reading = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text()))
    reading.start()
    write_file(tmp_path / "pipe", "to whoever reads", "--report")
    reading.join()
    assert got == ["to whoever reads"]


@pytest.mark.parametrize("room", range(0, 400, 23))
def test_the_list_of_bad_files(photos, tmp_path, room):
    """Whole lines or none, for any place at which the disk is full; training goes on."""
    for number in range(12, 16):
        (photos / f"class1/{number}.jpg").write_bytes(b"")
    log = tmp_path / "bad_files.csv"
    options = {"on_error": "skip", "bad_files_log": log, "max_bad_fraction": 1}
    dataset = fastpipe.ImageFolder(photos, index=fastpipe.ImageIndex.from_folder(photos, location=None), **options)
    with full_disk(room), pytest.warns(FastpipeWarning):
        assert [dataset[number] for number in range(12, 16)] == [None] * 4
    assert dataset.bad_files.skipped == 4
    text = log.read_text() if log.exists() else ""
    assert text == "" or text.endswith("\n")
    assert [row["reason"] for row in csv.DictReader(text.splitlines()) if row["time"] is None] == []
    again = fastpipe.ImageFolder(photos, index=dataset.index, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FastpipeWarning)
        assert [again[number] for number in range(12, 16)] == [None] * 4
    rows = list(csv.DictReader(log.read_text().splitlines()))
    assert sorted(int(row["index"]) for row in rows) == [12, 13, 14, 15], "what was left out is added the next time"
