"""The table in README.md beside this file: each test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+::[\w:]+)`", PAGE)))


def names_in(path: Path) -> set[str]:
    """``test_name`` and ``Class::test_name`` of a file."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {prefix + one.name for one in inside if isinstance(one, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("name", NAMED)
def test_that_is_named_exists(name):
    path, _, test = name.partition("::")
    assert test.rpartition("::")[2].startswith("test_")
    assert test in names_in(ROOT / path)


def test_each_row_names_one():
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and not re.match(r"\| (fault|---) \|", line)]
    assert len(rows) > 30
    assert [row for row in rows if "`tests/" not in row] == []
