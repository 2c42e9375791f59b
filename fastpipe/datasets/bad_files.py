"""Bad files: their description, their counts, and the record of them that all processes of a dataset share."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import get_spawning_popen
from typing import Literal

import numpy as np
import torch

from fastpipe.environment import no_descriptors_left
from fastpipe.errors import AnnotationError, BadFilesError, DecodeError, FastpipeWarning
from fastpipe.index.table import Array
from fastpipe.memory.shm_pool import shared
from fastpipe.types import Target


class NothingLeftError(BadFilesError):
    """Raised if every sample of a batch is bad and left out."""


@dataclass(frozen=True, slots=True)
class BadFile:
    """A sample whose file can't be read, as a function given as ``on_error`` gets it.

    Attributes:
        index: the sample, from 0.
        path: its file.
        target: its target, before ``target_transform``.
        epoch: the epoch in which it was requested; None for a dataset without a seed.
        error: the exception that reading or decoding raised.
    """

    index: int
    path: str
    target: Target
    epoch: int | None
    error: Exception

    @property
    def reason(self) -> str:
        """The error in one line of at most 300 characters."""
        error = self.error
        if isinstance(error, DecodeError) and error.reason:
            text = f"{error.format or 'unknown format'}: {error.reason}"
        elif isinstance(error, OSError) and error.strerror:
            text = error.strerror
        elif isinstance(error, AnnotationError):
            text = str(error).rstrip(".")
        else:
            text = f"{type(error).__name__}: {error}"
        return " ".join(text.split())[:300]


OnError = Literal["raise", "skip", "replace"] | Callable[[BadFile], object]


@dataclass(frozen=True, slots=True)
class BadFileCounts:
    """Counts of a dataset's samples that couldn't be read; each counts once, however often it was requested.

    Attributes:
        skipped: samples of this epoch that were left out.
        replaced: samples of this epoch that were replaced by others.
        total: samples that were bad at any time since the dataset was made.
    """

    skipped: int
    replaced: int
    total: int

    def __add__(self, other: BadFileCounts) -> BadFileCounts:
        return BadFileCounts(self.skipped + other.skipped, self.replaced + other.replaced, self.total + other.total)


# Errors of the process, not of the file: the next file would fail as well.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_bad_file(error: Exception, planned: bool) -> bool:
    """True if an error means that the file, or its annotation, is bad.

    Args:
        error: raised by reading or decoding.
        planned: fastpipe decoded the file; if the user's own loader did, nearly any exception may mean a bad file.
    """
    if isinstance(error, OSError):
        return error.errno not in _EXHAUSTED
    if isinstance(error, AnnotationError):
        return True
    return not planned and not isinstance(error, MemoryError)


def with_location(error: Exception, index: int, path: str) -> Exception:
    """Returns the error, or a new one of the same class, with the sample and the file named in it."""
    if isinstance(error, DecodeError):
        error.index = index
        if error.source == "<bytes>":
            error.source = path
        return error
    if isinstance(error, OSError) and error.errno is not None and type(error).__module__ == "builtins":
        error = _with_cure(error)
        # OSError's constructor picks the subclass by errno.
        sample = f"sample {index} of the dataset"
        if error.filename is not None and error.filename != path:  # of another file, such as the sample's mask
            return OSError(error.errno, f"{error.strerror} ({sample}, {path})", error.filename)
        return OSError(error.errno, f"{error.strerror} ({sample})", path)
    return with_note(error, index, path)


def with_note(error: Exception, index: int, path: str) -> Exception:
    """Adds a note that names the sample and the file, on Python 3.11 and later; returns the error."""
    if isinstance(error, OSError):
        error = _with_cure(error)
    if sys.version_info >= (3, 11) and not any("of the dataset" in note for note in getattr(error, "__notes__", ())):
        error.add_note(f"This was sample {index} of the dataset, {path}.")
    return error


def _with_cure(error: OSError) -> OSError:
    """Adds advice to an error that says that file descriptors ran out; returns the error."""
    if error.strerror == os.strerror(errno.EMFILE) or error.errno == errno.ENFILE:
        error.strerror = no_descriptors_left(error)
    return error


def without_tracebacks(error: Exception) -> Exception:
    """Removes the tracebacks of an error and of the errors that led to it; returns the error.

    A traceback's frames refer to the batch that was being made, and a stored error would be in a reference cycle with
    its frames: the batch would stay in shared memory until the garbage collector runs, in a worker perhaps for hours.
    """
    chain: list[BaseException] = [error]
    for one in chain:  # the list grows during the loop
        one.__traceback__ = None
        chain += [other for other in (one.__cause__, one.__context__) if other is not None and other not in chain]
    return error


_SCANNED_WHOLE = 1 << 16
_PROBES = 1024
_ROUNDS = 8


def same_target(
    count: int, index: int, generator: np.random.Generator, labels: Array | None, target_of: Callable[[int], object]
) -> Iterator[int]:
    """Yields the other samples of the same target in random order, each once; avoids a full scan if it can.

    Args:
        count: the number of samples in the dataset.
        index: the sample to replace.
        generator: draws the order.
        labels: the targets, ``(count,)``; None if only `target_of` knows them.
        target_of: returns the target of a sample.
    """
    target = target_of(index)
    seen = {index}

    def matches(positions: Array) -> Iterator[int]:
        if labels is not None:
            same = positions[labels[positions] == target].tolist()
        else:
            same = (position for position in positions.tolist() if _same(target_of(position), target))
        for position in same:
            if position not in seen:
                seen.add(position)
                yield position

    if count > _SCANNED_WHOLE:
        for _ in range(_ROUNDS):
            yield from matches(generator.integers(count, size=_PROBES))
    if labels is not None:
        yield from matches(generator.permutation(np.flatnonzero(labels == target)))
    elif count <= _SCANNED_WHOLE:
        yield from matches(generator.permutation(count))
    else:  # millions of targets, each found by a call: from a random start, in order, until the caller has enough
        start = int(generator.integers(count))
        yield from matches(np.arange(start, start + count) % count)


def _same(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except (RuntimeError, TypeError, ValueError):  # arrays and tensors compare element by element
        return False


_SHARED = np.dtype([("size", "i8"), ("has_loader", "i8"), ("warned", "i8"), ("log_known_to", "i8")])

_EVER, SKIPPED, REPLACED = 2, 64, 128


class BadFileRecord:
    """Record of a dataset's bad samples, in memory shared by all processes that read it.

    Each sample has two bytes: its outcome, and whether it is in the log. A process that finds the sample bad writes
    them without reading the old value, as other processes may write at the same time. So no lock is needed, nothing is
    lost when a process is killed, and the counts don't depend on the order of writes. Forked workers inherit the
    memory, spawned workers get a handle to it; a pickle or deep copy made otherwise begins a new record.

    Args:
        count: the number of samples in the dataset.

    Attributes:
        listed: uint8 ``(count,)``; 1 for samples that are in the log.
        shared: a record of numbers: ``size``, the samples of this epoch; ``has_loader``, whether a loader runs it and
            will report its end; ``warned``, whether a warning was given in this epoch; ``log_known_to``, the offset in
            bytes up to which the log was read for lines of other runs and ranks.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._use(shared(torch.zeros(_SHARED.itemsize + 2 * count, dtype=torch.uint8)))
        self.begin(count, by_loader=False)

    def _use(self, memory: torch.Tensor) -> None:
        self._memory = memory
        self.shared: np.void = memory[: _SHARED.itemsize].numpy().view(_SHARED)[0]
        self._marked, self._count_at, self._counted_for = 0, 0, -1.0  # of this process, for `exceeding`
        self._marks, self.listed = memory[_SHARED.itemsize :].view(2, -1).numpy()

    def begin(self, size: int, by_loader: bool) -> None:
        """Begins an epoch of `size` samples."""
        np.bitwise_and(self._marks, _EVER, out=self._marks)
        self.shared["size"], self.shared["has_loader"], self.shared["warned"] = size, by_loader, False

    def end(self) -> bool:
        """Ends the loader's epoch; returns False if no loader had begun one."""
        had_loader = bool(self.shared["has_loader"])
        self.shared["has_loader"] = False
        return had_loader

    def mark(self, index: int, outcome: int) -> None:
        """Marks a sample as bad, with its outcome, `SKIPPED` or `REPLACED`; a later outcome replaces an earlier one."""
        self._marks[index] = _EVER | outcome

    def counts(self) -> BadFileCounts:
        skipped, replaced = (int(np.count_nonzero(self._marks & outcome)) for outcome in (SKIPPED, REPLACED))
        return BadFileCounts(skipped, replaced, int(np.count_nonzero(self._marks & _EVER)))

    def exceeding(self, most: float) -> int:
        """The number of samples found bad in this epoch, if it is more than `most`; else 0.

        Call it after each mark. The marks are counted only where up to 16 processes may have made as many as were left
        at the last count: counting for each bad file would read all marks each time.
        """
        self._marked += 1
        if most == self._counted_for and self._marked < self._count_at:
            return 0
        count = int(np.count_nonzero(self._marks >= SKIPPED))
        self._counted_for, self._count_at = most, self._marked + max((int(most) + 1 - count) // 16, 1)
        return count if count > most else 0

    def first_warning(self) -> bool:
        """True if this is the first call in an epoch."""
        if self.shared["warned"]:
            return False
        self.shared["warned"] = True
        return True

    def __getstate__(self) -> tuple[int, torch.Tensor | None]:
        return self.count, self._memory if get_spawning_popen() is not None else None

    def __setstate__(self, state: tuple[int, torch.Tensor | None]) -> None:
        count, memory = state
        if memory is None:
            BadFileRecord.__init__(self, count)
        else:
            self.count = count
            self._use(memory)


def warn_again(text: str) -> None:
    """Warns at the line of the user's code that called fastpipe, even if the same warning was given before."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("fastpipe", "torch"):
        frame = frame.f_back
    warnings.warn_explicit(text, FastpipeWarning, frame.f_code.co_filename, frame.f_lineno, registry={})
