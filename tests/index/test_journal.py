"""The journal of work that may be interrupted: what it keeps, and where it forgets."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fastpipe.index import journal
from fastpipe.index.journal import Journal


def interrupted(about: str, **results: object) -> None:
    kept = Journal("work", about)
    for name, result in results.items():
        kept.put(name.encode(), result)
    kept.__exit__(KeyboardInterrupt, None, None)


def folder() -> Path:
    return Path(os.environ["FASTPIPE_CACHE"]) / "work"


def test_what_was_found_is_there_until_all_is_done() -> None:
    interrupted("photos", one=[1, {"a": "b"}], two="three")
    with Journal("work", "photos") as kept:
        assert [kept.get(b"one"), kept.get(b"two"), kept.get(b"four")] == [[1, {"a": "b"}], "three", None]
        with Journal("work", "others\udc80") as other:
            assert other.get(b"one") is None
    assert not [*folder().iterdir()]
    with Journal("work", "photos") as kept:
        assert kept.get(b"one") is None


def test_anew_and_after_a_day_it_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted("photos", one=1)
    now = time.time()
    monkeypatch.setattr(journal.time, "time", lambda: now + 24 * 3600 + 1)
    interrupted("photos", two=2)
    with Journal("work", "photos") as kept:
        assert [kept.get(b"one"), kept.get(b"two")] == [None, 2]
    interrupted("photos", one=1)
    with Journal("work", "photos", anew=True) as kept:
        assert kept.get(b"one") is None


def test_of_two_at_once_the_second_forgets() -> None:
    interrupted("photos", one=1)
    with Journal("work", "photos") as first:
        with Journal("work", "photos") as second:
            second.put(b"two", 2)
            assert second.get(b"one") is second.get(b"two") is None
        assert first.get(b"one") == 1


def test_a_damaged_one_is_replaced() -> None:
    interrupted("photos", one=1)
    (file,) = folder().glob("*/*.sqlite")
    file.write_bytes(b"no database" * 1000)
    interrupted("photos", two=2)
    with Journal("work", "photos") as kept:
        assert [kept.get(b"one"), kept.get(b"two")] == [None, 2]


def test_without_a_folder_it_forgets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "file"))
    with Journal("work", "photos") as kept:
        kept.put(b"one", 1)
        assert kept.get(b"one") is None


def test_any_thread_may_use_it() -> None:
    with Journal("work", "photos") as kept, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: kept.put(b"%d" % number, number), range(200)))
        assert [*pool.map(lambda number: kept.get(b"%d" % number), range(200))] == [*range(200)]


def test_a_journal_that_breaks_only_saves_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path))
    with Journal("listings", "work") as journal:
        journal.put(b"one", 1)
        journal.put(b"two", 2)
        assert journal.get(b"one") == 1
        assert journal._rows is not None
        journal._rows.execute("UPDATE done SET result = 'no JSON' WHERE key = ?", (b"two",))
        assert journal.get(b"two") is None
        journal._rows.execute("DROP TABLE done")
        assert journal.get(b"one") is None
        journal.put(b"one", 1)
        journal._rows.close()
        assert journal.get(b"one") is None
