"""`fastpipe.check` and what goes wrong around it: files that kill or hang, killed processes, full disks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus
import psutil
import pytest

import fastpipe
from fastpipe.errors import FastpipeError
from fastpipe.tools.check import pool

# A reader in a package of its own, as users may have one: it dies, hangs or waits over what files say.
READER = """
import os, pathlib, time
from fastpipe.readers import Reader, get_reader

class Evil(Reader):
    name = "evil"
    formats = frozenset({"JPEG"})

    def decode(self, data):
        if b"KILLS" in data:
            os.abort()
        if b"HANGS" in data:
            while True:
                time.sleep(1)
        if b"WAITS" in data:
            time.sleep(0.02)
        once = pathlib.Path(os.environ["EVIL_MARK"])
        if b"DIES-ONCE" in data and not once.exists():
            once.touch()
            os.abort()
        return get_reader("pil").decode(data)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """For a process in which the reader "evil" reads JPEG files."""
    package = tmp_path / "package"
    about = package / "evil_reader-1.0.dist-info"
    about.mkdir(parents=True)
    (package / "evil_reader.py").write_text(READER)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: evil-reader\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fastpipe.readers]\nevil = evil_reader:Evil\n")
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    return {
        **os.environ,
        "PYTHONPATH": path,
        "FASTPIPE_READER": "jpeg=evil",
        "EVIL_MARK": str(tmp_path / "mark"),
    }


def photo(comment: str = "", seed: int = 0) -> bytes:
    return corpus.with_segment(corpus.jpeg(20, 30, seed=seed), 0xFE, comment.encode())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / "a"
    folder.mkdir(parents=True)
    for number in range(40):
        (folder / f"{number:02}.jpg").write_bytes(photo(seed=number))
    return tmp_path / "root"


def children_at_work(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """A check's processes, once one of them is at work."""
    while True:
        assert process.poll() is None
        children = psutil.Process(process.pid).children(recursive=True)
        if any(sum(child.cpu_times()[:2]) > 0.1 for child in children):
            return children
        time.sleep(0.05)


def run(*arguments: object, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastpipe", "check", *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.mark.slow
def test_files_that_kill_or_hang_are_findings_and_not_the_end(
    root: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    (root / "a/03.jpg").write_bytes(photo("KILLS"))
    (root / "a/17.jpg").write_bytes(photo("HANGS"))
    (root / "a/18.jpg").write_bytes(photo("KILLS"))
    (root / "a/30.jpg").write_bytes(photo("DIES-ONCE"))
    (root / "a/39.jpg").write_bytes(b"")
    report = tmp_path / "report.json"
    done = run(root, "--timeout", 3, "--jobs", 2, "--report", report, env=environment)
    assert done.returncode == 1, done.stderr
    values = json.loads(report.read_text())
    rows = {Path(row["path"]).name: row for row in values["rows"]}
    assert {name: row["kinds"] for name, row in rows.items()} == {
        "03.jpg": ["crash"],
        "17.jpg": ["hang"],
        "18.jpg": ["crash"],
        "39.jpg": ["empty"],
    }
    assert values["files"] == 40
    assert "SIGABRT" in rows["03.jpg"]["reason"] or os.name == "nt"
    assert "3 s" in rows["17.jpg"]["reason"]
    assert (tmp_path / "mark").exists()


@pytest.mark.slow
def test_a_file_that_hangs_is_given_up_while_others_go_on(root: Path, environment: dict[str, str]) -> None:
    """The files behind it get another process in time, and not when all others are done."""
    (root / "a/00.jpg").write_bytes(photo("HANGS"))
    for number in range(300):
        (root / f"a/x{number}.jpg").write_bytes(photo("WAITS"))
    script = (
        "import sys, fastpipe\n"
        "from fastpipe.tools.check.findings import Findings\n"
        "put, order = Findings.put, []\n"
        "Findings.put = lambda self, number, seen: (order.append(number), put(self, number, seen))\n"
        "result = fastpipe.check(sys.argv[1], jobs=2, timeout=1.0)\n"
        "print(order.index(1) < len(order) - 50, order[-1], result.counts['hang'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True 0 1\n"


@pytest.mark.slow
def test_a_killed_check_takes_its_processes_along(root: Path, environment: dict[str, str]) -> None:
    (root / "a/20.jpg").write_bytes(photo("HANGS"))
    command = [sys.executable, "-m", "fastpipe", "check", str(root), "--jobs", "1"]
    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        children = children_at_work(first)
    finally:
        first.kill()
        first.wait()
    assert not psutil.wait_procs(children, timeout=30)[1]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C as POSIX sends it")
def test_ctrl_c_ends_everything_in_one_line(root: Path, environment: dict[str, str]) -> None:
    (root / "a/20.jpg").write_bytes(photo("HANGS"))
    command = [sys.executable, "-m", "fastpipe", "check", str(root), "--jobs", "2"]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )
    children = children_at_work(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert (out, err) == ("", "fastpipe: interrupted\n")
    assert not psutil.wait_procs(children, timeout=30)[1]


def test_a_killed_worker_costs_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = []

    def killing(*arguments: object) -> Iterator[object]:
        for count, answer in enumerate(pool.examine_all(*arguments)):
            if count == 10:
                killed.extend(psutil.Process().children(recursive=True))
                for worker in killed:
                    worker.kill()
            yield answer

    (root / "a/33.jpg").write_bytes(b"")
    monkeypatch.setattr("fastpipe.tools.check.run.examine_all", killing)
    result = fastpipe.check(root, jobs=2, progress=False)
    assert killed
    assert [(row.path, row.kinds) for row in result.rows] == [(os.path.join("a", "33.jpg"), ("empty",))]


def test_processes_that_don_t_start_are_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(FastpipeError, match="doesn't start"):
        fastpipe.check(root, jobs=1, progress=False)


def test_processes_that_die_at_once_are_an_error(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('this numpy is broken')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(FastpipeError, match="don't start: exit status 1; it said: ImportError: this numpy is broken"):
        fastpipe.check(root, jobs=1, progress=False)


@pytest.mark.slow
def test_a_machine_that_loses_every_file_is_an_error(
    root: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        (root / f"a/{number:02}.jpg").write_bytes(photo("KILLS"))
    script = (
        "import sys, fastpipe\n"
        "from fastpipe.tools.check import pool\n"
        "pool._LOSSES_IN_A_ROW = 2\n"
        "try: fastpipe.check(sys.argv[1], jobs=1)\n"
        "except fastpipe.errors.FastpipeError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("2 files in a row killed or hung")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no file size limit there")
def test_a_full_disk_leaves_the_old_report(root: Path, tmp_path: Path) -> None:
    for number in range(40):
        (root / f"a/{number:02}.jpg").write_bytes(b"")
    report = tmp_path / "report.json"
    report.write_text("the old one")
    script = (
        "import resource, sys, fastpipe\n"
        "from fastpipe.tools.check import run\n"
        "def limited(*arguments):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))\n"  # the kernel's own "no more room"
        "    write_report(*arguments)\n"
        "write_report, run.write_report = run.write_report, limited\n"
        "try: fastpipe.check(sys.argv[1], report=sys.argv[2], jobs=1)\n"
        "except fastpipe.errors.ConfigError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(root), str(report)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"can't write {report}: File too large" in done.stdout
    assert report.read_text() == "the old one"
    assert [file.name for file in tmp_path.iterdir() if "part" in file.name] == []
    fastpipe.check(root, jobs=1, progress=False, report=report)
    assert report.read_text().count('"kinds": ["empty"]') == 40
