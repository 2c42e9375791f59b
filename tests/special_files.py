"""Things under an image's name that are no regular files, by the word for them; each is made at a path."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

needs_special_files = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX's special files")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _folder(path: Path) -> None:
    path.mkdir()


def _socket(path: Path) -> None:
    """A socket's own path is short: it is bound from its folder."""
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


THERE: dict[str, Callable[[Path], None]] = {"fifo": _fifo, "device": _device, "folder": _folder, "socket": _socket}
SPECIAL = {**THERE, "dangling": _dangling, "loop": _loop}
