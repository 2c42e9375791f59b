"""Other versions of the hooked libraries: what fastpipe doesn't find costs speed, and changes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import corpus
import pytest
from run_scripts import run_python

TESTS = Path(__file__).resolve().parent

EVERY_HOOK = """
import importlib
import fastpipe
fastpipe.install()
import torchvision_here
import torch.utils.data, fastpipe.program.pending_tensor
from fastpipe.hooks.installation import HOOKS
from fastpipe.hooks.ledger import LEDGER
for name in HOOKS:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
print(*(note for note in LEDGER.notes if "isn't accelerated" in note), sep="\\n")
"""


@pytest.mark.slow
def test_every_hook_fits_the_installed_versions(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(EVERY_HOOK)
    made = run_python("script.py", cwd=tmp_path)
    assert (made.returncode, made.stdout) == (0, "\n"), made.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each name is taken away in a forked process")
@pytest.mark.parametrize("part", range(8))
def test_a_script_does_the_same_without_any_name_that_a_hook_replaces(part: int, tmp_path: Path) -> None:
    for number in range(4):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(corpus.jpeg(110, 150, seed=number))
    made = run_python(str(TESTS / "names_taken_away.py"), str(tmp_path / "photos"), str(part), cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    result = json.loads(made.stdout)
    assert result["names"]
    assert result["changed"] == {}


WITHOUT_V2 = """
import sys
import fastpipe
fastpipe.install(check=0)
import torchvision_here, torch
from torchvision.transforms import functional as F, v2
from PIL import Image

del v2.Transform.make_params  # as in torchvision 0.18
tried = []

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "fastpipe.transforms.v2":
            tried.append(name)

sys.meta_path.insert(0, Finder())
for _ in range(4):
    image = F.pil_to_tensor(Image.open("image.jpg").convert("RGB"))
    v2.functional.horizontal_flip(image).sum()
print(tried)
print(*fastpipe.hooks.report().notes, sep="\\n")
"""


def test_an_unknown_v2_is_imported_once_and_reported_once(tmp_path: Path) -> None:
    (tmp_path / "image.jpg").write_bytes(corpus.jpeg(120, 140))
    (tmp_path / "script.py").write_text(WITHOUT_V2)
    made = run_python("script.py", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    tried, *notes = made.stdout.splitlines()
    assert tried == "['fastpipe.transforms.v2']"
    assert [note.partition(" (")[0].partition(": ")[2] for note in notes] == [
        "torchvision.transforms.v2.functional on tensors without pixels isn't accelerated"
    ]
