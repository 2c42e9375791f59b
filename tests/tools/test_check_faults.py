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

import corpus
import filelock
import psutil
import pytest
from full_disk import full_disk

import fastpipe
from fastpipe.errors import ConfigError, FastpipeError, FastpipeWarning
from fastpipe.tools.check import pool

# A reader in a package of its own, as users may have one: it dies, hangs or waits over what files say.
READER = """
import os, pathlib, time
from fastpipe.readers import Capabilities, Reader, get_reader

class Evil(Reader):
    name = "evil"
    capabilities = Capabilities(frozenset({"JPEG"}))

    def decode(self, data, request=None, out=None):
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
def test_a_killed_check_goes_on(root: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """SIGKILL to the check itself: its processes end, and the next one begins where it stopped."""
    for number in range(40):
        (root / f"a/{number:02}.jpg").write_bytes(photo("WAITS" if number < 30 else "HANGS", seed=number))
    (root / "a/05.jpg").write_bytes(photo("WAITS")[:-40])
    command = [sys.executable, "-m", "fastpipe", "check", str(root), "--jobs", "1"]
    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journals = Path(os.environ["FASTPIPE_CACHE"]) / "checks"
    try:
        while not any(b"05.jpg" in file.read_bytes() for file in journals.glob("*.sqlite-wal")):
            assert first.poll() is None
            time.sleep(0.05)
        children = psutil.Process(first.pid).children(recursive=True)
        assert children
    finally:
        first.kill()
        first.wait()
    assert not psutil.wait_procs(children, timeout=30)[1]
    for number in range(30, 40):
        (root / f"a/{number}.jpg").write_bytes(photo(seed=number))
    (root / "a/00.jpg").write_bytes(b"")  # seen before, and another one since
    (root / "a/extra.jpg").write_bytes(photo())
    (root / "a/01.jpg").unlink()
    second = run(root, "--json", "-", env=environment)
    assert second.returncode == 1, second.stderr
    assert "goes on with a check that was interrupted" in second.stderr
    values = json.loads(second.stdout)
    assert 4 <= values["resumed"] < 30
    assert {Path(row["path"]).name: row["kinds"] for row in values["rows"] if row["verdict"] == "bad"} == {
        "00.jpg": ["empty"],
        "05.jpg": ["truncated"],
    }
    assert values["files"] == 40
    assert not list(journals.iterdir())  # a third one begins anew


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
    journals = Path(os.environ["FASTPIPE_CACHE"]) / "checks"
    while not any(b"19.jpg" in file.read_bytes() for file in journals.glob("*.sqlite-wal")):
        assert process.poll() is None
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert (out, err) == ("", "fastpipe: interrupted; the same command goes on from here\n")
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


def interrupted(source: object, report: Path) -> Path:
    """Leaves the journal of a check that was interrupted when everything had been examined."""

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastpipe.tools.check.run.write_report", fail)
        with pytest.raises(KeyboardInterrupt):
            fastpipe.check(source, jobs=1, progress=False, report=report)
    (journal,) = (Path(os.environ["FASTPIPE_CACHE"]) / "checks").glob("*.sqlite")
    return journal


@pytest.mark.slow
def test_a_journal_is_used_where_it_fits(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "a/07.jpg").write_bytes(b"GIF89a")
    journal = interrupted(root, tmp_path / "report.csv")
    kept = journal.read_bytes()
    forgotten = journal.with_name("forgotten.sqlite")
    forgotten.touch()
    os.utime(forgotten, (0, 0))
    cases = [
        ({}, kept, 40, "40 of 40 files are done already"),
        ({}, b"no database" + kept[11:], 0, ""),
        ({}, kept[:40], 0, ""),
        ({"size": 100}, kept, 0, ""),
        ({"restart": True}, kept, 0, ""),
        ({"decode": "header"}, kept, 0, ""),
    ]
    for options, data, resumed, said in cases:
        journal.write_bytes(data)
        result = fastpipe.check(root, jobs=1, **options)
        assert (result.resumed, [row.path for row in result.rows]) == (resumed, [os.path.join("a", "07.jpg")]), options
        err = capsys.readouterr().err
        assert said in err
        assert bool(said) == bool(err)
        assert journal.exists() == bool(options.keys() & {"decode", "size"})  # which have a journal of their own
        assert not journal.with_name(f"{journal.name}.lock").exists() or journal.exists()
    assert not forgotten.exists()


def test_what_the_machine_may_have_been_the_reason_for_is_looked_at_again(root: Path, tmp_path: Path) -> None:
    missing = root / "a/07.jpg"
    index = fastpipe.ImageIndex.from_folder(root)
    data = missing.read_bytes()
    missing.unlink()
    interrupted(index, tmp_path / "report.csv")
    missing.write_bytes(data)
    result = fastpipe.check(index, jobs=1, progress=False)
    assert (result.bad, result.resumed) == (0, 39)


def test_two_checks_at_once(root: Path, tmp_path: Path) -> None:
    journal = interrupted(root, tmp_path / "report.csv")
    with (
        filelock.FileLock(f"{journal}.lock"),
        pytest.warns(FastpipeWarning, match="another process is at the same"),
    ):
        assert fastpipe.check(root, jobs=1, progress=False).resumed == 0
    assert journal.exists()


def test_a_cache_that_can_t_be_written_costs_the_journal_only(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = fastpipe.ImageIndex.from_folder(root, location=None)
    (tmp_path / "file").touch()
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(FastpipeWarning, match="can't be continued if it is interrupted"):
        assert fastpipe.check(index, jobs=1, progress=False).ok


@pytest.mark.parametrize("room", [100, 30_000])
@pytest.mark.filterwarnings("ignore:this check can't be continued")
def test_a_full_disk_promises_nothing_that_the_journal_does_not_have(root: Path, tmp_path: Path, room: int) -> None:
    """The disk of the journal is full from the beginning, or later."""
    for number in range(40):
        (root / f"a/{number:02}.jpg").write_bytes(b"")
    index = fastpipe.ImageIndex.from_folder(root, location=None)
    report = tmp_path / "report.json"
    report.write_text("the old one" * 5000)
    wanted = r"can't write .*File too large.*unchanged, but what was checked isn't kept \(.*\): .* begins anew"
    if room > 100:  # what is written is shorter than what the journal may have
        for number in range(400):
            (root / f"a/more of these {number:04}.jpg").write_bytes(b"")
        index = fastpipe.ImageIndex.from_folder(root, location=None)
    with full_disk(room), pytest.raises(ConfigError, match=wanted):
        fastpipe.check(index, jobs=1, progress=False, report=report)
    assert report.read_text() == "the old one" * 5000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no file size limit there")
def test_a_full_disk_leaves_the_old_report_and_what_was_checked(root: Path, tmp_path: Path) -> None:
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
    assert fastpipe.check(root, jobs=1, progress=False, report=report).resumed == 40
    assert report.read_text().count('"kinds": ["empty"]') == 40
