"""Every notebook runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="notebooks are executed where the extra [notebooks] is installed")
    nbformat = pytest.importorskip("nbformat", reason="notebooks are executed where the extra [notebooks] is installed")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=None, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
