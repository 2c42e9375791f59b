"""The watched process: makes inputs, checks them, and says what it found, one JSON line each.

The number of the input in hand stands in a small shared file all the while, so that whoever watches knows which one
brought this process down, or keeps it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import mmap
import os
import struct
import sys
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MARK = struct.Struct("<q")
_EVERY = 500  # inputs between two lines about progress


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

    with (folder / "mark").open("r+b") as file, mmap.mmap(file.fileno(), MARK.size) as mark:
        for files in seeds().values():  # the undamaged files first: libraries load, and memory pools fill
            for data in files:
                if found := check(data, names, 0, folder):
                    _say(out, number=-1, found=found)
        ordinary = _forget_peak()
        for number in range(job["start"], job["stop"]):
            MARK.pack_into(mark, 0, number)
            format, data = mutation(job["seed"], number, formats)
            found = check(data, names, number, folder)
            peak = _peak()
            if peak > ordinary:
                growth, ordinary = peak - ordinary, _forget_peak()
                _say(out, peak=peak, growth=growth)
                if growth > job["max_growth"]:
                    found = [*found, f"memory: {growth >> 20} MiB more than before at its peak"]
            if found:
                _say(out, number=number, format=format, found=found)
            if number % _EVERY == 0:
                _say(out, done=number, resident=_resident())
        MARK.pack_into(mark, 0, job["stop"])
        _say(out, done=job["stop"], resident=_resident())


def _say(out: Any, **line: Any) -> None:
    out.write(json.dumps(line) + "\n")


def _peak() -> int:
    """The most memory that was resident, in bytes; on Linux since `_forget_peak`."""
    try:
        # Not ru_maxrss, which begins with what the parent had.
        status = Path("/proc/self/status").read_bytes()
        return int(status[status.index(b"VmHWM:") + 6 :].split(None, 1)[0]) << 10
    except OSError:
        pass
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def _forget_peak() -> int:
    """On Linux the peak begins anew, so that one input's doesn't hide the next one's."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
