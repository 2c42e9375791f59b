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
from collections import deque
from collections.abc import Generator, Iterator
from typing import IO, Any, NamedTuple

from fastpipe import readers
from fastpipe.errors import FastpipeError
from fastpipe.index.cluster import Cluster, shared_paths
from fastpipe.tools.check.examine import Rules
from fastpipe.tools.check.findings import FileFacts, bits_of

_START_S = 120.0
_STARTS = 3
_LOSSES_IN_A_ROW = 50
_LOOK_S = 0.5
_TAIL_BYTES = 2000
_FOUND_AHEAD = 1000

CHUNK = 1024
"""Files in a task: of a few folders, or of one shard. A task of a cluster starts a process of its own to read them."""

_STEP = 16


class Task(NamedTuple):
    """A file to examine."""

    number: int  # its position in the index
    path: str  # the whole path
    stamp: tuple[int, int] | None = None  # bytes and mtime_ns that need no new look; None to look anyway


class _Lost(Exception):
    """A process gives no more answers."""

    def __init__(self, how: str, hung: bool) -> None:
        super().__init__(how)
        self.hung = hung  # killed for being late; else it died


class _Process:
    """A process that examines files: tasks in, and an answer for each in their order."""

    def __init__(self, rules: Rules) -> None:
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        try:
            self._errors: IO[bytes] | None = tempfile.TemporaryFile()  # noqa: SIM115 - stays open
        except OSError:
            self._errors = None
        code = f"import sys; sys.path[:] = {sys.path!r}; from fastpipe.tools.check.worker import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors or subprocess.DEVNULL,
            start_new_session=os.name == "posix",  # Ctrl-C in the terminal is for the parent alone
        )
        self.send(rules)
        threading.Thread(target=self._receive, daemon=True).start()

    def send(self, what: object) -> None:
        """Sends the rules, or files to examine."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it is dead, as the end of its answers will show
            pickle.dump(what, self._process.stdin)
            self._process.stdin.flush()

    def answer(self, timeout_s: float) -> Any:
        """The next answer.

        Raises:
            _Lost: none comes in time, or the process has ended.
        """
        try:
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise _Lost(self.end(), hung=True) from None
        if not line:
            raise _Lost(self.end(), hung=False)
        return json.loads(line)

    def _receive(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            for line in answers:
                self._answers.put(line)
        self._answers.put(b"")

    def kill(self) -> None:
        """Kills the process; whoever waits for an answer gets none, even if it is stuck in a read."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._answers.put(b"")

    def end(self) -> str:
        """Ends the process, waits a moment for it, and says how it ended."""
        self.kill()
        code: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the system, in a read that nothing interrupts
            code = self._process.wait(5)
        said = self._said()
        for pipe in (self._process.stdin, self._errors):
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
        if self._errors is None or self._errors.closed:
            return ""
        self._errors.seek(max(self._errors.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


def examine_all(
    chunks: Iterator[list[Task]], rules: Rules, jobs: int, timeout_s: float
) -> Generator[tuple[int, FileFacts | None], None, None]:
    """The findings of each file, in the order in which it becomes known.

    A file over which a process died or hung gets a second try, in a process of its own, when all others are done: the
    system may have killed the first for another's memory, a disk may have stalled for a minute.

    Yields:
        A file's number, and what was found; None where the file still bears its task's stamp.

    Raises:
        FastpipeError: processes don't start, or die or hang over one file after the other, so that it isn't the files.
    """
    pool = _Pool(chunks, rules, timeout_s)
    running = jobs
    try:
        for _ in range(jobs):
            threading.Thread(target=pool.work, daemon=True).start()
        while running:
            try:
                found = pool.found.get(timeout=_LOOK_S)  # on Windows, Ctrl-C waits for the end of a wait
            except queue.Empty:
                continue
            if isinstance(found, Exception):
                raise found
            if found is None:
                running -= 1
            else:
                yield found
    finally:
        pool.close()
        while running:
            running -= pool.found.get() is None


class _Pool:
    """The files that wait for a process, and what was found; each thread keeps one process busy.

    Attributes:
        found: for a file its number and what was found, or why no file can be examined; None when a thread ends.
    """

    def __init__(self, chunks: Iterator[list[Task]], rules: Rules, timeout_s: float) -> None:
        self.found: queue.Queue[tuple[int, FileFacts | None] | Exception | None] = queue.Queue(_FOUND_AHEAD)
        self._chunks = chunks
        self._rules = rules
        self._timeout_s = timeout_s
        self._lock = threading.Lock()  # of all that follows
        self._processes: set[_Process] = set()
        self._closed = False
        self._again: deque[Task] = deque()  # what processes were lost over
        self._tried: set[int] = set()
        self._losses = 0

    def close(self) -> None:
        """Kills the processes, so that the threads end soon."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()

    def work(self) -> None:
        """Keeps a process busy as long as there are files, in a thread."""
        process = None
        try:
            while tasks := self._take():
                while tasks and not self._closed:
                    process = process or self._start()
                    process.send([tuple(task) for task in tasks])
                    process = self._collect(process, tasks)
            if process is not None:
                process.end()
        except Exception as error:
            self.found.put(error)
        finally:
            self.found.put(None)

    def _take(self) -> deque[Task]:
        """The next files to examine; empty where there are none, or nobody waits for them."""
        with self._lock:
            if self._closed:
                return deque()
            chunk: list[Task] = next(self._chunks, [])
            return deque(chunk or [self._again.popleft() for _ in list(self._again)[:1]])

    def _start(self) -> _Process:
        """Starts a process, and waits until it is ready."""
        how = ""
        for _ in range(_STARTS):
            try:
                process = _Process(self._rules)
            except OSError as error:  # no more processes, or no memory for one
                raise FastpipeError(f"a process that examines files doesn't start: {error}; try fewer jobs") from error
            with self._lock:
                self._processes.add(process)
                if self._closed:
                    process.kill()
            try:
                process.answer(max(_START_S, self._timeout_s))  # "ready"
                return process
            except _Lost as lost:
                self._processes.discard(process)
                how = str(lost)
        raise FastpipeError(f"the processes that examine files don't start: {how}")

    def _collect(self, process: _Process, tasks: deque[Task]) -> _Process | None:
        """Takes the answers for files that a process got; returns it, or None if it was lost over the first of them."""
        while tasks:
            try:
                answer = process.answer(self._timeout_s)
            except _Lost as lost:
                with self._lock:
                    self._processes.discard(process)
                    found = None if self._closed else self._lose(tasks.popleft(), lost)
                if found is not None:
                    self.found.put(found)
                return None
            self._losses = 0
            self.found.put((tasks.popleft().number, FileFacts(*answer[1:]) if len(answer) > 1 else None))
        return process

    def _lose(self, task: Task, lost: _Lost) -> tuple[int, FileFacts] | None:
        """The finding of a file that a process was lost over; None if it gets a second try."""
        if task.number in self._tried:
            return task.number, _loss(task, lost, self._timeout_s)
        self._tried.add(task.number)
        self._again.append(task)
        self._losses += 1
        if self._losses >= _LOSSES_IN_A_ROW:
            raise FastpipeError(
                f"{self._losses} files in a row killed or hung the process that read them, the last one "
                f"{task.path} ({lost}): that is this machine, its disk or a reader, not the files. "
                "FASTPIPE_READER=pil chooses the plainest reader; run the check again to go on from here"
            )
        return None


def _loss(task: Task, lost: _Lost, timeout_s: float) -> FileFacts:
    if lost.hung:  # no look at the file: the disk may stall again
        return FileFacts(bits_of(["hang"]), text=f"not done after {timeout_s:g} s, twice")
    size, mtime_ns = -1, 0
    with contextlib.suppress(OSError):
        size, mtime_ns = readers.stat_file(task.path)
    return FileFacts(bits_of(["crash"]), size, mtime_ns, text=f"the process that read it ended with {lost}")


def examine_on(
    address: str, chunks: Iterator[list[Task]], rules: Rules, timeout_s: float, quiet: bool
) -> Generator[tuple[int, FileFacts | None], None, None]:
    """`examine_all` by the workers of the scheduler at an address.

    Raises:
        DatasetError: the files lie in what this machine unpacked for itself.
        FastpipeError: as `examine_all` and `Cluster` raise it.
    """

    def asked() -> Iterator[Any]:
        for chunk in chunks:
            paths = shared_paths([task.path for task in chunk])
            tasks = [task._replace(path=path) for task, path in zip(chunk, paths, strict=True)]
            yield tasks, rules, timeout_s

    with Cluster(address, quiet=quiet) as cluster:
        for _, answers in cluster.map(_examined, asked(), kept=False):  # the check has a journal of its own
            yield from answers


def _examined(asked: tuple[list[Task], Rules, float]) -> list[tuple[int, FileFacts | None]]:
    """Examines, in a worker, the files of a task, read by a process of their own."""
    tasks, rules, timeout_s = asked
    chunks = [tasks[start : start + _STEP] for start in range(0, len(tasks), _STEP)]
    return list(examine_all(iter(chunks), rules, 1, timeout_s))
