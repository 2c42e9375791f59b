"""Made cases: folders, loaders and machines that are ill for real, and the finding that doctor has for each.

Tests of one finding beside another's (too few workers beside too many) use naps for work, which other programs on the
machine don't make much longer.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader as TorchDataLoader

import fastpipe
from fastpipe import transforms as T
from fastpipe.tools.doctor import Diagnosis, Finding, doctor, examine
from fastpipe.tools.doctor import disk as disk_module

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks workers; spawned ones start slowly")

NAP_S = 0.1
SMALL = T.Compose([T.Resize((16, 16)), T.ToTensor()])


@pytest.fixture(autouse=True)
def _quiet_machine_of_two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "usable_cpus", lambda: 2)
    monkeypatch.setattr(examine.findings, "is_busy", lambda stages: False)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    (root / "class").mkdir()
    for number in range(20):
        (root / "class" / f"{number}.jpg").write_bytes(corpus.jpeg(60, 80, seed=number))
    return root


def found(diagnosis: Diagnosis) -> Mapping[str, Finding]:
    return {finding.name: finding for finding in diagnosis.findings}


def nap(image: Any) -> Any:
    time.sleep(NAP_S)
    return image


NAPPING = T.Compose([T.Lambda(nap), T.Resize((16, 16)), T.ToTensor()])


def test_too_few_workers(root: Path) -> None:
    """One worker delivers at most 10 images a second, two up to 20."""
    diagnosis = doctor(root, transform=NAPPING, batch_size=8, workers=1, gpu_rate=17, seconds=2)
    assert "too many workers" not in found(diagnosis)
    finding = found(diagnosis)["too few workers"]
    assert finding.severity == "problem"
    assert "of the 17 that the GPU takes" in finding.what
    assert finding.remedy == "Set num_workers=2."
    assert diagnosis.recommended_workers == 2


@pytest.mark.slow
def test_too_many_workers(root: Path) -> None:
    """One worker delivers more than the 2 images a second that are wanted."""
    diagnosis = doctor(root, transform=NAPPING, batch_size=8, workers=4, gpu_rate=2, seconds=1)
    assert diagnosis.healthy
    assert not {"too few workers", "too little shared memory"} & set(found(diagnosis))
    assert found(diagnosis)["too many workers"].remedy.startswith("Set num_workers=1: less memory")
    assert "num_workers=1 is enough for the GPU" in str(diagnosis)


def test_too_little_shared_memory(root: Path) -> None:
    """Batches of ten million images fit into no machine's; the trials are made with batches that do."""
    diagnosis = doctor(root, transform=SMALL, batch_size=10**7 * 16, workers=2, seconds=0.3)
    finding = found(diagnosis)["too little shared memory"]
    assert finding.severity == "problem"
    assert "2 workers with prefetch_factor=2 may hold 2.5 TB of batches" in finding.what
    assert "The machine has no such memory" in finding.remedy
    assert "--shm-size" not in finding.remedy
    assert diagnosis.scaling.batch_size < 10**6


