"""The worker process: pickles of tasks in, which are the parent's own words; a line of JSON for each file out.

    in:   `Rules`                                                once
          [(number, path, None), (number, path, (bytes, mtime_ns)), …]
    out:  "ready"                                                once
          [number, bits, bytes, …]                               a file's `Seen`
          [number]                                               the file still is of that size and time

It ends when its input does, so that none outlives a parent that was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import sys
import threading
from typing import Any, BinaryIO

from fastpipe import readers
from fastpipe.tools.check.examine import Rules, examine, prepare


def main() -> None:
    """Serves until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not end up among the answers
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    rules: Rules = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_receive, args=(sys.stdin.buffer, tasks), daemon=True).start()
    prepare(rules)
    try:
        _say(answers, "ready")
        while True:
            for number, path, stamp in tasks.get():
                _say(answers, _answer(number, path, stamp, rules))
    except BrokenPipeError:  # the parent is gone
        os._exit(0)


def _say(answers: BinaryIO, what: object) -> None:
    answers.write(json.dumps(what).encode() + b"\n")
    answers.flush()


def _receive(source: BinaryIO, tasks: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            tasks.put(pickle.load(source))
    finally:
        os._exit(0)  # whatever is being decoded: nobody waits for it any more


def _answer(number: int, path: str, stamp: tuple[int, int] | None, rules: Rules) -> list[object]:
    if stamp is not None:
        with contextlib.suppress(OSError):  # it will be said by what follows
            if stamp == tuple(readers.stat_file(path)):
                return [number]
    return [number, *examine(path, rules)]
