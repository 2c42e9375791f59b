"""Whether code is what a recipe was written after: by fingerprints of a library's code, and by the class it is of."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fastpipe.transforms.adapters import NEUTRAL_NAMES

# Parts that change no behaviour, or that not every version of Python has.
_LEFT_OUT = frozenset({"annotation", "ctx", "kind", "returns", "type_comment", "type_params"})


def fingerprint(objects: Iterable[Any]) -> str:
    """A hash of the code of functions and classes, whatever their comments, docstrings, annotations and reprs.

    Raises:
        OSError, TypeError: there is no source code.
    """
    found = hashlib.blake2b(digest_size=8)
    for one in objects:
        found.update(_canonical(ast.parse(textwrap.dedent(inspect.getsource(one)))).encode())
    return found.hexdigest()


def has_code(objects: Iterable[object], known: str) -> bool:
    """Whether the code of functions and classes has that fingerprint; not if one isn't there, or has no source."""
    try:
        return fingerprint(objects) == known
    except (OSError, SyntaxError, TypeError):  # as `inspect` says that there is no source, or only a part of a line
        return False


def _canonical(node: object) -> str:
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


class KnownCode(NamedTuple):
    """A class of another library's, and the code of it that its recipe was written after."""

    module: object  # the class's; not all versions of the library have one, nor the class
    name: str  # the class's
    fingerprint: str  # of the code
    recipe: Any  # the class here that draws for it, or what else is known of it
    functions: tuple[object, ...] = ()  # the functions that its code is made of besides; None for one that isn't there


def by_code(entries: Iterable[KnownCode]) -> tuple[dict[type, Any], set[type]]:
    """The classes whose code is known, each with its recipe; and those whose code is another."""
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


def known_base(kind: type, table: Mapping[type, object]) -> type | None:
    """The class of a table that a class is, or is a subclass of that does the same; None if there is none.

    A subclass may have a constructor and a repr of its own, and methods under new names.
    """
    lineage = kind.__mro__
    place = next((number for number, base in enumerate(lineage) if base in table), None)
    if place is None:
        return None
    base = lineage[place]
    for between in lineage[:place]:
        for name, value in vars(between).items():
            if name in NEUTRAL_NAMES:
                continue
            plain = inspect.isfunction(inspect.unwrap(value) if callable(value) else value)
            if hasattr(base, name) or not plain:
                return None
    return base
