"""Nothing that recognises, explains, verifies, previews or converts moves a generator: each in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import recognition
from recipe_conformance import write_photos

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="each use is a fork of a process that has imported torch"
)


def moved_by(root: Path, *names: str) -> dict[str, list[str]]:
    """The uses that moved a generator, and which."""
    code = [sys.executable, recognition.__file__, root, *names]
    ran = subprocess.run(code, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert len(found) >= len(names) * len(recognition.USES)
    return {use: generators for use, generators in found.items() if generators}


def test_a_guarded_to_tensor(tmp_path: Path) -> None:
    assert moved_by(write_photos(tmp_path), "DINOv2's") == {}


@pytest.mark.slow
def test_everything(tmp_path: Path) -> None:
    libraries = {"timm's": "timm", "albumentations'": "albumentations"}
    names = [name for name in recognition.TRANSFORMS if name not in libraries or importable(libraries[name])]
    assert moved_by(write_photos(tmp_path), *names) == {}


def importable(library: str) -> bool:
    try:
        __import__(library)
    except ImportError:
        return False
    return True
