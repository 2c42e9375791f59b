"""Other versions of the hooked libraries: what fastpipe doesn't find costs speed, and changes nothing."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

import corpus
import pytest
from run_scripts import run_python

import fastpipe
from fastpipe.hooks.needed_names import NEEDED

TESTS = Path(__file__).resolve().parent
PACKAGE = Path(fastpipe.__file__).parent

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
@pytest.mark.parametrize("part", range(3))
def test_a_script_does_the_same_without_any_name_that_a_hook_replaces(part: int, tmp_path: Path) -> None:
    for number in range(2):
        folder = tmp_path / "photos" / "ab"[number]
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


# -- names that are asked for at calls


def private_names(file: Path) -> Iterator[str]:
    """The private names of torch's and Pillow's that the code of a file uses, outside of annotations."""
    tree = ast.parse(file.read_text())
    parts = [part for node in ast.walk(tree) for part in not_run_in(node)]
    not_run, bound = {id(inner) for part in parts for inner in ast.walk(part)}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            bound |= {one.asname or one.name.partition(".")[0]: one.asname and one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and id(node) not in not_run:
            bound |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    used = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and id(node) not in not_run]
    paths = [(bound.get(first) or first) + dot + rest for first, dot, rest in (one.partition(".") for one in used)]
    for name in {*paths, *filter(None, bound.values())}:
        if name.startswith(("torch.", "PIL.")) and "._" in name and "__" not in name and "(" not in name:
            yield name


def not_run_in(node: ast.AST) -> list[ast.AST]:
    """The parts of a node that are for type checkers."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return [*node.body]
    return [part for part in (getattr(node, "annotation", None), getattr(node, "returns", None)) if part is not None]


def test_each_private_name_is_asked_for_before_it_is_used() -> None:
    needed = {f"{module}.{name}" for module, names in NEEDED.items() for name in names}
    rooms = ("hooks", "pillow", "program", "kernels", "tensor_kernels", "memory", "rng", "executor", "ops")
    files = [file for room in rooms for file in (PACKAGE / room).rglob("*.py")]
    used = {name for file in files for name in private_names(file)}
    assert "torch._C._swap_tensor_impl" in used
    beginnings = {f"{one}." for one in needed}
    unknown = [
        name for name in used if not any(f"{name}.".startswith(one) or one.startswith(f"{name}.") for one in beginnings)
    ]
    assert unknown == []


WITHOUT_A_NAME = """
import operator, os, sys
sys.path.insert(0, sys.argv[1])
import torchvision_here, torch, PIL.JpegImagePlugin
from torchvision import transforms as T
from PIL import Image
import fastpipe, fastpipe.hooks.summary, fastpipe.hooks.installation

torch.set_num_threads(1)

def script():
    torch.manual_seed(0)
    steps = T.Compose([T.RandomCrop(90), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5] * 3, [0.5] * 3)])
    made = [steps(Image.open("image.jpg").convert("RGB")) for _ in range(4)]
    return torch.stack(made).double().sum().item()

plain = script()
for name in sys.argv[2:]:
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == 0, name
        continue
    home, _, own = name.rpartition(".")
    delattr(operator.attrgetter(home)(sys.modules[home.partition(".")[0]]), own)
    with fastpipe.install():
        assert script() == plain
    print(*fastpipe.hooks.report().notes, sep="\\n", flush=True)
    os._exit(0)
"""


@pytest.mark.needs_fork
def test_without_a_private_name_a_script_does_the_same_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "image.jpg").write_bytes(corpus.jpeg(120, 140))
    (tmp_path / "script.py").write_text(WITHOUT_A_NAME)
    names = ["_C._swap_tensor_impl", "_C._jit_get_schemas_for_operator", "_C._dispatch_keys"]  # torch lives without
    made = run_python("script.py", str(TESTS.parent), *(f"torch.{name}" for name in names), cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    notes = made.stdout.splitlines()
    assert [note.partition(": ")[2] for note in notes] == [
        f"nothing is accelerated (it lacks {name})" for name in names
    ]
