"""Calls a function with a module right after it has been imported, by whatever code and at whatever time.

`import_at_first_use` imports fastpipe's own modules once a script needs them.
"""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Imported = Callable[[ModuleType], None]


def import_at_first_use(name: str) -> ModuleType:
    """Imports a module without collecting garbage meanwhile.

    Importing leaves little garbage, and makes so many objects that the collector would go through all of the script's,
    which takes as long as the import.
    """
    if name in sys.modules:
        return importlib.import_module(name)
    collects = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        if collects:
            gc.enable()


class ImportHook(MetaPathFinder):
    """Calls a function with each of some modules: at once if it is imported, else right after its import.

    Args:
        functions: the functions, by the modules' names.
    """

    def __init__(self, functions: Mapping[str, Imported]) -> None:
        self._functions = dict(functions)
        self._looking: set[str] = set()

    def start(self) -> None:
        """Starts, with the modules that are already imported."""
        sys.meta_path.insert(0, self)
        for name in self._functions:
            module = sys.modules.get(name)
            spec = getattr(module, "__spec__", None)
            if module is not None and not getattr(spec, "_initializing", False):
                self._functions[name](module)

    def stop(self) -> None:
        """Stops: modules that are imported later aren't hooked."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module's own specification, with a loader that calls the function after loading."""
        if name not in self._functions or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = _found_by_others(self, name, path, target)
        finally:
            self._looking.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _LoaderThenHook(spec.loader, self._functions[name])
        return spec


def _found_by_others(
    own: ImportHook, name: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = None if finder is own else getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = None if find is None else find(name, path, target)
        if spec is not None:
            return spec
    return None


class _LoaderThenHook(Loader):
    """Loads a module by its own loader, restores that loader in the module, and calls a function."""

    def __init__(self, loader: Any, function: Imported) -> None:
        self._loader = loader
        self._function = function

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        self._restore(spec)
        module: ModuleType | None = self._loader.create_module(spec)
        spec.loader = self
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            self._restore(spec)
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._function(module)

    def _restore(self, spec: importlib.machinery.ModuleSpec) -> None:
        spec.loader = self._loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
