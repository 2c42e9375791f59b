"""Every notebook runs from its first cell to its last, in an empty folder."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
NOTEBOOKS = sorted((TESTS.parent / "notebooks").glob("*.ipynb"))

# Run by IPython before the first cell: `import torchvision` then works beside a CPU-only torch, too (see
# torchvision_here), as it does for users with an ordinary torch.
STARTUP = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import torchvision_here
del sys.path[0]
"""


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 8


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_kept_as_it_ran(path):
    """With what it printed and drew, small, made by the code that it holds now: else run scripts/notebooks."""
    text = path.read_text(encoding="utf-8")
    assert len(text) < 400_000
    assert not re.search(r"/(home|root|work|tmp/[^/\"]*users)[/_]", text)
    notebook = json.loads(text)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    sources = "\0".join("".join(cell["source"]) for cell in code)
    assert notebook["metadata"]["made_from"] == hashlib.sha256(sources.encode()).hexdigest()[:16]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert any(cell["outputs"] for cell in code)
    assert all(output["output_type"] != "error" for cell in code for output in cell["outputs"])


def pictures(cells):
    """The number of outputs that are pictures; one may come in several formats, of which one is kept."""
    outputs = [output.get("data", ()) for cell in cells for output in cell["outputs"]]
    return sum(any(kind.startswith("image/") for kind in kinds) for kinds in outputs)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="notebooks are executed where the extra [notebooks] is installed")
    nbformat = pytest.importorskip("nbformat", reason="notebooks are executed where the extra [notebooks] is installed")
    pytest.importorskip("skimage", reason="notebooks are executed where the extra [notebooks] is installed")
    notebook = nbformat.read(path, as_version=4)
    kept = pictures([cell for cell in notebook.cells if cell.cell_type == "code"])
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    if 'set_start_method("fork"' in code and sys.platform != "linux":
        pytest.skip("its classes reach the workers by fork")
    if "import torchvision" in code:
        startup = tmp_path / "ipython" / "profile_default" / "startup"
        startup.mkdir(parents=True)
        (startup / "00-import.py").write_text(STARTUP, encoding="utf-8")
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    work = tmp_path / "work"
    work.mkdir()
    nbclient.NotebookClient(notebook, timeout=None, resources={"metadata": {"path": str(work)}}).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
    assert pictures([cell for cell in notebook.cells if cell.cell_type == "code"]) == kept
    assert not list(work.iterdir()), "a notebook writes to a temporary folder, not where it lies"
