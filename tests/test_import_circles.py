"""No file imports, by whatever way round, a file that imports it."""

from __future__ import annotations

from pathlib import Path

from import_circles import circles, import_graph

import fastpipe


def test_no_files_import_each_other_in_a_circle():
    assert circles(import_graph(Path(fastpipe.__file__).parent)) == []


def test_circles_are_found_within_functions_and_for_types_only(tmp_path):
    package = tmp_path / "house"
    package.mkdir()
    sources = {
        "__init__": "",
        "cellar": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.attic import Box\n",
        "stairs": "def climb():\n    from . import cellar\n",
        "attic": "import house.stairs\n",
        "garden": "from house import attic\n",
    }
    for name, text in sources.items():
        (package / f"{name}.py").write_text(text)
    assert circles(import_graph(package)) == [("house.attic", "house.cellar", "house.stairs")]
