"""The package's types as a user's mypy sees them."""

from __future__ import annotations

import ast
import inspect
import os
import pickle
import subprocess
import sys
import types
import typing
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision_here
import typing_stubs

import fastpipe
from fastpipe.datasets.torchvision_bases import derive_from_torchvision

ROOT = Path(__file__).resolve().parents[1]

# Only fastpipe's own types are in question, and torch's take long to read.
CONFIG = """
[mypy]
strict = true
follow_imports = silent
[mypy-torch.*,PIL.*,cv2.*]
follow_imports = skip
"""

SCRIPT = """
from __future__ import annotations

from typing import Any

import numpy as np
import PIL.Image
import torch

import fastpipe
from fastpipe import DataLoader, ImageFolder, ImageIndex, ImageList, MachineConfig, MultiView, explain, samplers, tune
from fastpipe import transforms as T
from fastpipe.errors import DecodeError
from fastpipe.readers import available_readers, read_header, read_image
from fastpipe.transforms import functional as F
from fastpipe.transforms import v2

transform = T.Compose(
    [T.RandomResizedCrop(224), T.RandomHorizontalFlip(p=0.5), T.ToTensor(), T.Normalize([0.5], [0.5])]
)
train = ImageFolder("train", transform, seed=0)
listed = ImageList((["a.jpg", "b.jpg"], [0, 1]), train.transform)
loader = DataLoader(train, batch_size=8, shuffle=True, num_workers=2, device="cpu", dtype=torch.bfloat16)
sampler = samplers.ShuffledSampler(listed, seed=0)


def epoch(number: int) -> int:
    loader.set_epoch(number)
    seen = 0
    for _images, labels in loader:
        seen += len(labels)
    return seen


def load(path: str) -> float:
    try:
        return float(np.mean(read_image(path, region=(0, 0, 10, 20))))
    except DecodeError as error:
        print(error.reason.upper())
        return 0.0


count: int = len(train)
classes: list[str] = train.classes
path: str = train.samples[0][0]
text: str = str(explain(train))
names: list[str] = list(available_readers())
height: int = read_header(path).height
reader: str | None = MachineConfig.load().reader_for("jpeg")
files: int = len(ImageIndex.from_folder("train"))
views = MultiView(transform, 2)
arguments = tune(train, batch_size=8).kwargs
version: str = fastpipe.__version__
too_many: type[Exception] = fastpipe.errors.DatasetError
kept: tuple[str, ...] = fastpipe.datasets.IMG_EXTENSIONS
flipped = F.hflip(torch.zeros(3, 4, 5))
smaller: PIL.Image.Image = F.resize(PIL.Image.new("RGB", (8, 9)), [4, 5])
array: np.ndarray[Any, Any] = F.resize(np.zeros((8, 9, 3), np.uint8), 4)
second = v2.Compose([v2.RandomCrop(20, padding=[1, 2]), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
third: PIL.Image.Image = v2.functional.horizontal_flip(PIL.Image.new("RGB", (8, 9)))


def own_transform(image: PIL.Image.Image) -> torch.Tensor:
    return torch.zeros(image.height, image.width)


tensor: torch.Tensor = fastpipe.convert(own_transform)(PIL.Image.new("RGB", (8, 9)))

checked = fastpipe.check("train", report="bad.csv")
broken: list[str] = [row.path for row in checked.rows if row.bad]
diagnosis = fastpipe.doctor(loader, gpu_rate=3000.0)
advice: list[str] = [finding.remedy for finding in diagnosis.findings]
fastpipe.preview(train, [0, 3]).save("grid.png")
certificate = fastpipe.verify(transform, ["a.jpg", "b.jpg"])
good: bool = certificate.holds
skipping = ImageFolder("train", transform, on_error="skip", max_bad_fraction=0.05)
left_out: int = DataLoader(skipping).bad_files.skipped


class Pairs(DataLoader[tuple[torch.Tensor, int]]):
    pass


class Own(ImageFolder[tuple[torch.Tensor, int]]):
    pass


def make(path: str) -> torch.Tensor:
    return torch.zeros(3)


def name_of(image: PIL.Image.Image) -> str:
    return str(image)


plain = ImageFolder("train")
first: tuple[PIL.Image.Image, int] = plain[0]
width: int = plain[0][0].width
named: tuple[str, int] = ImageFolder("train", name_of, seed=0)[0]
loaded: DataLoader[tuple[str, int]] = DataLoader(ImageFolder("train", name_of), 8, in_order=True)
spread: samplers.DistributedSampler[int] = samplers.DistributedSampler(train, 2, 0)
annotated: DataLoader[tuple[torch.Tensor, torch.Tensor]] | None = None
other: ImageFolder[Any] = Own("train", make)
"""

