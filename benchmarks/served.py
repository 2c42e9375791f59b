"""A process that answers a benchmark's questions: of another checkout, or started in another way.

The benchmark starts itself again with ``--serve`` and asks by `Served`; the process answers by `serve`. Nothing of
fastpipe is imported here, so that the process chooses which one it imports.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Served:
    """The benchmark's side of a process that calls `serve`.

    Attributes:
        offers: the process's first line, such as the names of its tasks.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._process: Any = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.offers: Any = self._answer()

    def ask(self, *question: Any) -> Any:
        """Returns the answer to a question; both are JSON values."""
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> Any:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process of this benchmark has ended; its message is above")
        return json.loads(line)


def serve(offers: Any, answer: Callable[..., Any]) -> None:
    """Tells what this process offers, then answers questions until there are no more."""
    print(json.dumps(offers), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)
