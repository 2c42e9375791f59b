"""The worker process: pickles of tasks in, which are the parent's own words; a line of JSON for each file out.

    in:   `Rules`                 once
          `Task`s                 in a sequence
    out:  "ready"                 once
          [bits, bytes, …]        a file's `FileFacts`

It ends when its input does, so that none outlives a parent that was killed.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import sys
import threading
from typing import Any, BinaryIO, NamedTuple

from fastpipe.tools.check.examine import Rules, examine, prepare


class Task(NamedTuple):
    """A file to examine."""

    number: int  # its position in the index
    path: str  # the whole path


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
            for task in tasks.get():
                _say(answers, examine(task.path, rules))
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
