"""Images unpacked from compressed tables have a capacity; a copy that a process uses is never removed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import corpus
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastpipe
from fastpipe.errors import ConfigError
from fastpipe.index import unpacked

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*unpacked once.*:fastpipe.errors.FastpipeWarning"),
    pytest.mark.skipif(sys.platform == "win32", reason="copies are kept for a week there"),
]

_HOLD = """
import sys
from fastpipe.index.unpacked import hold
hold(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FASTPIPE_UNPACKED", raising=False)
    return tmp_path / "cache" / "unpacked"


def _table(folder: Path, number: int) -> Path:
    file = folder / f"{number}.parquet"
    images = [corpus.jpeg(20, 30 + number, seed=number)] * 2
    pq.write_table(pa.table({"image": images, "label": [0, number]}), file, compression="zstd")
    then = time.time() - 100  # long enough ago to be kept
    os.utime(file, (then, then))
    return file


def _copy(cache: Path, name: str, days: float) -> Path:
    cache.mkdir(parents=True, exist_ok=True)
    file = cache / f"{name * 32}.images"
    file.write_bytes(bytes(1000))
    os.utime(file, (time.time() - days * 86400,) * 2)
    return file


def test_copies_that_nobody_uses_are_removed_the_oldest_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, mine, old, recent, new = (
        _copy(cache, name, days) for name, days in zip("abcde", (9, 8, 7, 6, 0), strict=True)
    )
    unpacked.hold(str(mine))
    with subprocess.Popen([sys.executable, "-c", _HOLD, held], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"held\n"
        unpacked.make_room(str(new))
        assert len(list(cache.iterdir())) == 5  # within the default capacity
        monkeypatch.setenv("FASTPIPE_UNPACKED", "4 kB")
        unpacked.make_room(str(new))
        assert set(cache.iterdir()) == {held, mine, recent, new}
        monkeypatch.setenv("FASTPIPE_UNPACKED", "1 kB")
        unpacked.make_room(str(new))
        assert set(cache.iterdir()) == {held, mine, new}
        user.communicate()
    unpacked.make_room(str(new))  # the process has ended
    assert set(cache.iterdir()) == {mine, new}
    assert not old.exists()


def test_a_table_s_copy_is_held(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPIPE_UNPACKED", "0")
    tables = [fastpipe.ImageTable(_table(tmp_path, number)) for number in (1, 2)]
    for number, table in enumerate(tables, 1):
        assert table[1][0].size == (30 + number, 20)
        (copy,) = table.index.containers
        assert unpacked._held[copy] == os.getpid()


def test_a_capacity_that_is_none(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPIPE_UNPACKED", "much")
    with pytest.raises(ConfigError, match="FASTPIPE_UNPACKED='much'"):
        fastpipe.ImageTable(_table(tmp_path, 1))
