"""A check that does what a broken reader might, at chosen inputs: the watch is tested with it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def check(data: bytes, names: tuple[str, ...], number: int, folder: Path) -> list[str]:
    """As `fuzz.check.check`; ``names`` says what happens: ``"crash@3"``."""
    for name in names:
        fault, _, at = name.partition("@")
        if number != int(at):
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
            return ["wrong"]
        elif fault == "raise":
            raise RuntimeError("the check itself fails")
    return []
