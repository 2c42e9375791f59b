"""A progress bar that appears on a terminal when work takes long, and the import of rich without side effects."""

from __future__ import annotations

import importlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ProgressCallback", "SlowBar", "load_rich", "no_progress"]

ProgressCallback: TypeAlias = Callable[[int, int, str], None]
"""Called with the number of steps done, the number of all steps (0: unknown), and a text of the current step."""


def no_progress(done: int, total: int, text: str) -> None:
    """Ignores progress: the default `ProgressCallback`."""


def load_rich() -> None:
    """Imports `rich.style`, which draws random numbers, and restores the state of Python's global generator.

    Call this before anything else of rich is imported.
    """
    if "rich.style" not in sys.modules:
        state = random.getstate()
        try:
            importlib.import_module("rich.style")
        finally:
            random.setstate(state)


class SlowBar:
    """A progress bar on standard error that appears after two seconds; a context manager, safe in threads.

    The bar is drawn by its methods' callers: a drawing thread could hold a lock while worker processes are forked.

    Args:
        text: a description of the work.
        shown: False never shows the bar.
    """

    delay_s = 2.0
    redrawn_s = 0.1

    def __init__(self, text: str = "", shown: bool = True) -> None:
        self._text = text
        self._due = time.monotonic() + self.delay_s if shown and _is_terminal() else float("inf")
        self._bar: Progress | None = None
        self._total = 0
        self._done = 0
        self._lock = threading.Lock()

    def expect(self, more: int) -> None:
        """Adds work to the total."""
        self._total += more

    def advance(self, amount: int = 1) -> None:
        with self._lock:
            self._done += amount
            self._draw()

    def show(self, done: int, total: int, text: str) -> None:
        """Sets the steps done, the total (0: unknown) and the text."""
        with self._lock:
            self._done, self._total, self._text = done, total, text
            self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + self.redrawn_s
        load_rich()
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress

        if self._bar is None:
            self._bar = Progress(console=Console(stderr=True), transient=True, auto_refresh=False)
            self._bar.add_task("")
            self._bar.start()
        (task,) = self._bar.task_ids
        total = self._total or None
        self._bar.update(task, completed=self._done, total=total, description=escape(self._text), refresh=True)

    def __enter__(self) -> SlowBar:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # no stderr at all (pythonw), or a closed one
        return False
