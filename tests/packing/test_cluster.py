"""``--scheduler``: a Dask cluster writes byte for byte what one process writes, also where a worker is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import archives
import pytest
from comparison import contents

from fastpipe.packing import pack, run
from fastpipe.packing.record import NAME

distributed = pytest.importorskip("distributed", reason="a cluster takes Dask: pip install 'fastpipe[dask]'")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler in this process, two worker processes, and a nanny each that starts a killed one again."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, protocol="tcp"
    ) as made:
        yield made


@pytest.mark.parametrize("name", ["out", "out.zip", "s-{000..}.tar", "same"])
def test_the_bytes_are_those_of_one_process(
    cluster: Any, folder: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is killed at the first result, and the run is interrupted later and goes on."""
    source: Any = folder
    if name == "same":
        archives.shards(folder, tmp_path / "in", 4)
        source = tmp_path / "in" / "*.tar"
    for kind in run._FILES_OF_A_TASK:
        monkeypatch.setitem(run._FILES_OF_A_TASK, kind, 3)
    pack(source, tmp_path / "alone" / name, shard_samples=3)
    take, seen = run._Flow._take_rows, [0]

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

    monkeypatch.setattr(run._Flow, "_take_rows", noting)
    options: dict[str, Any] = {"shard_samples": 3, "scheduler": cluster.scheduler_address, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path / "together" / name, **options)
    result = pack(source, tmp_path / "together" / name, **options)
    assert result.resumed > 0
    found = contents(tmp_path / "together")
    assert {name.partition("/")[2]: data for name, data in found.items()} == {
        name.partition("/")[2]: data for name, data in contents(tmp_path / "alone").items()
    }
    rows = next((tmp_path / "together").rglob(f"*{NAME}")).read_text().splitlines()
    assert len(rows) - 1 == len(set(rows)) - 1 >= result.files


def test_what_was_begun_alone_is_ended_together(
    cluster: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(folder, tmp_path / "alone" / "{0..}.tar", shard_samples=4)
    take, seen = run._Flow._take_rows, [0]
    monkeypatch.setattr(run, "FILES", 2)

    def interrupted(self: Any, rows: Any) -> None:
        seen[0] += 1
        if seen[0] == 4:
            raise KeyboardInterrupt
        take(self, rows)

    monkeypatch.setattr(run._Flow, "_take_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pack(folder, tmp_path / "both" / "{0..}.tar", shard_samples=4, jobs=1)
    pack(folder, tmp_path / "both" / "{0..}.tar", shard_samples=4, scheduler=cluster.scheduler_address, progress=False)
    for number in range(4):
        one, other = (tmp_path / name / f"{number}.tar" for name in ("alone", "both"))
        assert one.read_bytes() == other.read_bytes()
