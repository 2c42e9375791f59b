"""Files that are written beside and renamed: whoever reads one sees what was, or what is."""

from __future__ import annotations

import os
from pathlib import Path


def replaced(path: Path, content: bytes) -> None:
    """Writes a file, which may be there already."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    beside.write_bytes(content)
    os.replace(beside, path)
