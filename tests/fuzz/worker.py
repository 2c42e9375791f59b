"""The watched process: makes inputs, checks them, and says what it found, one JSON line each.

The number of the input in hand, whose turn it is and all figures stand in a small shared file all the while: whoever
watches knows which input and which reader brought this process down, or keeps it, and loses no figure.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import mmap
import os
import sys
import time
from pathlib import Path
from typing import Any

from fuzz.check import HEADER, PILLOW

try:
    import resource
except ImportError:  # Windows
    resource = None

FIELDS = ("inputs", "own", "peak", "growth", "slowest")
"""Figures of each reader and format: inputs; those whose pixels are its own; the most bytes resident in its turn, the
most that a turn added; the longest turn in microseconds."""

_EVERY = 250  # inputs between two lines about progress


def places(names: list[str], formats: list[str]) -> dict[tuple[str, str], int]:
    """(reader, format) → where its `FIELDS` begin in the shared file, in numbers of 8 bytes; behind input and turn."""
    rows = [(name, format) for name in (*names, HEADER, PILLOW) for format in dict.fromkeys(formats)]
    return {row: 2 + len(FIELDS) * number for number, row in enumerate(rows)}


class Table:
    """The shared file, and as `fuzz.check.Turns` the one who fills it."""

    def __init__(self, cells: memoryview, names: list[str], formats: list[str]) -> None:
        self._cells = cells
        self._places = places(names, formats)
        self._turns = {name: number for number, name in enumerate((*names, HEADER, PILLOW))}
        self._memory = Memory()
        self._name = self._format = ""
        self._before, self._began = 0, 0.0
        self.greedy: list[tuple[str, int]] = []

    def input(self, number: int, format: str) -> None:
        self._cells[0], self._cells[1] = number, -1
        self._format = format
        self.greedy.clear()

    def begin(self, name: str) -> None:
        self._name = name
        self._cells[1] = self._turns[name]
        self._before = self._memory.begin()
        self._began = time.perf_counter()

    def end(self, own: bool) -> None:
        took = int((time.perf_counter() - self._began) * 1e6)
        peak = self._memory.peak()
        growth = peak - self._before
        at, cells = self._places[self._name, self._format], self._cells
        cells[at] += 1
        cells[at + 1] += own
        for field, value in enumerate((peak, growth, took), 2):
            if value > cells[at + field]:
                cells[at + field] = value
        self.greedy.append((self._name, growth))
        self._cells[1] = -1


class Memory:
    """The most memory that was resident at once, in bytes; on Linux since `begin`, elsewhere ever."""

    def __init__(self) -> None:
        self._status = self._forget = -1
        with contextlib.suppress(OSError):
            self._forget = os.open("/proc/self/clear_refs", os.O_WRONLY)
            self._status = os.open("/proc/self/status", os.O_RDONLY)

    def begin(self) -> int:
        """Begin anew, so that one turn's peak doesn't hide the next one's; what is resident now."""
        if self._status >= 0:
            os.pwrite(self._forget, b"5", 0)
        return self.peak()

    def peak(self) -> int:
        if self._status >= 0:  # not ru_maxrss, which begins with what the parent had
            status = os.pread(self._status, 4096, 0)
            return int(status[status.index(b"VmHWM:") + 6 :].split(None, 1)[0]) << 10
        if resource is None:
            return 0
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10


def main(job: dict[str, Any]) -> None:
    """Work off the inputs ``start … stop`` of a job; see `run.watch` for its fields."""
    from fuzz.mutate import mutation
    from fuzz.seeds import seeds

    folder = Path(job["folder"])
    out = os.fdopen(os.dup(1), "w", buffering=1)
    # The libraries complain about every second input.
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    trace = (folder / "traceback").open("w")
    faulthandler.enable(trace)
    module, _, function = job["check"].partition(":")
    check_module = importlib.import_module(module)
    if hasattr(check_module, "prepare"):
        check_module.prepare()
    check = getattr(check_module, function)
    names, formats = tuple(job["readers"]), tuple(job["formats"])

    with (folder / "mark").open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
        cells = memoryview(shared).cast("q")
        table = Table(cells, job["readers"], job["formats"])
        noted = cells.tolist()
        for format in dict.fromkeys(formats):  # the undamaged files first: libraries load, and memory pools fill
            for data in seeds()[format]:
                table.input(-1, format)
                for who, phrase in check(data, names, 0, folder, table):
                    _say(out, number=-1, format=format, reader=who, text=phrase)
        for at, value in enumerate(noted):
            cells[at] = value
        said = 0
        for number in range(job["start"], job["stop"]):
            if said >= job["max_findings"]:
                job["stop"] = number
                break
            if number % _EVERY == 0:
                _say(out, done=number, resident=_resident(), cells=cells.tolist())
            format, data = mutation(job["seed"], number, formats)
            table.input(number, format)
            found = check(data, names, number, folder, table)
            for who, growth in table.greedy:
                if growth > job["max_growth"]:
                    found.append((who, f"memory: {growth >> 20} MiB more than before at its peak"))
            said += len(found)
            for who, phrase in found:
                _say(out, number=number, format=format, reader=who, text=phrase)
        cells[0], cells[1] = job["stop"], -1
        _say(out, done=job["stop"], resident=_resident(), cells=cells.tolist())
        cells.release()


def _say(out: Any, **line: Any) -> None:
    out.write(json.dumps(line) + "\n")


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
