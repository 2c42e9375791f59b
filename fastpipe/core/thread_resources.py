"""Each Python thread's own pool of the core's threads, and its reusable memory for jobs and files."""

from __future__ import annotations

from collections.abc import Sequence

from fastpipe.core.files import Files
from fastpipe.core.library import available
from fastpipe.core.native_object import PerThread
from fastpipe.core.pool import JobArray, Pool


class ThreadResources:
    """One Python thread's pool of the core's threads, and its reusable memory for jobs and files."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = Pool(max(threads, 1))
        self._jobs: list[JobArray] = []
        self._files: list[Files] = []

    def jobs(self, count: int) -> JobArray:
        """Lends memory for `count` jobs, until `give_back`."""
        batch = self._jobs.pop() if self._jobs else None
        return JobArray(count) if batch is None or batch.size < count else batch

    def read(self, sources: Sequence[str | bytes], max_bytes: int, *, whole: bool = False) -> Files:
        """Reads files and their headers into memory that is lent until `give_back`.

        Args:
            sources: paths of files, or the bytes of a file.
            max_bytes: longer files aren't read; 0 for no limit.
            whole: see `Files.load`.
        """
        files = self._files.pop() if self._files else Files()
        files.load(sources, max_bytes, self.pool, whole=whole)
        return files

    def give_back(self, memory: JobArray | Files) -> None:
        """Takes back memory from `jobs` or `read`, for reuse."""
        if isinstance(memory, Files):
            self._files.append(memory)
        else:
            self._jobs.append(memory)


_resources = PerThread[ThreadResources | None](lambda: None)


def thread_resources(threads: int) -> ThreadResources | None:
    """The calling thread's resources, made anew if the number of threads changes.

    None if the core isn't available.
    """
    resources = _resources.value
    if resources is None or threads != resources.threads:
        end_threads()
        resources = _resources.value = ThreadResources(threads) if available() else None
    return resources


def end_threads() -> None:
    """Ends the calling thread's pool; its next batch starts a new one."""
    resources = _resources.value
    if resources is not None:
        resources.pool.close()
        _resources.value = None
