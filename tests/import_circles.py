"""Circles of files in a package, from its sources: every import counts, also within functions and for types only."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path


def import_graph(package: Path) -> dict[str, set[str]]:
    """The modules of a package, and the modules of it that each imports."""
    files = {".".join(_parts(file, package)): file for file in package.rglob("*.py")}
    graph = {}
    for name, file in files.items():
        parent = name if file.name == "__init__.py" else name.rpartition(".")[0]
        tree = ast.parse(file.read_text(encoding="utf-8"))
        graph[name] = {found for found in _imported(tree, parent, files.keys()) if found != name}
    return graph


def circles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """The sets of modules that reach each other, each sorted: the strongly connected components (Tarjan 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[tuple[str, ...]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in path:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            start = path.index(module)
            members = path[start:]
            del path[start:]
            if len(members) > 1:
                found.append(tuple(sorted(members)))

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return sorted(found)


def _parts(file: Path, package: Path) -> tuple[str, ...]:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def _imported(tree: ast.AST, parent: str, modules: Iterable[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = parent.split(".")[: len(parent.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:  # a module of the package, or a name that the package has
                whole = f"{base}.{alias.name}"
                yield from [whole] if whole in modules else [base] if base in modules else []
