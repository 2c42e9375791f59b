"""Processes that this one starts: those forked or spawned have the hooks, too, and all write a ledger for it."""

from __future__ import annotations

import functools
import os
import sys
from contextlib import suppress
from types import ModuleType

from fastpipe.hooks.guard import guard
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Function, Patches, as_builtin

_IN_CHILD = """
import sys
before, sys.path = sys.path, {path!r}
try:
    from fastpipe.hooks.children import begin_spawned
except ImportError:
    pass
else:
    begin_spawned({check!r}, {folder!r})
finally:
    sys.path = before
"""


_COUNT = "the count of a child process's images"


def hook(module: ModuleType, patches: Patches) -> None:
    """Makes forked processes begin their own ledger, and spawned ones install the hooks before they import."""
    if module.__name__ == "os":
        _watch_forks()
    elif module.__name__ == "subprocess":
        patches.wrap(module.Popen, "__init__", _starting)
    else:
        patches.wrap(module, "get_preparation_data", _with_installation)


@functools.cache  # a registered function can't be removed
def _watch_forks() -> None:
    """Has each forked process begin its ledger, in a folder that is made before, so that both processes know it."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_make_folder, after_in_child=_begin_forked)


def _make_folder() -> None:
    from fastpipe.hooks.installation import are_in_place

    if are_in_place():
        with guard(_COUNT), suppress(OSError):  # a full disk
            LEDGER.folder()


def _begin_forked() -> None:
    from fastpipe.hooks.installation import are_in_place

    if are_in_place() and LEDGER.has_folder:
        with guard(_COUNT), suppress(OSError):
            _begin(LEDGER.folder())


def _starting(plain: Function) -> Function:
    """Wraps ``Popen.__init__``: makes the folder for a program that is started by ``fastpipe run``, which finds it."""

    def __init__(self: object, *args: object, **options: object) -> None:
        with guard(_COUNT):
            command = args[0] if args else options.get("args")
            words = command if isinstance(command, (list, tuple)) else [command]
            if any("fastpipe" in word for word in words if isinstance(word, str)):
                _make_folder()
        plain(self, *args, **options)

    return __init__


def _with_installation(plain: Function) -> Function:
    def get_preparation_data(*args: object, **kwargs: object) -> dict[str, object]:
        with guard("the ledgers of ended processes in one file"):
            LEDGER.fold_ended()
        data: dict[str, object] = plain(*args, **kwargs)
        with guard("hooks in a spawned process"):
            path = data.get("sys_path")
            data["fastpipe"] = _Installing(path if isinstance(path, list) else sys.path, LEDGER.check, LEDGER.folder())
        return data

    return get_preparation_data


class _Installing:
    """Installs the hooks when it is unpickled, before the process is prepared and imports the script.

    At that point ``sys.path``, on which fastpipe may depend, isn't the parent's yet.
    """

    def __init__(self, path: list[str], check: int, folder: str) -> None:
        self._code = _IN_CHILD.format(path=path, check=check, folder=folder)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (self._code,)


def begin_spawned(check: int, folder: str) -> None:
    """Installs the hooks in a process that has just been spawned."""
    from fastpipe.hooks.installation import install

    begin_account(folder)
    install(check=check)


def begin_account(folder: str) -> None:
    """Begins the ledger of a process that has just been started, unless it has one.

    Args:
        folder: the parent's folder for ledgers.
    """
    if not LEDGER.is_child:
        _begin(folder)


def _begin(folder: str) -> None:
    """Begins a child's ledger, which is written when the process ends."""
    LEDGER.begin_child(folder)
    _flush_before_exit()


@functools.cache  # a child's own children inherit the function
def _flush_before_exit() -> None:
    """Has ``os._exit``, by which most forked processes end, write the ledger first."""
    plain = os._exit

    def _exit(status: int) -> None:
        with guard(_COUNT):
            LEDGER.flush_child(True)
        plain(status)

    setattr(os, "_exit", as_builtin(plain, _exit))  # noqa: B010 # typed as a function that never returns
