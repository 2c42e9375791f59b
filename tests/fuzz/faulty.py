"""A check that does what a broken reader might, at chosen inputs: the watch is tested with it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from fuzz.check import Turns


def check(data: bytes, names: tuple[str, ...], number: int, folder: Path, turns: Turns) -> list[tuple[str, str]]:
    """As `fuzz.check.check`; ``names`` says what happens: ``"crash@3"``."""
    found = []
    for name in names:
        fault, _, at = name.partition("@")
        turns.begin(name)
        if number != int(at):
            turns.end(True)
            continue
        if fault == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif fault == "hang":
            while True:
                sum(range(1000))
        elif fault == "sleep":
            time.sleep(3600)
        elif fault == "memory":
            len(bytearray(os.urandom(1)) * (150 << 20))
        elif fault == "wrong":
            found.append((name, "wrong"))
        elif fault == "raise":
            raise RuntimeError("the check itself fails")
        turns.end(True)
    return found
