"""Settings and fixtures of all tests: one thread per library, so that tests measure nothing and fight over nothing."""

from __future__ import annotations

import gc
import itertools
import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import bad_files
import pytest
import torch
from hypothesis import HealthCheck, settings

import fastpipe
from fastpipe import core
from fastpipe.index import pieces
from fastpipe.readers.registry import reader_status

torch.set_num_threads(1)
# No deadline: speed belongs in benchmarks, and a slow machine is not a failed test.
settings.register_profile("all", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
settings.register_profile("quick", settings.get_profile("all"), max_examples=20)


def pytest_configure(config: pytest.Config) -> None:
    """Without the slow tests, properties are tried on fewer examples, too; each test file is imported behind this."""
    settings.load_profile("quick" if config.option.markexpr == "not slow" else "all")


_homes = itertools.count()


def pytest_collection_finish() -> None:
    """The collector of garbage passes over all that the tests' modules hold: it would go through it for each test."""
    gc.collect()
    gc.freeze()


_NOT_HERE = re.compile(
    r"No module named '(albumentations|matplotlib|psutil|pyarrow|scipy|timm|transformers)\b"
    r"|fastpipe\.transforms\.v2 is made of the classes of torchvision 0\.21 or later"
)
"""Errors of files of tests where a package of an extra is missing, or where torchvision is old."""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skips a file that can't be imported here, for a known reason."""
    report = yield
    missing = _NOT_HERE.search(str(report.longrepr)) if report.failed else None
    if missing is not None:
        report.outcome, report.longrepr = "skipped", (str(collector.path), 1, missing[0])
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests of what this machine lacks: fastpipe's core, a reader's package, or processes that are forked."""
    if item.get_closest_marker("needs_core") and not core.available():
        pytest.skip(core.why_not())
    if item.get_closest_marker("needs_fork") and not hasattr(os, "fork"):
        pytest.skip("this system doesn't fork")
    for marker in item.iter_markers("needs_reader"):
        for name in marker.args:
            if not (status := reader_status()[name]).available:
                pytest.skip(status.reason)


@pytest.fixture(autouse=True)
def _own_config(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own config, cache or reader choice, or depends on the terminal's width."""
    home = tmp_path_factory.getbasetemp() / "homes" / str(next(_homes))  # each `mktemp` lists all that is there
    home.mkdir(parents=True)
    monkeypatch.setenv("FASTPIPE_CONFIG", str(home / "config.toml"))
    monkeypatch.setenv("FASTPIPE_CACHE", str(home / "cache"))
    monkeypatch.delenv("FASTPIPE_READER", raising=False)
    monkeypatch.setenv("COLUMNS", "1000")  # no line of a report is broken: tests look for what it says


@pytest.fixture(scope="session")
def spoiled_index(tmp_path_factory: pytest.TempPathFactory) -> fastpipe.ImageIndex:
    """An index of `bad_files.COUNT` photos in three classes, some of which went bad after it was made."""
    root = tmp_path_factory.mktemp("photos")
    bad_files.write_photos(root, bad_files.COUNT, kinds=bad_files.COUNT)
    index = fastpipe.ImageIndex.from_folder(root, location=None)
    for number, kind in bad_files.BAD.items():
        bad_files.spoil(index.path(number), kind)
    return index


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler in this process, two worker processes, and a nanny each that starts a killed one again."""
    distributed = pytest.importorskip("distributed", reason="a cluster takes Dask: pip install distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, protocol="tcp"
    ) as made:
        yield made


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of indexes: folders count as settled at once: what is tested here is not the time that passes."""
    monkeypatch.setattr(pieces, "SETTLED_NS", -(10**18))


@pytest.fixture
def bad_files_log(tmp_path: Path) -> Path:
    return tmp_path / "bad_files.csv"
