"""Worker processes that are kept busy, and replaced when a file kills or hangs one.

Plain processes with pipes rather than `multiprocessing`: nothing of the caller's program is imported again, so that it
needs no ``if __name__ == "__main__"``, nothing is forked while threads run, and the death of one spoils no queue.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from typing import IO, Any, NamedTuple

from fastpipe import readers
from fastpipe.errors import DatasetError, FastpipeError
from fastpipe.index.cluster import Cluster, whole_path
from fastpipe.index.format import cache_folder
from fastpipe.tools.check.examine import Rules
from fastpipe.tools.check.findings import Seen, bits_of
from fastpipe.types import ArchiveMember

_START_S = 120.0
_FAILED_STARTS = 3
_LOSSES_IN_A_ROW = 50
_LOOK_S = 0.1
_TAIL_BYTES = 2000


CHUNK = 1024
"""Files in a task: of a few folders, or of one shard. A task of a cluster starts a process of its own to read them."""

_STEP = 16


class Task(NamedTuple):
    """A file to examine."""

    number: int  # its position in the index
    path: str  # the whole path
    stamp: tuple[int, int] | None = None  # bytes and mtime_ns that need no new look; None to look anyway


class _Worker:
    """One process, and the files that it still owes an answer for."""

    def __init__(self, rules: Rules, inbox: queue.SimpleQueue[tuple[_Worker, bytes]]) -> None:
        self.owed: deque[Task] = deque()
        self.ready = False
        self.since = time.monotonic()
        self.unread = 0  # answers that are still to come from the process; the main loop may be behind
        self.hung: int | None = None  # where it was killed for being late: how many answers it owed then
        try:
            self._errors: IO[bytes] | None = tempfile.TemporaryFile()  # noqa: SIM115 - stays open
        except OSError:
            self._errors = None
        code = f"import sys; sys.path[:] = {sys.path!r}; from fastpipe.tools.check.worker import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors or subprocess.DEVNULL,
            start_new_session=os.name == "posix",  # Ctrl-C in the terminal is for the parent alone
        )
        self._send(rules)
        threading.Thread(target=self._receive, args=(inbox,), daemon=True).start()

    def give(self, tasks: list[Task]) -> None:
        self.owed.extend(tasks)
        self.since = time.monotonic()
        self.unread += len(tasks)
        self._send([tuple(task) for task in tasks])

    def overdue(self, timeout_s: float) -> bool:
        if not self.ready:
            return time.monotonic() - self.since > max(_START_S, timeout_s)
        return self.unread > 0 and time.monotonic() - self.since > timeout_s

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self.process.kill()

    def end(self) -> str:
        """Words for how a process ended that gives no answers any more; waits a moment for it."""
        self.kill()
        code: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the system, in a read that nothing interrupts
            code = self.process.wait(5)
        said = self._said()
        for pipe in (self.process.stdin, self._errors):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        how = f"exit status {code}"
        if code is not None and code < 0:
            named = {one.value: one.name for one in signal.Signals}
            how = f"signal {-code} ({named.get(-code, 'unknown')})"
        if code == -9:
            how += ", as when the system is out of memory: try fewer --jobs"
        return f"{how}; it said: {said}" if said else how

    def _said(self) -> str:
        """The last line that the process wrote to its standard error."""
        if self._errors is None:
            return ""
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(self._errors.tell() - _TAIL_BYTES, 0))
            lines = self._errors.read().decode(errors="replace").split("\n")
            return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
        return ""

    def _send(self, what: object) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it is dead, as the end of its answers will show
            pickle.dump(what, self.process.stdin)
            self.process.stdin.flush()

    def _receive(self, inbox: queue.SimpleQueue[tuple[_Worker, bytes]]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as answers:
            for line in answers:
                if self.ready:
                    self.unread -= 1
                self.since = time.monotonic()
                self.ready = True  # the first line says just that
                inbox.put((self, line))
        inbox.put((self, b""))


def examine_all(
    chunks: Iterator[list[Task]], rules: Rules, jobs: int, timeout_s: float
) -> Generator[tuple[int, Seen | None], None, None]:
    """The findings of each file, in the order in which it becomes known.

    A file over which a process died or hung gets a second try, in a process of its own, when all others are done: the
    system may have killed the first for another's memory, a disk may have stalled for a minute.

    Yields:
        A file's number, and what was found; None where the file still bears its task's stamp.

    Raises:
        FastpipeError: processes don't start, or die or hang over one file after the other, so that it isn't the files.
    """
    pool = _Pool(chunks, rules, jobs, timeout_s)
    try:
        while pool.busy():
            yield from pool.step()
    finally:
        for worker in pool.workers:
            worker.kill()
        for worker in pool.workers:
            worker.end()


class _Pool:
    """The processes, and the files that wait for one."""

    def __init__(self, chunks: Iterator[list[Task]], rules: Rules, jobs: int, timeout_s: float) -> None:
        self._chunks = chunks
        self._rules = rules
        self._jobs = jobs
        self._timeout_s = timeout_s
        self._inbox: queue.SimpleQueue[tuple[_Worker, bytes]] = queue.SimpleQueue()
        self.workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._back: deque[list[Task]] = deque()  # what processes that were lost had not done
        self._again: deque[Task] = deque()  # what they were lost over
        self._tried: set[int] = set()
        self._failed_starts = self._losses = 0
        self._looked = time.monotonic()

    def busy(self) -> bool:
        """Gives work to those who have none; whether anybody has some now."""
        while len(self.workers) < self._jobs or self._idle:
            chunk = self._next()
            if chunk is None:
                break
            worker = self._idle.pop() if self._idle else self._new()
            if worker is None:
                self._back.append(chunk)
                break
            worker.give(chunk)
        return len(self._idle) < len(self.workers)

    def _next(self) -> list[Task] | None:
        if self._back:
            return self._back.popleft()
        chunk = next(self._chunks, None)
        if chunk is None and self._again:
            return [self._again.popleft()]
        return chunk

    def _new(self) -> _Worker | None:
        try:
            worker = _Worker(self._rules, self._inbox)
        except OSError as error:  # no more processes, or no memory for one
            if not self.workers:
                raise FastpipeError(f"a process that examines files doesn't start: {error}") from error
            self._jobs = len(self.workers)
            return None
        self.workers.add(worker)
        return worker

    def step(self) -> Iterator[tuple[int, Seen | None]]:
        """Handles the next message, if one comes soon."""
        try:
            worker, line = self._inbox.get(timeout=_LOOK_S)
        except queue.Empty:
            self._look()
            return
        if time.monotonic() - self._looked > 10 * _LOOK_S:
            self._look()
        if worker not in self.workers:
            return
        if not line:
            yield from self._lost(worker)
            return
        answer = json.loads(line)
        if answer == "ready":
            self._failed_starts = 0
            return
        self._losses = 0
        task = worker.owed.popleft()
        yield task.number, Seen(*answer[1:]) if len(answer) > 1 else None
        if not worker.owed:
            self._idle.append(worker)

    def _look(self) -> None:
        """Kills who is late; the end of its answers will show it."""
        self._looked = time.monotonic()
        for worker in self.workers:
            if worker.hung is None and worker.overdue(self._timeout_s):
                worker.hung = worker.unread
                worker.kill()
                # Not left to the pipe, which stays open while the process is stuck in a read that can't be killed.
                self._inbox.put((worker, b""))

    def _lost(self, worker: _Worker) -> Iterator[tuple[int, Seen]]:
        """A process that gives no more answers: what it was at is tried again or told, the rest goes back."""
        self.workers.discard(worker)
        how = worker.end()
        if worker in self._idle:
            self._idle.remove(worker)
            return
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= _FAILED_STARTS:
                raise FastpipeError(f"the processes that examine files don't start: {how}")
        elif worker.hung in (None, len(worker.owed)):  # else it had been late, and answered before it was killed
            task = worker.owed.popleft()
            if task.number in self._tried:
                yield task.number, _loss(task, worker, how, self._timeout_s)
            else:
                self._tried.add(task.number)
                self._again.append(task)
                self._losses += 1
                if self._losses >= _LOSSES_IN_A_ROW:
                    raise FastpipeError(
                        f"{self._losses} files in a row killed or hung the process that read them, the last one "
                        f"{task.path} ({how}): that is this machine, its disk or a reader, not the files. "
                        "FASTPIPE_READER=pil chooses the plainest reader; run the check again to go on from here"
                    )
        if worker.owed:
            self._back.append(list(worker.owed))


def _loss(task: Task, worker: _Worker, how: str, timeout_s: float) -> Seen:
    if worker.hung is not None:  # no look at the file: the disk may stall again
        return Seen(bits_of(["hang"]), text=f"not done after {timeout_s:g} s, twice")
    size, mtime_ns = -1, 0
    with contextlib.suppress(OSError):
        size, mtime_ns = readers.stat_file(task.path)
    return Seen(bits_of(["crash"]), size, mtime_ns, text=f"the process that read it ended with {how}")


def examine_on(
    address: str, chunks: Iterator[list[Task]], rules: Rules, timeout_s: float, quiet: bool
) -> Generator[tuple[int, Seen | None], None, None]:
    """Does as `examine_all`, by the workers of the scheduler at an address.

    Raises:
        DatasetError: the files lie in what this machine unpacked for itself.
        FastpipeError: as `examine_all` and `Cluster` raise it.
    """
    own = os.fspath(cache_folder()) + os.sep

    def asked() -> Iterator[Any]:
        for chunk in chunks:
            tasks = [Task(task.number, whole_path(task.path), task.stamp) for task in chunk]
            path = tasks[0].path
            if type(path) is ArchiveMember and path.container.startswith(own):
                raise DatasetError(
                    f"{path} was unpacked into this machine's cache folder, where a cluster's workers don't see it: "
                    "check it without a scheduler."
                )
            yield tasks, rules, timeout_s

    with Cluster(address, quiet=quiet) as cluster:
        for _, answers in cluster.map(_examined, asked(), kept=False):  # the check has a journal of its own
            for number, seen in answers:
                yield number, None if seen is None else Seen(*seen)


def _examined(asked: tuple[list[Task], Rules, float]) -> list[tuple[int, Seen | None]]:
    """Examines, in a worker, the files of a task, read by a process of their own."""
    tasks, rules, timeout_s = asked
    chunks = [tasks[start : start + _STEP] for start in range(0, len(tasks), _STEP)]
    return list(examine_all(iter(chunks), rules, 1, timeout_s))
