"""Finds the object that ``module:name`` on the command line means."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from fastpipe.errors import PlanError

__all__ = ["find_object"]


def find_object(place: str) -> Any:
    """The object of a place such as ``"package.module:attribute.attribute"``.

    What the module itself raises while it is imported goes through: that traceback is the user's to see.

    Args:
        place: the module as in an import statement, looked for in the current folder too; then the name.

    Raises:
        PlanError: it isn't ``module:name``, or there is no such module or name.
    """
    module_name, colon, name = place.partition(":")
    if not (module_name and colon and name) or os.sep in module_name:
        raise PlanError(f"{place!r}: give MODULE:NAME, such as train:transform for train.py's `transform`")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(f"{missing}."):
            raise  # the module is there; something that it imports isn't
        raise PlanError(
            f"{place!r}: no module is called {missing!r}; give it as in an import statement, from the folder it is in"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise PlanError(f"{place!r}: {found!r} has no {part!r}")
        found = getattr(found, part)
    return found