MISTAKES = """
import numpy as np
import fastpipe
from fastpipe import DataLoader, ImageFolder
from fastpipe.readers import read_image
from fastpipe.transforms import CenterCrop, RandomRotation, functional as F, v2
def text(image: object) -> str: return "text"
fastpipe.ImageFloder("train")
ImageFolder("train", apply_exif="yes")
read_image("a.jpg", region=3)
number: int = fastpipe.__version__
ImageFolder("train", on_error="ignore")
fastpipe.doctor("train").finding
F.resize(np.zeros((8, 9, 3), np.uint8), "4")
kept: str = F.hflip(np.zeros((8, 9, 3), np.uint8))
v2.RandomCrop(size="20")
v2.RandomCorp(20)
v2.functional.horizontal_flip(np.zeros((8, 9, 3), np.uint8), 3)
CenterCrop("224")
RandomRotation("15")
DataLoader(ImageFolder("train"), btach_size=3)
DataLoader(ImageFolder("train"), batch_size="3")
ImageFolder("train", sede=0)
label: str = ImageFolder("train")[0][1]
shape: int = ImageFolder("train", text)[0][0]
"""


def mypy_says(folder: Path, **scripts: str) -> str:
    pytest.importorskip("mypy", reason="types are checked where the extra [check] is installed")
    (folder / "mypy.ini").write_text(CONFIG)
    for name, script in scripts.items():
        (folder / f"{name}.py").write_text(script)
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file=mypy.ini",
            "--cache-dir=cache",
            *(f"{name}.py" for name in scripts),
        ],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},  # mypy doesn't run the import hook of an editable install
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""
    return ran.stdout


def test_the_package_says_that_it_has_types() -> None:
    assert resources.files("fastpipe").joinpath("py.typed").is_file()
    assert 'wheel.packages = ["fastpipe"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")  # with all files


SUBSCRIPTED = [
    getattr(place, name)
    for place, names in (
        (fastpipe, ["CocoDetection", "DataLoader", "ImageFolder", "ImageList", "ImageShards", "ImageTable"]),
        (fastpipe, ["ArrayFolder", "ArrayList", "SampleDataset", "VOCDetection", "VOCSegmentation"]),
        (fastpipe.datasets, ["ImageArray", "ImageDataset", "JointDataset"]),
        (fastpipe.samplers, ["DistributedSampler"]),
    )
    for name in names
]


@pytest.mark.parametrize("kind", SUBSCRIPTED, ids=lambda kind: kind.__name__)
def test_classes_take_their_sample_s_type_as_torch_s_do(kind: Any) -> None:
    """In annotations, as a base, and after torchvision's classes have become bases."""
    derive_from_torchvision(kind)
    alias = kind[tuple[int, str]]
    assert typing.get_origin(alias) is kind
    derived = types.new_class("Derived", (alias,))
    assert derived.__mro__[1] is kind
    assert issubclass(derived, (torch.utils.data.Dataset, torch.utils.data.DataLoader, torch.utils.data.Sampler))


def test_a_loader_of_a_type_is_a_loader() -> None:
    class Mine(fastpipe.DataLoader[int]):
        pass

    made = (Mine([3, 1, 2], 2), fastpipe.DataLoader[int]([3, 1, 2], 2))
    for loader in made:
        assert isinstance(loader, torch.utils.data.DataLoader)
        assert [batch.tolist() for batch in loader] == [[3, 1], [2]]
        assert [batch.tolist() for batch in pickle.loads(pickle.dumps(made[1]))] == [[3, 1], [2]]
    with pytest.raises(TypeError, match="btach_size"):
        fastpipe.DataLoader([1, 2], btach_size=3)  # type: ignore[call-arg]


def test_the_stubs_are_those_of_the_signatures() -> None:
    affine = torchvision_here.module("torchvision.transforms.v2.functional").affine
    if "List" in str(inspect.signature(affine)):
        pytest.skip("this torchvision writes List[int] in its signatures; the stubs have list[int]")
    for path, text in typing_stubs.stubs():
        assert ast.dump(ast.parse(path.read_text(encoding="utf-8"))) == ast.dump(ast.parse(text)), path


@pytest.mark.slow
def test_a_user_s_script_passes_strict_mypy_and_mistakes_don_t(tmp_path: Path) -> None:
    said = mypy_says(tmp_path, script=SCRIPT, mistakes=MISTAKES)
    assert "script.py" not in said
    for line, mistake in enumerate(MISTAKES.splitlines(), 1):
        assert (f"mistakes.py:{line}: error" in said) == (line > 7), (mistake, said)
