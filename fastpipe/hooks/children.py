"""Processes that ``multiprocessing`` starts: they have the hooks, too, and write a ledger for their parent."""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType

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
    """Makes forked processes begin their own ledger, and spawned ones install the hooks before they import."""
    if module.__name__ == "multiprocessing.util":
        _make_folder_before_forks()
        forks = [_Forks()]  # the module keeps only a weak reference
        patches.at_undo(forks.clear)
        module.register_after_fork(forks[0], _Forks.begin)
    else:
        patches.wrap(module, "get_preparation_data", _with_installation)


@functools.cache  # a registered function can't be removed
def _make_folder_before_forks() -> None:
    """Makes the folder for children's ledgers before the first fork, so that the child knows it."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_make_folder)


def _make_folder() -> None:
    from fastpipe.hooks.installation import are_in_place

    if are_in_place():
        LEDGER.folder()


def _with_installation(plain: Function) -> Function:
    def get_preparation_data(*args: object, **kwargs: object) -> dict[str, object]:
        LEDGER.fold_ended()
        data: dict[str, object] = plain(*args, **kwargs)
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


class _Forks:
    """Begins ledgers in forked processes, as long as the object exists."""

    def begin(self) -> None:
        """Begins the ledger of this process, which has just been forked."""
        _begin(LEDGER.folder())


def _begin(folder: str) -> None:
    """Begins a child's ledger, which is written when the process ends."""
    from multiprocessing.util import Finalize

    LEDGER.begin_child(folder)
    Finalize(LEDGER, LEDGER.flush_child, args=(True,), exitpriority=0)
