"""``--scheduler``: a Dask cluster writes byte for byte what one process writes, also where a worker is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import archives
import pytest
from comparison import contents

from fastpipe.errors import DatasetError
from fastpipe.packing import pack, pack_run
from fastpipe.packing.record import NAME

distributed = pytest.importorskip("distributed", reason="a cluster takes Dask: pip install distributed")

pytestmark = pytest.mark.slow


def source_of(name: str, folder: Path, place: Path) -> Path:
    """The source of a target: shards where it is to have the same ones, else the folder."""
    if name != "same":
        return folder
    archives.shards(folder, place / "in", 4)
    return place / "in" / "*.tar"


def named_within(place: Path) -> dict[str, bytes]:
    """The contents of a folder, by their names in it."""
    return {name.partition("/")[2]: data for name, data in contents(place).items()}


@pytest.mark.parametrize("name", ["out", "out.zip", "s-{000..}.tar", "same"])
def test_the_bytes_are_those_of_one_process(
    cluster: Any, folder: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is killed at the first result, and the run is interrupted later and goes on."""
    source = source_of(name, folder, tmp_path)
    for kind in pack_run._FILES_OF_A_TASK:
        monkeypatch.setitem(pack_run._FILES_OF_A_TASK, kind, 3)
    pack(source, tmp_path / "alone" / name, shard_samples=3)
    take, seen = pack_run.PackRun._take_rows, [0]

    def noting(self: Any, rows: Any) -> None:
        seen[0] += 1
        if seen[0] == 1:
            with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
                processes = client.run(os.getpid)
                busy = [worker for worker, tasks in client.processing().items() if tasks]
                os.kill(processes[(busy or [*processes])[0]], signal.SIGKILL)
        if seen[0] == 3:
            raise KeyboardInterrupt
        take(self, rows)

    monkeypatch.setattr(pack_run.PackRun, "_take_rows", noting)
    options: dict[str, Any] = {"shard_samples": 3, "scheduler": cluster.scheduler_address, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path / "together" / name, **options)
    result = pack(source, tmp_path / "together" / name, **options)
    again = pack(source, tmp_path / "together" / name, shard_samples=3)  # by this process, which finds nothing to do
    assert 0 < result.resumed < result.files == again.resumed == again.files
    alone = pack(source, tmp_path / "alone" / name, shard_samples=3)
    for one in (result, again):
        totals = (one.files, one.converted, one.kept, one.bytes_before, one.bytes_after, one.parts)
        assert totals == (alone.files, alone.converted, alone.kept, alone.bytes_before, alone.bytes_after, alone.parts)
    assert named_within(tmp_path / "together") == named_within(tmp_path / "alone")
    rows = next((tmp_path / "together").rglob(f"*{NAME}")).read_text().splitlines()
    assert len(rows) - 1 == len(set(rows)) - 1 == (4 if name == "same" else result.files)
    if name == "same":
        archives.shard(tmp_path / "in" / "003.tar", {"a.txt": b"another"})
        with pytest.raises(DatasetError, match=r"003\.tar has changed since"):
            pack(source, tmp_path / "together" / name, **options)


@pytest.mark.parametrize("name", ["{0..}.tar", "same", "out.tar"])
def test_what_was_begun_alone_is_ended_together(
    cluster: Any, folder: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(name, folder, tmp_path)
    pack(source, tmp_path / "alone" / name, shard_samples=4)
    take, seen = pack_run.PackRun._take_rows, [0]
    monkeypatch.setattr(pack_run, "FILES", 2)

    def interrupted(self: Any, rows: Any) -> None:
        seen[0] += 1
        if seen[0] == 4:
            raise KeyboardInterrupt
        take(self, rows)

    monkeypatch.setattr(pack_run.PackRun, "_take_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path / "both" / name, shard_samples=4, jobs=1)
    pack(source, tmp_path / "both" / name, shard_samples=4, scheduler=cluster.scheduler_address, progress=False)
    assert named_within(tmp_path / "both") == named_within(tmp_path / "alone")
