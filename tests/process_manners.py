"""The things in a process that others can look at: handlers, hooks, settings, streams; by the standard library alone.

Run as a program, ``python process_manners.py``: prints it as JSON.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import locale
import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
from typing import Any


def manners() -> dict[str, Any]:
    """The state of this process, as values that are equal in another process that was started alike."""
    main, root = sys.modules["__main__"], logging.getLogger()
    found = {
        "signal handlers": {int(number): _name(signal.getsignal(number)) for number in signal.valid_signals()},
        "hooks": [
            _name(hook)
            for hook in (sys.excepthook, sys.displayhook, sys.unraisablehook, sys.breakpointhook, threading.excepthook)
        ],
        "tracing": [sys.gettrace() is None, sys.getprofile() is None],
        "faulthandler": faulthandler.is_enabled(),
        "warnings": [[_name(part) for part in entry] for entry in warnings.filters],
        "shows warnings": [_name(warnings.showwarning), _name(warnings.formatwarning)],
        "flags": [*sys.flags],
        "arguments": sys.argv,
        "main": {name: _name(value) for name, value in vars(main).items() if name.startswith("__")},
        "environment": dict(os.environ),
        "finders": [_name(finder) for finder in sys.meta_path],
        "path": [sys.path, *map(_name, sys.path_hooks)],
        "garbage": [gc.isenabled(), gc.get_threshold(), len(gc.callbacks), gc.get_debug(), gc.get_freeze_count() > 0],
        "threads": [thread.name for thread in threading.enumerate()],
        "streams": [stream and [_name(stream), stream.encoding, stream.errors] for stream in (sys.stdout, sys.stderr)],
        "temporary folder": tempfile.tempdir,
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval(), sys.dont_write_bytecode],
        "working folder": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "logging": [root.level, [*map(_name, root.handlers)], root.manager.disable],
    }
    processes = sys.modules.get("multiprocessing")
    if processes is not None:
        found["start method"] = processes.get_start_method(allow_none=True)
    if hasattr(signal, "pthread_sigmask"):
        found["blocked signals"] = [*signal.pthread_sigmask(signal.SIG_BLOCK, ())]
    if os.path.isdir("/proc/self/fd"):
        found["open files"] = sorted(map(int, os.listdir("/proc/self/fd")))
    return found


def _name(thing: Any) -> str:
    """A name that is the same in each process."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    is_plain = thing is None or isinstance(thing, (str, int, dict, list, tuple))
    return str(thing) if is_plain else f"{named.__module__}.{named.__qualname__}"


if __name__ == "__main__":
    print(json.dumps(manners()))
