"""Every report is readable at 80 columns: no line is longer, and nothing is cut. COLUMNS holds in a pipe as well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import corpus
import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len

from fastpipe.environment import line_width
from fastpipe.reporting.output import make_console, wrap_text
from fastpipe.tools.bench.samples import make_folder
from fastpipe.tools.explain import explain
from fastpipe.tools.verify_result import Certificate, Check, WorstSample
from fastpipe.transforms import ColorJitter, Compose, Normalize, RandomResizedCrop, ToTensor

slow_start = pytest.mark.skipif(sys.platform != "linux", reason="forks workers; spawned ones start slowly")
SCRIPT = """
from fastpipe import transforms as T

class AStepOfTheUsersOwnWithQuiteALongName:
    def __call__(self, image):
        return image

transform = T.Compose([
    T.RandomResizedCrop(24), T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomRotation(9), T.RandomGrayscale(0.5),
    T.RandomAdjustSharpness(2), T.RandomAutocontrast(), AStepOfTheUsersOwnWithQuiteALongName(), T.ToTensor(),
    T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
"""
REPORTS = {
    "explain": "explain photos",
    "explain-broken": "explain train.py:transform",
    "check": "check photos",
    "verify": "verify photos --images 2",
    "index": "index photos --stats",
    "cache": "cache",
    "configure": "configure photos --rounds 1 --images 2 --workers 1",
    "configure-show": "configure --show",
    "configure-set": "configure --set jpeg=cv2",
    "configure-reset": "configure --reset",
    "bench": "bench photos --rounds 2 --images 2 --workers 1",
    "doctor": "doctor photos -t train.py:transform --seconds 0.3 -b 4 -w 1 --gpu-rate 1e6",
    "doctor-versions": "doctor --versions",
    "preview": "preview photos --out grid.png",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos, among them bad ones, and a script."""
    root = tmp_path_factory.mktemp("widths")
    make_folder(root / "photos", 2, 8, sizes=((60, 90),))
    cut = corpus.jpeg(60, 80)[:-40]
    for number, data in enumerate(
        [cut, b"", b"<html>", corpus.files()["jpeg-cmyk"], corpus.files()["jpeg-progressive"]]
    ):
        (root / "photos" / "class00" / f"odd one {number} under a name that is rather long.jpg").write_bytes(data)
    (root / "train.py").write_text(SCRIPT, encoding="utf-8")
    return root


ALL_IN_ONE_PROCESS = """
import contextlib, io, json, os, sys
from fastpipe.cli import main

made = {}
for name, command in json.load(sys.stdin).items():
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            main(command.split())
        except SystemExit as ended:
            status = ended.code
    for stream in streams:
        stream.seek(0)
    made[name] = (status or 0, *(stream.read() for stream in streams))
print(json.dumps(made))
"""
"""Runs commands and prints as JSON how they ended and what they printed."""


def run(project: Path, reports: dict[str, str], columns: str | None) -> dict[str, tuple[int, str, str]]:
    """The exit status, standard output and standard error of commands, by name."""
    environment = {**os.environ, "FASTPIPE_CACHE": "cache", "FASTPIPE_CONFIG": "config"}
    environment.pop("COLUMNS", None)
    if columns:
        environment["COLUMNS"] = columns
    command = [sys.executable, "-c", ALL_IN_ONE_PROCESS]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, input=json.dumps(reports), check=True
    )
    return {name: (status, out, err) for name, (status, out, err) in json.loads(done.stdout).items()}


@pytest.mark.slow
@slow_start
def test_no_line_passes_80_columns_and_nothing_is_cut(project: Path) -> None:
    made = run(project, REPORTS, None)
    assert list(made) == list(REPORTS)
    for name, (status, printed, errors) in made.items():
        if name == "verify" and "torchvision" in errors and "doesn't load" in errors:
            continue
        assert printed, (name, errors)
        assert status in (0, 1), (name, errors)
        assert [line for line in printed.splitlines() if cell_len(line) > 80] == [], name
        assert "…" not in printed, name


@pytest.mark.slow
def test_columns_holds_in_a_pipe(project: Path) -> None:
    _, printed, _ = run(project, {"explain": REPORTS["explain"]}, "200")["explain"]
    assert 80 < max(map(len, printed.splitlines())) <= 200


def test_columns_is_the_width_of_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, width in (("100", 100), ("80", 80), ("3", 40)):
        monkeypatch.setenv("COLUMNS", columns)
        assert line_width() == width
    assert make_console().width == 40


def test_the_tree_of_explain_stays_one() -> None:
    steps = [RandomResizedCrop(224), ColorJitter(0.4, 0.4, 0.4), ToTensor(), Normalize([0.4] * 3, [0.2] * 3)]
    explanation = explain(Compose(steps))
    wide, narrow = explanation.text(width=1000), explanation.text(width=60)
    assert max(map(len, narrow.splitlines())) <= 60
    for line in narrow.splitlines()[1:]:
        assert line.startswith(("├── ", "└── ", "│   ", "    "))
    told = [" ".join(text.replace("│", " ").split()) for text in (wide, narrow)]
    assert told[0] == told[1]
    ascii_lines = explanation.text(ascii=True, width=60).splitlines()
    assert max(map(len, ascii_lines)) <= 60


def test_a_path_stays_whole_and_text_is_broken_at_spaces() -> None:
    path = "/a/" + "long/" * 30 + "name.jpg"
    assert path in wrap_text(f"  read from {path} and so on", width=40).split()
    assert wrap_text("  one two three four", width=12).splitlines() == ["  one two", "    three", "    four"]
    assert wrap_text("short\n\nlines", width=12) == "short\n\nlines"


def test_what_verify_says_of_samples_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    nothing = np.zeros((1, 1, 3))
    picture = Image.new("RGB", (1, 1))
    certificate = Certificate(
        transform="Compose()",
        files=32,
        drawings=3,
        compared=96,
        equal=90,
        sha256="0" * 64,
        checks=(
            Check(
                "finished samples equal torchvision's, byte for byte",
                96,
                90,
                ["train/a.jpg, drawing 2: " + "differs " * 20],
            ),
        ),
        worst=WorstSample("train/a.jpg", 2, ("cropped",) * 20, 12.5, picture, nothing, nothing),
        notes=("a file could not be read, " * 9,),
    )
    text = str(certificate)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "12.5" in text
