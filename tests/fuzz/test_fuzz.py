"""The share of the fuzzing that runs each time, and the harness's own tests. See tests/fuzz/README.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import check
from fuzz.mutate import mutation
from fuzz.run import watch
from fuzz.seeds import FORMATS, seeds
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpipe import readers
from fastpipe.errors import DecodeError

RUN = Path(__file__).with_name("run.py")


@pytest.mark.slow
@pytest.mark.needs_core
def test_a_share_of_mutations_through_all_readers() -> None:
    names = list(readers.available_readers())
    report = watch(names, 1000, seed=20_000)
    assert report.findings == []
    assert report.inputs == 1000
    for row in report.figures():
        if row["format"] == "jpeg":
            assert row["inputs"] > 300
            assert row["own"] > 100, row  # not all are left to Pillow


def test_inputs_are_the_same_each_time_and_of_all_formats() -> None:
    once = [mutation(3, number, FORMATS) for number in range(200)]
    assert once == [mutation(3, number, FORMATS) for number in range(200)]
    assert {format for format, _ in once} == set(seeds())
    undamaged = {data for files in seeds().values() for data in files}
    assert sum(data in undamaged for _, data in once) < 10


@pytest.mark.filterwarnings("ignore")
def test_the_seeds_are_read(tmp_path: Path) -> None:
    for format, files in seeds().items():
        for data in files:
            assert check.expected_of(data).pixels is not None, format
            assert check.check(data, ("pil",), 0, tmp_path) == []


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A seed with edits that hypothesis makes smaller."""
    format = draw(st.sampled_from(sorted(seeds())))
    data = bytearray(draw(st.sampled_from(seeds()[format])))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        kind = draw(st.sampled_from(["set", "cut", "insert", "remove"]))
        if kind == "set" and data:
            data[at] = draw(st.integers(0, 255))
        elif kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = draw(st.binary(max_size=9))
        else:
            del data[at : at + draw(st.integers(1, 70))]
    return bytes(data)


@given(data=damaged(), number=st.integers(0, 64))
@settings(max_examples=2 * settings.default.max_examples)
@pytest.mark.filterwarnings("ignore")
def test_every_reader_gives_pillows_outcome(tmp_path_factory: pytest.TempPathFactory, data: bytes, number: int) -> None:
    folder = tmp_path_factory.getbasetemp()
    assert check.check(data, tuple(readers.available_readers()), number, folder) == []


@given(data=damaged())
@settings(max_examples=5 * settings.default.max_examples)
@pytest.mark.filterwarnings("ignore")
def test_a_header_is_read_or_refused(data: bytes) -> None:
    try:
        header = readers.parse_header(data)
    except DecodeError:
        return
    assert min(header.size) >= 0
    assert header.orientation in range(1, 9)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals and peak memory are told apart on POSIX only")
def test_the_watch_sees_every_fault(tmp_path: Path) -> None:
    faults = ["crash@12", "hang@20", "memory@25", "wrong@30", "raise@33"]
    report = watch(faults, 40, timeout=0.5, check="fuzz.faulty:check", folder=tmp_path)
    found = {one.number: one for one in report.findings}
    if sys.platform == "linux":
        assert found.pop(25).kind == "memory"
    assert {number: (one.kind, one.reader) for number, one in found.items()} == {
        12: ("crash", "crash@12"),
        20: ("hang", "hang@20"),
        30: ("disagreement", "wrong@30"),
        33: ("crash", "raise@33"),
    }
    assert found[12].text == "crash: SIGSEGV"
    assert "Segmentation fault" in found[12].trace
    assert "faulty.py" in found[20].trace
    assert found[33].text == "crash: exit status 1"
    assert report.inputs == 40
    assert report.restarts == 3
    # An input that takes the process along is counted for the readers that were through with it.
    turns = {name: sum(row["inputs"] for row in report.figures() if row["reader"] == name) for name in faults}
    assert turns == {"crash@12": 39, "hang@20": 38, "memory@25": 38, "wrong@30": 38, "raise@33": 37}
    assert "| **crash@12** | all | 39 | 39 | 1 | 0 | 0 |" in report.text()
    again = next(tmp_path.glob("0-30.txt")).read_text(encoding="utf-8")
    assert "--file" in again
    assert "wrong" in again


@pytest.mark.slow
def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    names = ["wrong@30", "wrong@520"]
    whole = watch(names, 600, check="fuzz.faulty:check")
    for count in (280, 600, 600):
        parts = watch(names, count, check="fuzz.faulty:check", folder=tmp_path)
    counts = [(row["inputs"], row["own"], row["disagreements"]) for row in whole.figures()]
    assert [(row["inputs"], row["own"], row["disagreements"]) for row in parts.figures()] == counts
    assert sum(inputs for inputs, _, _ in counts) == 1200
    assert [one.number for one in parts.findings] == [30, 520]
    figures = json.loads((tmp_path / "0.json").read_text(encoding="utf-8"))
    assert (figures["next"], figures["figures"]) == (600, parts.figures())
    shown = subprocess.run(
        [sys.executable, str(RUN), "--show", str(tmp_path / "0.json")], capture_output=True, text=True
    )
    assert shown.stdout == parts.text() + "\n"
    with pytest.raises(ValueError, match=r"0\.json has the figures of a run with other readers"):
        watch(["wrong@30"], 600, check="fuzz.faulty:check", folder=tmp_path)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the processor's time comes from /proc")
def test_a_process_that_sleeps_is_given_time(tmp_path: Path) -> None:
    report = watch(["sleep@15"], 20, timeout=1, check="fuzz.faulty:check", folder=tmp_path)
    assert [(one.number, one.kind) for one in report.findings] == [(15, "hang")]


def test_one_file_again(tmp_path: Path) -> None:
    path = tmp_path / "one.jpeg"
    path.write_bytes(seeds()["jpeg"][0][:-2])
    done = subprocess.run([sys.executable, str(RUN), "--file", str(path)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "agree with Pillow" in done.stdout