def test_more_workers_than_there_is_time_to_start(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 workers are neither started nor judged; all else is measured."""
    monkeypatch.setattr(examine, "try_loader", partial(_refusing, examine.try_loader))
    loader = TorchDataLoader(fastpipe.ImageFolder(root, SMALL), 4, num_workers=500)
    diagnosis = doctor(loader, seconds=0.3)
    assert [trial.num_workers for trial in diagnosis.scaling.trials] == [1, 2]
    assert diagnosis.scaling.untried is not None
    assert diagnosis.scaling.untried[0] == 500
    assert "--seconds" in found(diagnosis)["workers that weren't measured"].remedy
    assert "too many workers" not in found(diagnosis)
    assert diagnosis.to_dict()["scaling"]["untried"][0] == 500


def _refusing(try_loader: Any, make: Any, seconds: float) -> Any:
    assert make().num_workers <= 2
    return try_loader(make, seconds)


OPENCV = """
import json, sys
from pathlib import Path
import cv2, numpy, torch
from torch.utils.data import DataLoader, Dataset
import fastpipe
from fastpipe.tools.doctor import examine

examine.usable_cpus = lambda: 2


class Blurred(Dataset):
    paths = sorted(map(str, Path(sys.argv[1]).rglob("*.jpg")))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = cv2.resize(cv2.imread(self.paths[index]), (400, 400))
        image = cv2.bilateralFilter(image, 9, 50, 50)
        return torch.from_numpy(cv2.resize(image, (16, 16)).transpose(2, 0, 1).copy())


def threads(worker):
    cv2.setNumThreads(8)


loader = DataLoader(Blurred(), batch_size=4, num_workers=2, worker_init_fn=threads)
found = fastpipe.doctor(loader, seconds=0.5).findings
print(json.dumps({one.name: [one.severity, one.what, one.remedy] for one in found}))
"""


def run(script: str, *arguments: object, **environment: str) -> Any:
    """The JSON that a script prints, in a process of its own."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_opencv_with_threads_in_every_worker(root: Path) -> None:
    for _ in range(5):  # threads that get no CPU beside other programs do no work that could be seen
        findings = run(OPENCV, root)
        if "too many threads" in findings or "the machine is busy" not in findings:
            break
    severity, what, remedy = findings["too many threads"]
    assert severity == "problem"
    assert "OpenCV uses 8 threads: 2 workers may run 16 at once on 2 CPUs" in what
    assert "cv2.setNumThreads(0) in worker_init_fn" in remedy


def test_page_cache_misses(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes 50 ms a file, and files that aren't in memory."""
    warm: set[str] = set()
    read = disk_module._read

    def slow_read(path: str) -> bool:
        if path not in warm:
            time.sleep(0.05)
            warm.add(path)
        return read(path)

    monkeypatch.setattr(disk_module, "_read", slow_read)
    monkeypatch.setattr(disk_module, "_drop", lambda path: warm.discard(path) is None)
    monkeypatch.setattr(disk_module, "is_resident", lambda path: path in warm)
    monkeypatch.setattr(disk_module, "_READERS", 1)
    patient_measure = partial(disk_module.measure_disk, seconds=60.0)
    monkeypatch.setattr(examine, "measure_disk", lambda paths, count, seconds: patient_measure(paths, count))
    diagnosis = doctor(root, transform=SMALL, batch_size=8, seconds=0.5)
    assert diagnosis.disk is not None
    assert diagnosis.disk.resident == 0
    assert diagnosis.disk.cold_per_s is not None
    assert 2 < diagnosis.disk.cold_per_s < 20
    finding = found(diagnosis)["page-cache misses"]
    assert finding.severity == "note"  # the few files fit into memory
    assert "0% of the sampled files were in memory" in finding.what
    assert "cat train" in finding.remedy


def photo(height: int, width: int, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(corpus.photo(height, width)).save(out, "JPEG", quality=90, **options)
    return out.getvalue()


@pytest.mark.needs_core
def test_packing_is_proposed_by_what_was_measured(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine.findings, "WORTH_PACKING", 0.0)  # whatever this machine gains
    diagnosis = doctor(root, transform=SMALL, batch_size=4, seconds=0.5)
    finding = found(diagnosis)["JPEGs that could be packed"]
    (packed,) = (one for one in diagnosis.reencodings if one.kind == "packed")
    assert f"{1 / packed.bytes_factor:.2f}× the bytes" in finding.what
    assert f"{packed.factor:.1f}× as fast" in finding.what
    monkeypatch.setattr(examine.findings, "WORTH_PACKING", float("inf"))
    assert "JPEGs that could be packed" not in found(doctor(root, transform=SMALL, batch_size=4, seconds=0.5))


@pytest.mark.slow
def test_oversized_files(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    for number in range(5):
        (tmp_path / "class" / f"{number}.jpg").write_bytes(photo(500, 640))
    transform = T.Compose([T.RandomResizedCrop(64), T.ToTensor()])
    oversized = found(doctor(tmp_path, transform=transform, batch_size=4, seconds=1))["oversized files"]
    assert "short side 500 pixels" in oversized.what
    assert re.search(r"Measured on [2345] of them", oversized.what)  # as many as there is time for
    assert "--short-side 128" in oversized.remedy


MISSING = """
import json, sys
import fastpipe
from fastpipe.readers import available_readers
from fastpipe.tools.doctor import examine

examine.usable_cpus = lambda: 1
assert "core" not in available_readers()
found = fastpipe.doctor(sys.argv[1], batch_size=4, seconds=0.3).findings
print(json.dumps({one.name: [one.severity, one.what, one.remedy] for one in found}))
"""


@pytest.mark.slow
def test_a_missing_reader(root: Path) -> None:
    severity, what, remedy = run(MISSING, root, FASTPIPE_CORE="off")["a faster reader is missing"]
    assert severity == "advice"
    assert what.startswith("fastpipe's core, the fastest reader of JPEGs and PNGs, doesn't load here")
    assert "FASTPIPE_CORE=off" in remedy


def test_a_config_of_another_machine(root: Path) -> None:
    fastpipe.MachineConfig(readers={"jpeg": "cv2"}, machine={"processor": "a slower one"}).save()
    with pytest.warns(fastpipe.errors.FastpipeWarning, match="not measured here"):
        finding = found(doctor(root, transform=SMALL, batch_size=4, seconds=0.3))["the machine config is stale"]
    assert "a slower one" in finding.what
    assert "fastpipe configure" in finding.remedy


@pytest.mark.parametrize("behind", [[], [T.RandomHorizontalFlip()]], ids=["last", "in the middle"])
def test_a_foreign_transform(root: Path, behind: list[Any]) -> None:
    transform = T.Compose([T.Resize((16, 16)), T.Lambda(nap), *behind, T.ToTensor()])
    finding = found(doctor(root, transform=transform, batch_size=4, seconds=0.3))["a transform that isn't planned"]
    assert finding.severity == "advice"
    assert finding.what.startswith("Lambda() is called with each image")
    assert "all of them are needed for every image" in finding.remedy


def test_a_loader_of_torchvisions_kind(root: Path) -> None:
    """Whole images, decoded before the transforms see them."""
    folder = fastpipe.ImageFolder(root, SMALL, loader=lambda path: Image.open(path).convert("RGB"))
    findings = found(doctor(TorchDataLoader(folder, batch_size=4), seconds=0.3))
    assert "leave loader= out" in findings["images are decoded whole"].remedy


def test_nothing_global_is_changed(root: Path) -> None:
    import cv2

    before = torch.get_num_threads(), cv2.getNumThreads(), torch.get_rng_state().tolist()
    doctor(root, transform=SMALL, batch_size=4, seconds=0.3)
    assert (torch.get_num_threads(), cv2.getNumThreads(), torch.get_rng_state().tolist()) == before
