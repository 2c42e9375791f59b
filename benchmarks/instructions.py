"""Instructions that a processor executes for parts of a script, counted by valgrind: the same number on a busy machine.

Clocks don't tell 1% apart where other programs run. Counts do, though they know nothing of caches.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def mark() -> None:
    """Ends a part of the script, and begins the next; does nothing where nobody counts."""
    os.getppid()  # a function that valgrind knows by name and that costs nothing


def count(*command: str, **environment: str) -> list[int]:
    """Instructions of the parts of a Python script, of all its threads: before its first `mark`, then between two.

    Args:
        command: the script and its arguments.
        environment: variables that it gets besides.

    Raises:
        SystemExit: valgrind isn't installed, or the script has failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = ["--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={folder}/parts"]
        try:
            done = subprocess.run(
                ["valgrind", *options, sys.executable, *command],
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError:
            raise SystemExit("counting instructions needs valgrind (apt install valgrind)") from None
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed under valgrind:\n{done.stderr[-2000:]}")
        files = sorted(Path(folder).glob("parts.*"), key=lambda path: int(path.suffix[1:]))
        return [int(re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE)[1]) for path in files]  # type: ignore[index]
