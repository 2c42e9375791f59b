"""The modules of fastpipe that a script imports when it first opens a photo, and when it first calls a ``Compose``."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import corpus
import pytest
from run_scripts import run_python

from fastpipe.hooks.imports import import_at_first_use

pytestmark = pytest.mark.needs_core

SCRIPT = """
import sys
import torchvision_here
from importlib import metadata
from PIL import Image
from torchvision import transforms

def imported(what):
    print(what, *[name for name in sys.modules if name.partition(".")[0] in ("fastpipe", "tomllib", "tomli")])

metadata.entry_points = None  # a search through all that is installed takes as long as many modules
Image.open(sys.argv[1]).convert("RGB").crop((2, 3, 30, 40)).resize((20, 20)).tobytes()
imported("a part")
steps = [transforms.RandomResizedCrop(24), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
transforms.Compose(steps)(Image.open(sys.argv[1]).convert("RGB")).sum()
imported("a Compose")
print("end", Image.open(sys.argv[1]).convert("RGB").rotate(12, 2).size)
"""

UNUSED = (
    *("config", "memory.shm_pool", "memory.torch_worker", "interop.transforms.torchvision_presets", "ops.warps"),
    *("ops.filters", "tensor_kernels.v2_tensors", "transforms.albumentations", "transforms.autoaugment"),
)


def test_few_modules_are_imported(tmp_path: Path) -> None:
    photo, script = tmp_path / "photo.jpg", tmp_path / "script.py"
    photo.write_bytes(corpus.jpeg(50, 70))
    script.write_text(SCRIPT, encoding="utf-8")
    ran = run_python("-m", "fastpipe", "run", "-q", "--check", "0", str(script), str(photo), cwd=tmp_path)
    assert ran.stderr == ""
    of_part, of_compose, last = ran.stdout.splitlines()
    assert last == "end (70, 50)"
    assert not {f"fastpipe.{name}" for name in UNUSED} & {*of_compose.split()}
    assert len(of_part.split()) <= 132
    assert len(of_compose.split()) <= 166


def test_no_garbage_is_collected_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_here.py").write_text("import gc\nWAS_ENABLED = gc.isenabled()\n", encoding="utf-8")
    (tmp_path / "broken_here.py").write_text("raise ValueError('broken')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert gc.isenabled()
    try:
        assert not import_at_first_use("made_here").WAS_ENABLED
        assert import_at_first_use("made_here") is sys.modules["made_here"]
        with pytest.raises(ValueError, match="broken"):
            import_at_first_use("broken_here")
        assert gc.isenabled()
        gc.disable()
        import_at_first_use("made_here")
        assert not gc.isenabled()
    finally:
        gc.enable()
        sys.modules.pop("made_here", None)
