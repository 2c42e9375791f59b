"""A thread's own threads of the core, and memory for jobs and files that it uses again."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from fastpipe.core.files import Files
from fastpipe.core.library import available
from fastpipe.core.pool import JobArray, Pool


class ThreadResources:
    """A thread's own: the core's threads that work for it, and memory for jobs and files that is used again."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = Pool(max(threads, 1))
        self._jobs: list[JobArray] = []
        self._files: list[Files] = []

    def jobs(self, count: int) -> JobArray:
        """Room for `count` jobs; `give_back` takes it."""
        batch = self._jobs.pop() if self._jobs else None
        return JobArray(count) if batch is None or batch.size < count else batch

    def read(self, sources: Sequence[str | bytes], max_bytes: int, *, whole: bool = False) -> Files:
        """Reads files and looks at their headers; `give_back` takes their memory.

        Args:
            sources: paths of files, and what is in others.
            max_bytes: longer files aren't read; 0 for no limit.
            whole: as of `Files.load`.
        """
        files = self._files.pop() if self._files else Files()
        files.load(sources, max_bytes, self.pool, whole=whole)
        return files

    def give_back(self, memory: JobArray | Files) -> None:
        """Takes memory that nobody needs any more, for the next ones who ask."""
        if isinstance(memory, Files):
            self._files.append(memory)
        else:
            self._jobs.append(memory)


_local = threading.local()


def thread_resources(threads: int) -> ThreadResources | None:
    """The calling thread's own; with another number of threads than before it is made anew.

    None where there is no core.
    """
    found: ThreadResources | None = getattr(_local, "resources", None)
    if found is None or threads != found.threads:
        end_threads()
        found = _local.resources = ThreadResources(threads) if available() else None
    return found


def end_threads() -> None:
    """Ends the core's threads that work for the calling thread; the next batch starts its own."""
    found: ThreadResources | None = getattr(_local, "resources", None)
    if found is not None:
        found.pool.close()
        _local.resources = None
