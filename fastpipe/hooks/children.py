"""Processes that ``multiprocessing`` starts: they have the hooks, too, and leave an account for their parent."""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType
from typing import Any

from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Function, Patches

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


def hook(module: ModuleType, patches: Patches) -> None:
    """Has forked processes begin an account of their own, and spawned ones install the hooks before they import."""
    if module.__name__ == "multiprocessing.util":
        _make_folder_before_forks()
        forks = [_Forks()]  # a weak reference is all that the module keeps
        patches.at_undo(forks.clear)
        module.register_after_fork(forks[0], _Forks.begin)
    else:
        patches.wrap(module, "get_preparation_data", _with_installation)


@functools.cache  # what is registered can't be taken back
def _make_folder_before_forks() -> None:
    """Has the folder for children's accounts be made before a process is forked, so that it knows of it."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_make_folder)


def _make_folder() -> None:
    from fastpipe.hooks.installation import are_in_place

    if are_in_place():
        LEDGER.folder()


def _with_installation(plain: Function) -> Function:
    def get_preparation_data(*args: object, **kwargs: object) -> dict[str, Any]:
        LEDGER.fold_ended()
        data: dict[str, Any] = plain(*args, **kwargs)
        data["fastpipe"] = _Installing(data.get("sys_path", sys.path), LEDGER.check, LEDGER.folder())
        return data

    return get_preparation_data


class _Installing:
    """Installs the hooks where it is unpickled: before the process prepares, and imports the script.

    The path isn't the parent's there yet, from which fastpipe may come.
    """

    def __init__(self, path: list[str], check: int, folder: str) -> None:
        self._code = _IN_CHILD.format(path=path, check=check, folder=folder)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (self._code,)


def begin_spawned(check: int, folder: str) -> None:
    """Installs the hooks in a process that has just been started."""
    from fastpipe.hooks.installation import install

    begin_account(folder)
    install(check=check)


def begin_account(folder: str) -> None:
    """Begins the account of a process that has just been started; nothing where it has one.

    Args:
        folder: where its parent looks for it.
    """
    if not LEDGER.is_child:
        _begin(folder)


class _Forks:
    """Begins accounts in forked processes, for as long as the object is there."""

    def begin(self) -> None:
        """Begins the account of this process, which has just been forked."""
        _begin(LEDGER.folder())


def _begin(folder: str) -> None:
    """Begins a child's account, which is written when the process ends."""
    from multiprocessing.util import Finalize

    LEDGER.begin_child(folder)
    Finalize(LEDGER, LEDGER.flush_child, args=(True,), exitpriority=0)
