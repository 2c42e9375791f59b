"""`fastpipe.install` and `uninstall`: which processes have it, and that nothing is left of it."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path

import corpus
import pytest
from PIL import Image
from run_scripts import both_ways, run_python

LEAVES_NO_TRACE = """
import importlib, sys
from torchvision_here import torchvision
import torch.utils.data, torchvision.transforms.v2, multiprocessing.spawn, multiprocessing.util
from PIL import Image, ImageEnhance, ImageOps, ImageFilter, JpegImagePlugin, PngImagePlugin
import fastpipe
from fastpipe.hooks.installation import HOOKS
Image.preinit()
for name in HOOKS:
    try:
        importlib.import_module(name)
    except ImportError:
        pass

_OTHERS = ("PIL", "torchvision", "torch", "cv2", "albumentations", "multiprocessing", "pycocotools")

def everything():
    state = {"OPEN": dict(Image.OPEN), "meta_path": list(sys.meta_path)}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in _OTHERS:
            continue
        for key, value in list(getattr(module, "__dict__", {}).items()):
            if not callable(value):
                continue
            state[name, key] = value
            if isinstance(value, type) and value.__module__ == name:
                for attribute, held in list(vars(value).items()):
                    state[name, key, attribute] = held
    return state

def is_same(before, after):
    return before is after or before == after

before = everything()
fastpipe.install()
between = everything()
assert any(not is_same(before[key], between.get(key)) for key in before), "nothing was hooked"
fastpipe.uninstall()
after = everything()
print([key for key in before if not is_same(before[key], after.get(key))])
with fastpipe.install():
    with fastpipe.install():
        pass
    assert fastpipe.hooks.is_installed()
assert not fastpipe.hooks.is_installed()
after = everything()
print([key for key in before if not is_same(before[key], after.get(key))])
"""


def test_uninstall_leaves_every_attribute_what_it_was(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(LEAVES_NO_TRACE)
    made = run_python("script.py", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert made.stdout == "[]\n[]\n"


IMPORTS_FIRST = """
import fastpipe
fastpipe.install()
import {module}
import torch, PIL.Image
print(sorted(PIL.Image.OPEN))
print([fastpipe.is_pending(PIL.Image.open(file)) for file in ("image.jpg", "image.png")])
"""


@pytest.mark.parametrize("name", ["PIL.Image", "PIL.ImageFile", "PIL.JpegImagePlugin", "PIL.PngImagePlugin"])
@pytest.mark.needs_core
def test_any_module_of_pillow_may_be_the_first(tmp_path: Path, name: str) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "image.jpg")
    Image.new("RGB", (8, 8)).save(tmp_path / "image.png")
    (tmp_path / "script.py").write_text(IMPORTS_FIRST.format(module=name))
    registered = run_python("-c", f"import {name}, PIL.Image; print(sorted(PIL.Image.OPEN))", cwd=tmp_path)
    made = run_python("script.py", cwd=tmp_path)
    assert made.stderr == ""
    assert made.stdout == f"{registered.stdout}[True, True]\n"


OF_WORKERS = """
import glob, sys
from torchvision_here import torchvision
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

class Photos(Dataset):
    def __init__(self):
        self.paths = sorted(glob.glob("*.jpg"))
        self.transform = T.Compose([T.RandomResizedCrop(16), T.ToTensor()])
    def __len__(self):
        return 4 * len(self.paths)
    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index % len(self.paths)]).convert("RGB"))

if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(Photos(), batch_size=4, num_workers=2, multiprocessing_context=sys.argv[1])
    for _ in range(int(sys.argv[2])):
        for batch in loader:
            print(float(batch.sum()))
"""


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(5):
        (tmp_path / f"{number}.jpg").write_bytes(corpus.jpeg(40 + number, 50, "444", number))
    (tmp_path / "script.py").write_text(OF_WORKERS)
    return tmp_path


@pytest.mark.parametrize(("method", "epochs"), [("fork", 2), ("spawn", 1), ("forkserver", 1)])
@pytest.mark.slow
def test_workers_have_it_and_their_images_are_in_the_report(
    photos: Path, method: str, epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a plain Python at times says of spawned workers that a semaphore leaked which it has removed: a
    # daemonic thread that frees it as the process ends can be stopped before it tells the resource tracker.
    monkeypatch.setenv("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
    plain, ours = both_ways(["script.py", method, str(epochs)], photos, ["-q", "--report", "report.json"])
    assert plain.returncode == 0, plain.stderr
    assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr)
    sites = json.loads((photos / "report.json").read_text())["sites"]
    made = [site for site in sites if site["name"].startswith("Compose(")]
    assert sum(site["images"] for site in made) == 20 * epochs
    # Two of each worker's of the first epoch: those of the second go on where these ended, and so does a worker of the
    # first that starts after the other has made images.
    assert 2 <= sum(site["checked"] for site in made) <= 4


def test_check_must_not_be_negative(tmp_path: Path) -> None:
    made = run_python("-c", "import fastpipe; fastpipe.install(check=-1)", cwd=tmp_path)
    assert "ConfigError: check=-1" in made.stderr


def test_it_names_what_it_can_no_longer_reach(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import multiprocessing, time\n"
        "child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(30,))\n"
        "child.start()\n"
        "import fastpipe\n"
        "fastpipe.install()\n"
        "print(fastpipe.report())\n"
        "child.kill()\n"
    )
    assert "running before fastpipe.install" in run_python("script.py", cwd=tmp_path).stdout


def test_a_notebook_loads_and_unloads_it(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    code = "%load_ext fastpipe\nimport fastpipe.hooks\nprint(fastpipe.hooks.is_installed())\n%unload_ext fastpipe\n"
    (tmp_path / "cell.ipy").write_text(code + "print(fastpipe.hooks.is_installed())\n")
    made: subprocess.CompletedProcess[str] = run_python("-m", "IPython", "--no-banner", "cell.ipy", cwd=tmp_path)
    assert made.stdout.split() == ["True", "False"], made.stderr


_MAKES_ARRAYS = """
import resource
import fastpipe

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        _ = [bytearray(3 << 20) for _ in range(4)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
plainly = faults()
fastpipe.install()
faults()
print(faults() < plainly / 10)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_pages_of_arrays_that_are_freed_are_used_again(tmp_path: Path) -> None:
    assert run_python("-c", _MAKES_ARRAYS, cwd=tmp_path).stdout == "True\n"
