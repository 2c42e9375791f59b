"""Fingerprints of functions: whether a library's code is the code that a recipe was written after."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Iterable
from typing import Any

# Parts that change no behaviour, or that not every version of Python has.
_LEFT_OUT = frozenset({"annotation", "ctx", "kind", "returns", "type_comment", "type_params"})


def fingerprint(objects: Iterable[Any]) -> str:
    """A hash of the code of functions and classes, whatever their comments, docstrings, annotations and reprs.

    Raises:
        OSError: there is no source code.
    """
    found = hashlib.blake2b(digest_size=8)
    for one in objects:
        tree = ast.parse(textwrap.dedent(inspect.getsource(one)))
        found.update(_canonical(tree).encode())
    return found.hexdigest()


def has_code(objects: Iterable[Any], known: str) -> bool:
    """Whether the code of functions and classes has that fingerprint; not if one isn't there, or has no source."""
    try:
        return fingerprint(objects) == known
    except (AttributeError, OSError, SyntaxError, TypeError):
        return False


def _canonical(node: Any) -> str:
    """A syntax tree as text, the same in all versions of Python."""
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
