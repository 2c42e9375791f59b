"""fastpipe.transforms.v2 is torchvision's v2: the same names, signatures, reprs, errors and pickles."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torchvision.transforms.v2 as theirs
import torchvision.transforms.v2.functional as their_functional
from run_scripts import run_python
from torchvision import tv_tensors

from fastpipe.transforms import v2

NAMES = [name for name in vars(theirs) if not name.startswith("_")]
CLASSES = [
    name
    for name in NAMES
    if isinstance(getattr(theirs, name), type) and issubclass(getattr(theirs, name), theirs.Transform)
]


def test_every_public_name_is_there() -> None:
    assert set(NAMES) <= set(dir(v2))
    assert {name for name in vars(their_functional) if not name.startswith("_")} <= set(dir(v2.functional))


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_torchvisions(name: str) -> None:
    ours, base = getattr(v2, name), getattr(theirs, name)
    assert issubclass(ours, base)
    assert inspect.signature(ours) == inspect.signature(base)
    assert ours.__name__ == base.__name__
    assert getattr(ours, "get_params", None) is getattr(base, "get_params", None)


@pytest.mark.parametrize(
    "make",
    [
        lambda v: v.Resize([3, 4], "bicubic"),
        lambda v: v.Compose([v.RandomCrop(3, padding=2), v.RandomApply([v.ToImage()], 0.3)]),
        lambda v: v.RandomZoomOut(fill={tv_tensors.Image: 3, "others": 0}),
        lambda v: v.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
        lambda v: v.RandomErasing(value="random"),
    ],
)
def test_reprs_and_pickles(make: object) -> None:
    ours, base = make(v2), make(theirs)
    assert repr(ours) == repr(base)
    again = pickle.loads(pickle.dumps(ours))
    assert type(again) is type(ours)
    assert repr(again) == repr(ours)


@pytest.mark.parametrize(
    "make",
    [
        lambda v: v.Resize("three"),
        lambda v: v.RandomHorizontalFlip(1.5),
        lambda v: v.Compose([]),
        lambda v: v.RandomZoomOut(side_range=(0.1, 2)),
        lambda v: v.Normalize([0.5], [0.5])(torch.zeros(3, 4, 4, dtype=torch.uint8)),
        lambda v: v.CenterCrop(2)(),
    ],
)
def test_errors_are_torchvisions(make: object) -> None:
    with pytest.raises(Exception) as theirs_raised:  # noqa: PT011
        make(theirs)
    with pytest.raises(type(theirs_raised.value)) as raised:
        make(v2)
    assert str(raised.value) == str(theirs_raised.value)


def test_scripts_as_torchvision_does() -> None:
    image = torch.randint(0, 256, (3, 9, 7), dtype=torch.uint8)
    assert torch.equal(torch.jit.script(v2.RandomHorizontalFlip(1.0))(image), image.flip(-1))


@pytest.mark.slow
def test_without_torchvision_the_import_says_so() -> None:
    code = (
        "import sys; sys.modules['torchvision'] = None; import fastpipe.transforms\n"
        "try:\n    from fastpipe.transforms import v2\nexcept ImportError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'torchvision>=0.21'" in said


@pytest.mark.slow
def test_a_torchvision_that_is_too_old_isnt_planned_and_the_import_says_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torchvision_here\n"
        "from torchvision.transforms import v2 as theirs\n"
        "from fastpipe.transforms import adapters\n"
        "del theirs.Transform.make_params  # torchvision 0.20 has other methods\n"
        "try:\n    from fastpipe.transforms import v2\nexcept ImportError as error:\n    print(error)\n"
        "print(adapters.find_adapt(theirs.Resize), adapters.why_not(theirs.Resize(3)))\n"
    )
    done = run_python(str(script), cwd=tmp_path)
    imported, planned = done.stdout.splitlines()
    assert "torchvision 0.21 or later" in imported, done.stderr
    assert planned == f"None {imported}"
