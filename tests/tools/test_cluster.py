"""``--scheduler``: a Dask cluster of two workers lists and examines as one process does, also where one is killed."""

from __future__ import annotations

import io
import itertools
import math
import os
import signal
import socket
import tarfile
import time
from collections import deque
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
from click.testing import CliRunner

import fastpipe
from fastpipe.cli.app import app
from fastpipe.datasets import ImageIndex
from fastpipe.errors import ConfigError, FastpipeError
from fastpipe.index import cluster as cluster_module
from fastpipe.index import pieces
from fastpipe.index.cluster import Cluster, _key, shared_paths
from fastpipe.index.extensions import IMG_EXTENSIONS
from fastpipe.index.image_index import folder_source
from fastpipe.index.index_source import BuildOptions
from fastpipe.index.shard_source import ShardSource
from fastpipe.index.table import same_tables
from fastpipe.tools.check import run
from fastpipe.tools.check.findings import Findings

distributed = pytest.importorskip("distributed", reason="a cluster takes Dask: pip install distributed")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL", "ignore::PIL.Image.DecompressionBombWarning")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A few images of each kind, and broken ones: a task starts a process, so there are to be few tasks."""
    root = tmp_path / "root"
    files = corpus.files()
    names = ["jpeg-420", "png-rgb", "gif", *[name for name in files if "-cut-" in name][:4]]
    for number, name in enumerate(names * 2):
        path = root / f"class_{number % 2}" / f"{number}{corpus.extension(name)}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name])
    (root / "class_0" / "below").mkdir()
    (root / "class_0" / "below" / "deep.jpg").write_bytes(corpus.jpeg(20, 30))
    (root / "class_1" / "broken.jpg").write_bytes(b"no image")
    return root


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTPIPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_check_is_that_of_one_process_although_a_worker_is_killed(
    cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = fastpipe.check(folder, jobs=1, progress=False)
    monkeypatch.setattr(run, "CHUNK", 8)
    noted: list[int] = []
    put = Findings.put

    def noting(self: Findings, number: int, seen: Any) -> None:
        if not noted:
            with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
                processes = client.run(os.getpid)
                busy = [worker for worker, tasks in client.processing().items() if tasks]
                os.kill(processes[(busy or [*processes])[0]], signal.SIGKILL)
        noted.append(number)
        put(self, number, seen)

    monkeypatch.setattr(Findings, "put", noting)
    together = fastpipe.check(folder, scheduler=cluster.scheduler_address, progress=False)
    assert sorted(noted) == list(range(alone.files))
    assert list(together.rows) == list(alone.rows)
    assert together.counts == alone.counts
    np.testing.assert_array_equal(together.good, alone.good)


def test_an_index_is_that_of_one_process(cluster: Any, folder: Path, tmp_path: Path) -> None:
    time.sleep(pieces.SETTLED_NS / 1e9 + 0.1)  # until then the folders' times are kept as unknown
    alone = ImageIndex.from_folder(folder, location=None, sizes=True, progress=False)
    for root in (folder, os.path.relpath(folder)):
        with Cluster(cluster.scheduler_address) as there:
            options = BuildOptions(sizes=True, progress=False, cluster=there)
            made = ImageIndex.load_or_build(folder_source(root, IMG_EXTENSIONS, options), None)
        assert made.classes == alone.classes
        assert same_tables(made.table, alone.table)
    # What is kept is brought up to date.
    ImageIndex.from_folder(folder, location=tmp_path / "index", sizes=True)
    (folder / "class_0" / "below" / "new.jpg").write_bytes(b"12345")
    with Cluster(cluster.scheduler_address) as there:
        source = folder_source(folder, IMG_EXTENSIONS, BuildOptions(progress=False, cluster=there))
        made = ImageIndex.load_or_build(source, tmp_path / "index")
    assert made.origin == "built: 1 of 4 folders may have changed"
    paths = made.paths(np.arange(len(made)))
    assert paths == [path for path, _ in fastpipe.ImageFolder(folder, index=None).samples]
    assert made.sizes is not None
    assert made.sizes.tolist() == [os.path.getsize(path) for path in paths]


def test_the_command_lists_shards(cluster: Any, tmp_path: Path) -> None:
    for shard in range(3):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as tar:
            for number in range(4):
                for name, data in ((f"{number}.jpg", corpus.jpeg(8, 9, seed=shard)), (f"{number}.cls", b"%d" % number)):
                    member = tarfile.TarInfo(f"{shard}-{name}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    arguments = ["index", str(tmp_path / "*.tar"), "--label", "cls", "--json", "-"]
    alone = CliRunner().invoke(app, [*arguments, "--at", str(tmp_path / "alone")])
    address = ["--at", str(tmp_path / "together"), "--scheduler", cluster.scheduler_address]
    together = CliRunner().invoke(app, [*arguments, *address])
    assert together.exit_code == 0, together.output
    assert together.output == alone.output
    opened = [fastpipe.ImageShards(tmp_path / "*.tar", index=tmp_path / name) for name in ("alone", "together")]
    assert [*opened[1].samples] == [*opened[0].samples]
    assert len(opened[1]) == 12


def test_what_was_done_is_not_done_again(cluster: Any, own_cache: Path) -> None:
    """The results of an interrupted run are kept; those of a finished one aren't."""
    items = [4, 9, 16, 25]
    first = Cluster(cluster.scheduler_address, "roots")
    first.__enter__()
    assert dict(first.map(math.isqrt, items[:3])) == {0: 2, 1: 3, 2: 4}
    first.__exit__(KeyboardInterrupt, None, None)
    with Cluster(cluster.scheduler_address, "roots") as second:
        assert second._journal is not None
        kept = [second._journal.get(_key(math.isqrt, item)) for item in items]
        assert kept == [2, 3, 4, None]
        assert dict(second.map(math.isqrt, items)) == {0: 2, 1: 3, 2: 4, 3: 5}
    assert not [*(own_cache / "cluster").iterdir()]


def test_an_index_goes_on_where_it_was_interrupted(cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("class_0/one/two/three", "class_0/one/four", "class_1/one/two"):
        (folder / name).mkdir(parents=True)
        (folder / name / "1.jpg").write_bytes(b"")

    def listed(there: Cluster) -> ImageIndex:
        options = BuildOptions(sizes=True, progress=False, cluster=there)
        return ImageIndex.load_or_build(folder_source(folder, IMG_EXTENSIONS, options), None)

    first = Cluster(cluster.scheduler_address, "roots")
    whole = listed(first.__enter__())
    first.__exit__(KeyboardInterrupt, None, None)
    with Cluster(cluster.scheduler_address, "roots") as second:
        monkeypatch.setattr(second._client, "submit", None)
        assert same_tables(listed(second).table, whole.table)


def test_a_shard_that_changed_after_the_interruption_is_listed_again(cluster: Any, tmp_path: Path) -> None:
    def packed(count: int) -> None:
        for shard in range(2):
            with tarfile.open(tmp_path / f"{shard}.tar", "w") as tar:
                for number in range(count):
                    member = tarfile.TarInfo(f"{shard}-{number}.jpg")
                    member.size = 3
                    tar.addfile(member, io.BytesIO(b"abc"))

    def listed(there: Cluster) -> int:
        options = BuildOptions(progress=False, cluster=there)
        source = ShardSource.of(tmp_path / "*.tar", None, None, options)
        return len(ImageIndex.load_or_build(source, None))

    packed(2)
    first = Cluster(cluster.scheduler_address, "shards")
    assert listed(first.__enter__()) == 4
    first.__exit__(KeyboardInterrupt, None, None)
    packed(12)
    with Cluster(cluster.scheduler_address, "shards") as second:
        assert listed(second) == 24


def test_what_a_worker_raises_is_raised(cluster: Any) -> None:
    with Cluster(cluster.scheduler_address) as there, pytest.raises(ValueError, match="nonnegative"):
        list(there.map(math.isqrt, [4, -1]))


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the time that a cluster gets to two seconds, instead of a minute."""
    for name, seconds in (("_START_S", 2.0), ("_SAY_S", 0.1), ("_LOOK_S", 0.2)):
        monkeypatch.setattr(cluster_module, name, seconds)


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize("quiet", [False, True])
def test_an_address_where_nobody_answers_is_said_at_once_and_given_up(
    quiet: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # takes a connection, and never says a word
        address = f"tcp://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(FastpipeError, match=rf"--scheduler {address}: no scheduler answers there.*dask scheduler"):
            Cluster(address, quiet=quiet).__enter__()
    said = "" if quiet else f"fastpipe: --scheduler {address}: waiting for an answer, for 2 s at most\n"
    assert capsys.readouterr().err == said


@pytest.mark.usefixtures("_hasty")
def test_a_scheduler_without_a_worker_is_said_at_once_and_given_up(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None, protocol="tcp") as empty:
        with pytest.raises(FastpipeError, match=r"its scheduler has no worker.*dask worker ADDRESS"):
            fastpipe.check(folder, scheduler=empty.scheduler_address)
        assert "the scheduler has no worker yet; waiting for one, for 2 s at most" in capsys.readouterr().err


@pytest.mark.usefixtures("_hasty")
def test_a_cluster_that_loses_its_workers_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as small:
        with Cluster(small.scheduler_address) as there:
            results = there.map(math.isqrt, itertools.repeat(4))
            assert next(results) == (0, 2)
            small.scale(0)
            with pytest.raises(FastpipeError, match="lost its last worker"):
                deque(results, maxlen=0)
        assert "the cluster has no worker any more; waiting for one" in capsys.readouterr().err


def test_files_are_shared_without_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTPIPE_CACHE")
    monkeypatch.setattr("fastpipe.index.format.user_folder", lambda _: None)
    monkeypatch.chdir(tmp_path)
    assert shared_paths(["a.jpg", ""]) == [str(tmp_path / "a.jpg"), ""]


def test_arguments_are_looked_at(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="jobs are processes of this machine"):
        fastpipe.check(tmp_path, jobs=2, scheduler="tcp://127.0.0.1:1")
    with pytest.raises(FastpipeError, match=r"--scheduler nothing://here: no scheduler answers"):
        Cluster("nothing://here").__enter__()
