"""The account of what was accelerated: of this process, and of those that it starts."""

from __future__ import annotations

from pathlib import Path

from run_scripts import run_python

from fastpipe.hooks.ledger import Ledger

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
