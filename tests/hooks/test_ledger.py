"""The account of what was accelerated: of this process, and of those that it starts."""

from __future__ import annotations

from pathlib import Path

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
