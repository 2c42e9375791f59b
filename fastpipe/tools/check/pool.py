"""Keeps worker processes busy, and replaces one that a file killed or hung.

It uses plain processes with pipes rather than `multiprocessing`: they don't import the caller's program, so that it
needs no ``if __name__ == "__main__"``; no process is forked while threads run; and a process's death damages no queue.
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
from dataclasses import dataclass, field
from typing import IO, cast

from fastpipe import readers
from fastpipe.counts import pluralize
from fastpipe.errors import FastpipeError
from fastpipe.index.cluster import Cluster, shared_paths
from fastpipe.tools.check.examine import Rules, Task
from fastpipe.tools.check.findings import FileFacts, bits_of

_START_S = 120.0
_STARTS = 3
_LOSSES_IN_A_ROW = 50
_LOOK_S = 0.5
_TAIL_BYTES = 2000
_END_S = 5.0

CHUNK = 1024
"""Files in a task on a cluster, which starts a process to read them."""


class _Process:
    """A process that examines files, and a thread that reads its answers, one for each file, in order.

    The process gets the files `tasks` when it is ready. The thread puts each line of output into `answers`, and an
    empty line when the process has ended.
    """

    def __init__(
        self, rules: Rules, tasks: deque[Task], timeout_s: float, answers: queue.SimpleQueue[tuple[_Process, bytes]]
    ) -> None:
        self.tasks = tasks  # files without an answer yet
        self.ready = False  # whether it has started and got them
        self.deadline = time.monotonic() + max(_START_S, timeout_s)  # for the next answer
        self.end = ""  # how the process ended, with the last line of its standard error
        self._timeout_s = timeout_s
        self._answers = answers
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - stays open
        code = f"import sys; sys.path[:] = {sys.path!r}; from fastpipe.tools.check.examine import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=os.name == "posix",  # so that Ctrl-C in the terminal only reaches the parent
        )
        self._tasks_in = cast("IO[bytes]", self._process.stdin)
        self._answers_out = cast("IO[bytes]", self._process.stdout)
        self._send(rules)
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def examine(self, tasks: deque[Task]) -> None:
        """Sends the process files to examine."""
        self.tasks = tasks
        self.ready = True
        self._send(tasks)
        self.begin_file()

    def begin_file(self) -> None:
        """Starts the timeout of the next file."""
        self.deadline = time.monotonic() + self._timeout_s

    def _send(self, what: object) -> None:
        with contextlib.suppress(OSError, ValueError):  # the process is dead; the end of its answers will show that
            pickle.dump(what, self._tasks_in)
            self._tasks_in.flush()

    def _receive(self) -> None:
        with self._answers_out as answers:
            for line in answers:
                self._answers.put((self, line))
        code = self._process.wait()
        self.end = f"exit status {code}"
        if code < 0:
            named = {one.value: one.name for one in signal.Signals}
            self.end = f"signal {-code} ({named.get(-code, 'unknown')})"
        if code == -9:
            self.end += ", as when the system is out of memory: try fewer --jobs"
        if said := self._said():
            self.end += f"; it said: {said}"
        for pipe in (self._tasks_in, self._errors):
            with contextlib.suppress(OSError):
                pipe.close()
        self._answers.put((self, b""))

    def _said(self) -> str:
        """The last line that the process wrote to its standard error."""
        self._errors.seek(max(self._errors.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")

    def kill(self) -> None:
        """Kills the process, which may take a while: a read from a stalled disk can't be interrupted."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def join(self) -> None:
        """Waits up to ``_END_S`` seconds for the process's end."""
        self._thread.join(_END_S)


def examine_all(
    chunks: Iterator[list[Task]], rules: Rules, jobs: int, timeout_s: float
) -> Generator[tuple[int, FileFacts], None, None]:
    """Yields each file's number and facts, as they become known.

    A file that killed or hung a process is tried once more, alone in a process, when all others are done: the system
    may have killed the first process because others used the memory, or the disk may have stalled for a minute. If
    processes don't start, or die or hang at one file after the other, so that the files aren't the cause, it raises
    FastpipeError.
    """
    pool = _Pool(chunks, rules, timeout_s)
    try:
        for _ in range(jobs):
            pool.start(pool.take())
        while pool.busy:
            yield from pool.next_result()
    finally:
        for process in pool.started:
            process.kill()
        for process in pool.started:
            process.join()


