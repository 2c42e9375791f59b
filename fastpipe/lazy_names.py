"""`imported_lazily`: a package's public names, whose modules are imported when a name is first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def imported_lazily(
    package: str, homes: Mapping[str, Iterable[str]], modules: Iterable[str] = (), whole: Iterable[str] = ()
) -> Callable[[str], Any]:
    """Makes a package's ``__getattr__``.

    Args:
        package: the package's name.
        homes: the names that each of its modules has; ``".index.table"`` is a module of the package beside it.
        modules: modules of the package that are public themselves.
        whole: names for which all of `homes` have to be imported, as their values tell of them all.
    """
    home = {name: module for module, names in homes.items() for name in names}
    public, tells_of_all = frozenset(modules), frozenset(whole)

    def imported(name: str) -> Any:
        if name in public:
            return importlib.import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        for module in homes if name in tells_of_all else ():
            importlib.import_module(f".{module}", package)
        value = getattr(importlib.import_module(f".{home[name]}", package), name)
        vars(sys.modules[package])[name] = value  # found at once from now on
        return value

    return imported
