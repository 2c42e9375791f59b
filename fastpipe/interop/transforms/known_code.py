"""Recognises library code for which a recipe was written, by class and by fingerprints of the code."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Iterable
from typing import Any, NamedTuple

from fastpipe.interop import Foreign

# Parts of the syntax tree that don't change behaviour, or that some versions of Python lack.
_LEFT_OUT = frozenset({"annotation", "ctx", "kind", "returns", "type_comment", "type_params"})


def fingerprint(objects: Iterable[Foreign]) -> str:
    """A hash of the code of functions and classes, without comments, docstrings, annotations and reprs.

    Raises:
        OSError, TypeError: there is no source code.
    """
    digest = hashlib.blake2b(digest_size=8)
    for one in objects:
        digest.update(_canonical(ast.parse(textwrap.dedent(inspect.getsource(one)))).encode())
    return digest.hexdigest()


def has_code(objects: Iterable[Foreign], known: str) -> bool:
    """True if the code of functions and classes has that fingerprint; False if one is missing or has no source."""
    try:
        return fingerprint(objects) == known
    except (OSError, SyntaxError, TypeError):  # raised by `inspect` without source, or with only a part of a line
        return False


def _canonical(node: object) -> str:
    """A syntax tree as text, equal in all versions of Python."""
    if isinstance(node, ast.AST):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return ""  # a docstring
        if getattr(node, "name", "") == "__repr__":
            return ""
        fields = {name: value for name, value in ast.iter_fields(node) if name not in _LEFT_OUT and value is not None}
        inner = (f"{name}={_canonical(value)}" for name, value in fields.items() if value != [])
        return f"{type(node).__name__}({','.join(inner)})"
    if isinstance(node, list):
        return f"[{','.join(filter(None, map(_canonical, node)))}]"
    return repr(node)


def member(home: object, path: str) -> Foreign:
    """An attribute of a module or an object by its path, such as ``"Compose.__call__"``; None if there is none."""
    return functools.reduce(lambda owner, name: getattr(owner, name, None), path.split("."), home)


class KnownCode(NamedTuple):
    """A class of another library, and the fingerprint of the code for which its recipe was written."""

    module: object  # the class's module; some versions of the library lack the module or the class
    name: str  # the class's name
    fingerprint: str  # the fingerprint of the code
    recipe: Any  # our class that draws for it, or another description of it
    functions: tuple[object, ...] = ()  # further functions that its code calls; None for a missing one


def by_code(entries: Iterable[KnownCode]) -> tuple[dict[type, Any], set[type]]:
    """Returns the classes whose code is known, each with its recipe; and the classes whose code differs."""
    known, others = {}, set()
    for entry in entries:
        kind = getattr(entry.module, entry.name, None)
        if kind is None:
            continue
        if has_code((kind, *entry.functions), entry.fingerprint):
            known[kind] = entry.recipe
        else:
            others.add(kind)
    return known, others
