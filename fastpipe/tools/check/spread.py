"""Examining files by the workers of a Dask cluster: each task is `examine_all` of some files that follow each other."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

from fastpipe.data.cluster import Cluster, whole_path
from fastpipe.data.store import cache_folder
from fastpipe.errors import DatasetError
from fastpipe.tools.check.examine import Rules
from fastpipe.tools.check.findings import Seen
from fastpipe.tools.check.pool import Task, examine_all
from fastpipe.types import Member

CHUNK = 1024
"""Files in a task: of a few folders, or of one shard. A task starts a process of its own to read them."""

_STEP = 16


def examine_on(
    address: str, chunks: Iterator[list[Task]], rules: Rules, timeout_s: float
) -> Generator[tuple[int, Seen | None], None, None]:
    """As `examine_all`, by the workers of the scheduler at an address.

    Raises:
        DatasetError: the files lie in what this machine unpacked for itself.
        FastpipeError: as `examine_all` and `Cluster` raise it.
    """
    own = os.fspath(cache_folder()) + os.sep

    def asked() -> Iterator[Any]:
        for chunk in chunks:
            tasks = [Task(task.number, whole_path(task.path), task.stamp) for task in chunk]
            path = tasks[0].path
            if type(path) is Member and path.container.startswith(own):
                raise DatasetError(
                    f"{path} was unpacked into this machine's cache folder, where a cluster's workers don't see it: "
                    "check it without a scheduler."
                )
            yield tasks, rules, timeout_s

    with Cluster(address) as cluster:
        for _, answers in cluster.map(_examined, asked(), kept=False):  # the check has a journal of its own
            for number, seen in answers:
                yield number, None if seen is None else Seen(*seen)


def _examined(asked: tuple[list[Task], Rules, float]) -> list[tuple[int, Seen | None]]:
    """In a worker: the files of a task, read by a process of their own."""
    tasks, rules, timeout_s = asked
    chunks = [tasks[start : start + _STEP] for start in range(0, len(tasks), _STEP)]
    return list(examine_all(iter(chunks), rules, 1, timeout_s))
