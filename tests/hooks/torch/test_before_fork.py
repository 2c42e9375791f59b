"""Modules that a loader's forked workers need are imported before the fork; none where samples are no images."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import corpus
import pytest

SCRIPT = """
import sys
{imports}
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
import fastpipe

class Photos(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        before = set(sys.modules)
        {sample}
        return made, [name for name in sys.modules if name not in before and name.startswith("fastpipe")]

fastpipe.install()
for epoch in range({epochs}):
    for made, names in DataLoader(Photos(), 2, num_workers=1, collate_fn=lambda samples: samples[0]):
        print(tuple(made.shape), names)
print(sorted(name for name in sys.modules if name.startswith(("fastpipe.program", "fastpipe.datasets"))))
"""
TRANSFORM = "T.Compose([T.RandomResizedCrop(40), T.ToTensor()])"


def lines_of(imports: str, sample: str, epochs: int = 1) -> list[str]:
    tests = str(Path(__file__).parents[2])
    script = f"import sys; sys.path.append({tests!r})\n" + SCRIPT.format(imports=imports, sample=sample, epochs=epochs)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.needs_core
def test_workers_import_nothing_of_ours(tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(corpus.jpeg(70, 90))
    imports = f"from torchvision_here import torchvision; T = torchvision.transforms; transform = {TRANSFORM}"
    *batches, programs = lines_of(imports, f"made = transform(Image.open({str(photo)!r}).convert('RGB'))")
    assert batches == ["(3, 40, 40) []"] * 2
    assert "fastpipe.program" in programs
    assert "fastpipe.datasets" not in programs  # which only known datasets need


@pytest.mark.needs_core
def test_workers_of_a_known_dataset_import_nothing_of_ours(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / f"{number}.jpg").write_bytes(corpus.jpeg(70, 90))
    script = f"""
import sys
sys.path.append({str(Path(__file__).parents[2])!r})
from torchvision_here import torchvision
import fastpipe
from torch.utils.data import DataLoader, Subset
fastpipe.install()
T = torchvision.transforms
dataset = Subset(torchvision.datasets.ImageFolder({str(tmp_path)!r}, {TRANSFORM}), range(4))

def tell(number):
    global before
    before = set(sys.modules)

def told(samples):
    return len(samples), [name for name in sys.modules if name not in before and name.startswith("fastpipe")]

for batch in DataLoader(dataset, 2, num_workers=1, worker_init_fn=tell, collate_fn=told):
    print(batch)
print("fastpipe.hooks.torch.known_batches" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["(2, [])", "(2, [])", "True"]


@pytest.mark.needs_core
def test_where_earlier_workers_made_images_later_ones_import_nothing(tmp_path: Path) -> None:
    """The script imports no other library for images."""
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(corpus.jpeg(70, 90))
    sample = f"made = torch.from_numpy(np.array(Image.open({str(photo)!r}).resize((30, 20))))"
    *batches, _ = lines_of("import numpy as np", sample, epochs=2)
    assert "fastpipe.core" in batches[0]
    assert [batch.endswith(" []") for batch in batches] == [False, True, True, True]


@pytest.mark.needs_core
def test_workers_of_a_script_with_opencv_import_nothing(tmp_path: Path) -> None:
    """Nor is imported what only images without pixels need."""
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(corpus.jpeg(70, 90))
    *batches, programs = lines_of("import cv2", f"made = torch.from_numpy(cv2.imread({str(photo)!r}))")
    assert batches == ["(70, 90, 3) []"] * 2
    assert programs == "[]"


def test_other_data_has_nothing_imported() -> None:
    *batches, programs = lines_of("", "made = torch.zeros(3)", epochs=2)
    assert batches == ["(3,) []"] * 4
    assert programs == "[]"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_spawned_workers_import_it_themselves(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from fastpipe.hooks.torch import before_fork

    asked: list[str] = []
    monkeypatch.setattr(before_fork, "import_at_first_use", asked.append)
    context = SimpleNamespace(get_start_method=lambda allow_none: method)
    before_fork.prepare_workers(SimpleNamespace(multiprocessing_context=context))
    assert asked == []


def test_ctrl_c_during_the_imports_has_one_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    import fastpipe
    from fastpipe.hooks.torch import data_loader as torch_data

    def interrupted(loader: object) -> None:
        raise KeyboardInterrupt

    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    monkeypatch.setattr(torch_data, "prepare_workers", interrupted)
    loader = DataLoader(TensorDataset(torch.zeros(4)), 2, num_workers=1)
    with fastpipe.install(), pytest.raises(KeyboardInterrupt):
        iter(loader)
    gc.collect()
    assert ignored == []
