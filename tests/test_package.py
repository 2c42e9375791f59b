"""The package as a whole: exports, light import, independence from torchvision, README's code."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import fastpipe

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [
    "fastpipe",
    "fastpipe.datasets",
    "fastpipe.errors",
    "fastpipe.program",
    "fastpipe.readers",
    "fastpipe.sources",
    "fastpipe.transforms",
    "fastpipe.transforms.functional",
    "fastpipe.types",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_exists_and_the_list_is_sorted(name):
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(module.__all__, key=lambda n: (not n.isupper(), n)) or list(
        module.__all__
    ) == sorted(module.__all__)
    for exported in module.__all__:
        assert getattr(module, exported) is not None


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_is_light_and_needs_no_torchvision():
    loaded = run_python("import fastpipe, sys; print(*sorted(sys.modules))").split()
    for heavy in ("torch", "cv2", "albumentations", "matplotlib", "torchvision", "PIL.Image"):
        assert heavy not in loaded


def test_everything_works_where_torchvision_and_albumentations_are_missing():
    run_python(
        "import sys\n"
        "for name in ('torchvision', 'albumentations', 'matplotlib', 'imageio', 'kornia_rs'):\n"
        "    sys.modules[name] = None\n"
        "import fastpipe, fastpipe.transforms, fastpipe.readers, fastpipe.datasets, fastpipe.cli\n"
        "import fastpipe.tools.bench\n"
        "from fastpipe import ImageFolder, explain, MachineConfig\n"
    )


def test_version_is_the_projects():
    assert metadata.version("fastpipe") == fastpipe.__version__


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = fastpipe.nonsense


def test_readme_python_runs(tmp_path, monkeypatch):
    """README's Python blocks, in order, on a folder made for them."""
    import numpy as np
    from PIL import Image

    for label in ("cat", "dog"):
        (tmp_path / "train" / label).mkdir(parents=True)
        for number in range(3):
            pixels = np.random.default_rng(number).integers(0, 256, (300, 400, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "train" / label / f"{number}.jpg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
