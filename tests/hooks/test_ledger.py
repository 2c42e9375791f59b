"""The account of what was accelerated: of this process, and of those that it starts."""

from __future__ import annotations

import json
from pathlib import Path

import corpus
import pytest
from run_scripts import run_python

from fastpipe.hooks.ledger import LEDGER, Ledger

MANY_CHILDREN = """
import multiprocessing, os
import fastpipe
from fastpipe.hooks.ledger import LEDGER, Ledger

def work(number):
    LEDGER.site("function", "f").count(0.0)
    LEDGER.note(f"note {number % 2}")

fork = multiprocessing.get_context("fork")
with fastpipe.install():
    for number in range(30):
        child = fork.Process(target=work, args=(number,))
        child.start()
        child.join()
        LEDGER.fold_ended()
    sites, notes = LEDGER.total()
    print([(site.name, site.images) for site in sites if site.name == "f"], sorted(notes))
    print(len(os.listdir(LEDGER.folder())))
    child = fork.Process(target=LEDGER.flush_child, args=(True,))  # counts nothing
    child.start()
    child.join()
    print(len(os.listdir(LEDGER.folder())))
child = fork.Process(target=lambda: os._exit(LEDGER.is_child))
child.start()
child.join()
print("has an account after uninstall:", child.exitcode)
"""


def test_accounts_of_ended_children_are_made_one(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(MANY_CHILDREN)
    made = run_python("script.py", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    counted, files, unchanged, after = made.stdout.splitlines()
    assert counted == "[('f', 30)] ['note 0', 'note 1']"
    assert int(files) <= 8
    assert unchanged == files
    assert after.endswith("0")


def test_an_account_that_goes_while_it_is_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "1-a.json").symlink_to(tmp_path / "gone")  # listed, and not there
    (tmp_path / "2-b.json").write_text('{"notes": ["kept"], "sites": []}')
    ledger = Ledger()
    ledger.begin_child(str(tmp_path))
    assert ledger.total() == ([], ["kept"])


def test_checks_after_the_first_ones_take_a_hundredth_of_the_time(
    fresh_ledger: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("fastpipe.hooks.ledger.time.monotonic", lambda: now[0])
    monkeypatch.setattr(LEDGER, "_begun", 1000.0)
    monkeypatch.setattr(LEDGER, "checking", 0.0)
    monkeypatch.setattr(LEDGER, "check", 2)
    site = LEDGER.site("function", "f")
    assert site.is_check_due()
    site.add_check(3.0, 1.0, "", stalled=1.0)
    site.count(None)
    assert site.is_check_due()  # the first ones, whatever they take
    site.images = 4096
    for passed, due in ((0.0, False), (399.0, False), (401.0, True)):
        now[0] = 1000.0 + passed
        assert site.is_check_due() is due


# -- children that nobody but the script has started

ENDS = {"os._exit": "os._exit(0)", "sys.exit": "sys.exit(0)", "an error": "raise ValueError", "its end": ""}
FORKS = """
import io, os, sys
from torchvision_here import torchvision
import torch
from PIL import Image

def make(count):
    for number in range(count):
        torchvision.transforms.functional.to_tensor(Image.open("photo.jpg").convert("RGB").resize((20, 30))).sum()

if os.fork() == 0:
    make(3)
    if os.fork() == 0:
        make(4)
        END
    else:
        os.wait()
        END
else:
    os.wait()
"""
PROGRAMS = """
import subprocess, sys
done = subprocess.run([sys.executable, "-m", "fastpipe", "run", "-q", "-m", "inner"], env=None)
again = subprocess.run(["sh", "-c", f"'{sys.executable}' -m fastpipe run -q -m inner; true"])
"""
MAKES = """
from torchvision_here import torchvision
import torch
from PIL import Image
for number in range(5):
    torchvision.transforms.functional.to_tensor(Image.open("photo.jpg").convert("RGB").resize((20, 30))).sum()
"""


def counted(folder: Path, code: str) -> dict[str, int]:
    """The images of each site in the report of a script."""
    (folder / "photo.jpg").write_bytes(corpus.jpeg(60, 80, seed=1))
    (folder / "script.py").write_text(code)
    made = run_python("-m", "fastpipe", "run", "--report", "report.json", "script.py", cwd=folder)
    report = json.loads((folder / "report.json").read_text())
    assert "nothing was accelerated" not in made.stderr
    return {site["name"]: site["images"] for site in report["sites"]}


@pytest.mark.needs_core
@pytest.mark.needs_fork
@pytest.mark.parametrize("end", ENDS)
def test_children_of_os_fork_count_however_they_end(end: str, tmp_path: Path) -> None:
    found = counted(tmp_path, FORKS.replace("END", ENDS[end]))
    assert found == {"PIL.Image.open": 7, "torchvision.transforms.functional.to_tensor": 7}


@pytest.mark.needs_core
@pytest.mark.needs_fork
def test_programs_count_that_a_script_starts_by_fastpipe_run(tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text(MAKES)
    found = counted(tmp_path, PROGRAMS)
    assert found["PIL.Image.open"] == found["torchvision.transforms.functional.to_tensor"] == 10