@dataclass
class _Pool:
    """The processes, and the queue of files."""

    chunks: Iterator[list[Task]]
    rules: Rules
    timeout_s: float
    answers: queue.SimpleQueue[tuple[_Process, bytes]] = field(default_factory=queue.SimpleQueue)
    started: list[_Process] = field(default_factory=list)
    busy: set[_Process] = field(default_factory=set)
    again: deque[Task] = field(default_factory=deque)  # files that killed or hung a process
    tried: set[int] = field(default_factory=set)  # the numbers of all such files
    losses: int = 0  # processes lost in a row while they examined files
    failures: int = 0  # processes lost in a row before they were ready

    def next_result(self) -> Iterator[tuple[int, FileFacts]]:
        """Waits for an answer, and gives its process more work; yields the facts if the answer is about a file."""
        if self.answers.empty():  # else an answer may have come just in time
            now = time.monotonic()
            for process in [one for one in self.busy if one.deadline < now]:
                yield from self._lose(process, hung=True)
        try:
            process, line = self.answers.get(timeout=_LOOK_S)  # on Windows, Ctrl-C doesn't interrupt a wait
        except queue.Empty:
            return
        if process not in self.busy:
            return
        if not line:
            yield from self._lose(process, hung=False)
        elif not process.ready:
            self.failures = 0
            process.examine(process.tasks)
        else:
            self.losses = 0
            task = process.tasks.popleft()
            if process.tasks:
                process.begin_file()
            elif tasks := self.take():
                process.examine(tasks)
            else:
                self._end(process)
            yield task.number, FileFacts(*json.loads(line))

    def take(self) -> deque[Task]:
        """The next files to examine; empty if there are none."""
        chunk = next(self.chunks, None)
        return deque(chunk or [self.again.popleft() for _ in list(self.again)[:1]])

    def start(self, tasks: deque[Task]) -> None:
        """Starts a process for some files, if there are any."""
        if not tasks:
            return
        try:
            process = _Process(self.rules, tasks, self.timeout_s, self.answers)
        except OSError as error:  # the limit of processes, or no memory
            raise FastpipeError(f"a process that examines files doesn't start: {error}; try fewer jobs") from error
        self.started.append(process)
        self.busy.add(process)

    def _end(self, process: _Process) -> None:
        self.busy.discard(process)
        process.kill()

    def _lose(self, process: _Process, hung: bool) -> Iterator[tuple[int, FileFacts]]:
        """Replaces a process that hangs or has died; yields the finding if this was the file's second try."""
        self._end(process)
        how = "it gave no answer in time" if hung else process.end
        if not process.ready:
            self.failures += 1
            if self.failures == _STARTS:
                raise FastpipeError(f"the processes that examine files don't start: {how}")
            self.start(process.tasks)
            return
        task = process.tasks.popleft()
        again = task.number not in self.tried
        if again:
            self.tried.add(task.number)
            self.again.append(task)
            self.losses += 1
        if self.losses == _LOSSES_IN_A_ROW:
            raise FastpipeError(
                f"{pluralize(self.losses, 'file')} in a row killed or hung the process that read them, the last one "
                f"{task.path} ({how}): that is this machine, its disk or a reader, not the files. "
                "FASTPIPE_READER=pil chooses the plainest reader; then run the check again"
            )
        self.start(process.tasks or self.take())
        if not again:
            yield task.number, self._finding(task, None if hung else how)

    def _finding(self, task: Task, end: str | None) -> FileFacts:
        """The finding for a file that killed or hung two processes; `end` is how the second ended, None if it hung."""
        if end is None:  # don't open the file, as the disk may stall again
            return FileFacts(bits_of(["hang"]), text=f"not done after {self.timeout_s:g} s, twice")
        size = -1
        with contextlib.suppress(OSError):
            size = readers.stat_file(task.path)[0]
        return FileFacts(bits_of(["crash"]), size, text=f"the process that read it ended with {end}")


def examine_on(
    address: str, chunks: Iterator[list[Task]], rules: Rules, timeout_s: float, quiet: bool
) -> Generator[tuple[int, FileFacts], None, None]:
    """Examines all files with the workers of a Dask scheduler, as `examine_all` does."""

    def asked() -> Iterator[tuple[list[Task], Rules, float]]:
        for chunk in chunks:
            paths = shared_paths([task.path for task in chunk])
            tasks = [task._replace(path=path) for task, path in zip(chunk, paths, strict=True)]
            yield tasks, rules, timeout_s

    with Cluster(address, quiet=quiet) as cluster:
        for _, answers in cluster.map(_examined, asked()):
            yield from answers


def _examined(asked: tuple[list[Task], Rules, float]) -> list[tuple[int, FileFacts]]:
    """Examines a chunk in a cluster's worker, which starts a process to read the files."""
    tasks, rules, timeout_s = asked
    return list(examine_all(iter([tasks]), rules, 1, timeout_s))
