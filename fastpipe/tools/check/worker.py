"""The worker process: a line of JSON with tasks in, a line with the answer for each file out.

    in:   {"decode": …, …}                                       the `Rules`, once
          [[number, path, null], [number, path, [bytes, mtime_ns]], …]; of a container's member the path is
          [path, container, offset, length], of a file in a store [path], pickled
    out:  "ready"                                                once
          [number, bits, bytes, …]                               a file's `Seen`
          [number]                                               the file still is of that size and time

It ends when its input does, so that none outlives a parent that was killed.
"""

from __future__ import annotations

import base64
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
from fastpipe.types import Member, Stored


def main() -> None:
    """Serves until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not end up among the answers
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    rules = Rules(**json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_receive, args=(sys.stdin.buffer, tasks), daemon=True).start()
    prepare(rules)
    try:
        _say(answers, "ready")
        while True:
            for number, path, stamp in json.loads(tasks.get()):
                _say(answers, _answer(number, _unpacked(path), stamp, rules))
    except BrokenPipeError:  # the parent is gone
        os._exit(0)


def packed(path: str) -> str | list[object]:
    """A path as JSON has it."""
    if isinstance(path, Stored):
        return [base64.b64encode(pickle.dumps(path)).decode("ascii")]
    return [str(path), path.container, path.offset, path.length] if isinstance(path, Member) else path


def _unpacked(path: str | list[Any]) -> str:
    if isinstance(path, str):
        return path
    if len(path) == 1:  # the parent's own words
        stored: str = pickle.loads(base64.b64decode(path[0]))
        return stored
    return Member(*path)


def _say(answers: BinaryIO, what: object) -> None:
    answers.write(json.dumps(what).encode() + b"\n")
    answers.flush()


def _receive(source: BinaryIO, tasks: queue.SimpleQueue[bytes]) -> None:
    for line in source:
        tasks.put(line)
    os._exit(0)  # whatever is being decoded: nobody waits for it any more


def _answer(number: int, path: str, stamp: list[int] | None, rules: Rules) -> list[object]:
    if stamp is not None:
        try:
            if stamp == list(readers.stat_file(path)):
                return [number]
        except OSError:
            pass  # it will be said by what follows
    return [number, *examine(path, rules)]
