"""`fastpipe.doctor` as a whole, on folders that are made ill."""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from dataclasses import replace
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
from fastpipe.config import MachineConfig
from fastpipe.environment import Memory
from fastpipe.errors import ConfigError, DatasetError, FastpipeWarning
from fastpipe.loading.tuning import Trial, try_loader, worker_counts
from fastpipe.tools.doctor import Diagnosis, examine
from fastpipe.tools.doctor.examine import doctor
from fastpipe.tools.doctor.loader_setup import open_dataset, setup_of
from fastpipe.tools.doctor.measurements import Scaling
from fastpipe.tools.doctor.workers import Probe
from fastpipe.tools.explain.subject import path_of

slow_start = pytest.mark.skipif(sys.platform != "linux", reason="forks workers; spawned ones start slowly")
SHORT = 0.3


@pytest.fixture(autouse=True)
def _two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few trials on any machine."""
    monkeypatch.setattr(examine, "usable_cpus", lambda: 2)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    for number in range(20):
        folder = root / f"class{number % 2}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number:02}.jpg").write_bytes(corpus.jpeg(60 + number, 80, seed=number))
    return root


@pytest.fixture(scope="module")
def healthy(root: Path) -> Diagnosis:
    patch = pytest.MonkeyPatch()
    patch.setattr(examine, "usable_cpus", lambda: 2)
    yield doctor(root, batch_size=4, gpu_rate=1.0, seconds=SHORT)
    patch.undo()


def names(diagnosis: Diagnosis) -> set[str]:
    return {finding.name for finding in diagnosis.findings}


@slow_start
@pytest.mark.needs_core
def test_a_healthy_folder(healthy: Diagnosis) -> None:
    assert healthy.healthy
    assert (healthy.samples, healthy.tried, healthy.batch_size, healthy.workers) == (20, 20, 4, None)
    assert [trial.num_workers for trial in healthy.scaling.trials] == [1, 2]
    assert all(trial.images_per_s > 0 for trial in healthy.scaling.trials)
    assert healthy.recommended_workers == 1  # the GPU takes one image a second
    assert healthy.stages.output == (224, 224)
    assert healthy.shared_need == pytest.approx(3 * 4 * 3 * 224 * 224 * 4, rel=0.01)  # two ahead, one in use
    assert healthy.disk is not None
    assert healthy.disk.files == 20
    assert not names(healthy) - {
        "the machine is busy",
        "JPEGs that could be packed",
    }


@slow_start
def test_the_report(healthy: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    report = str(healthy)
    for text in ("Where the time goes", "draw", "core", "█", "Workers", "GPU", "shared memory: up to 7.2 MB"):
        assert text in report
    assert repr(healthy) == report
    assert max(map(len, report.splitlines())) <= 80
    html = healthy._repr_html_()
    assert html.startswith("<pre")
    assert "Where the time goes" in html
    quiet = replace(healthy, stages=replace(healthy.stages, waited=0.0))
    for rate in (None, 1e9):
        other = replace(quiet, gpu_rate=rate, workers=2, disk=None, memory=Memory(None, None), findings=())
        assert ("--gpu-rate tells" in str(other)) == (rate is None)
        assert "Findings: none" in str(other)
        assert "for 2 workers; how much is free isn't known" in str(other)
    assert "Other programs had the CPU" not in str(replace(healthy, stages=replace(healthy.stages, waited=0.1)))
    busy = str(replace(healthy, stages=replace(healthy.stages, waited=0.6)))
    assert "CPU for 60% of the time" in busy
    assert "is the best here" not in busy  # where no number of workers is judged


@slow_start
def test_threads_in_place_of_workers(healthy: Diagnosis) -> None:
    """By what was measured: threads where they deliver as much, since they take less."""
    assert healthy.threaded is not None
    assert (healthy.threaded.num_workers, healthy.threaded.threads) == (1, 2)
    assert healthy.threaded.images_per_s > 0
    assert healthy.recommended["num_workers"] == 1  # the GPU takes one image a second
    scaling = Scaling((Trial(1, 0, 2, 100.0, 0.1, 10), Trial(2, 0, 2, 200.0, 0.1, 20)), 2, 4)
    quiet = replace(healthy, stages=replace(healthy.stages, waited=0.0), scaling=scaling)
    for gpu_rate, rate, expected in (
        (None, 195, {"num_workers": 1, "threads": 2}),
        (None, 180, {"num_workers": 2}),
        (90.0, 101, {"num_workers": 1, "threads": 2}),
        (90.0, 91, {"num_workers": 1}),  # one worker without threads is faster
        (900.0, 300, {"num_workers": 1, "threads": 2}),
        (900.0, None, {"num_workers": 2}),
    ):
        threaded, in_python = (Trial(1, 2, 2, rate, 0.1, 10), "") if rate else (None, "the transform Mine")
        found = replace(quiet, gpu_rate=gpu_rate, threaded=threaded, in_python=in_python)
        assert found.recommended == found.to_dict()["recommended"] == expected
        better = "threads of one worker are as fast, " if "threads" in expected else "workers are better than threads "
        assert better in str(found)
        assert rate or "the transform Mine is Python code, which holds the interpreter's lock" in str(found)
        assert ("2 threads" in str(found)) == (rate is not None)
        busy = replace(found, stages=replace(found.stages, waited=0.6))
        assert "neither numbers of workers nor threads are judged" in str(busy)
        assert better not in str(busy)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda data: fastpipe.DataLoader(data, 4), ""),
        (lambda data: TorchDataLoader(data, 4), ""),
        (lambda data: fastpipe.DataLoader(data, 4, collate_fn=fastpipe.collate_fn), ""),
        (lambda data: fastpipe.DataLoader(data, 4, collate_fn=len, dtype=torch.float16), "the collate_fn"),
        (lambda data: TorchDataLoader(data, 4, collate_fn=len), "the collate_fn"),
        (lambda data: TorchDataLoader(torch.utils.data.StackDataset(data), 4), "the dataset (StackDataset)"),
    ],
)
def test_what_keeps_threads_from_it(root: Path, make: Any, why: str) -> None:
    for on_error in ("raise", "skip"):
        data = fastpipe.ImageFolder(root, T.Compose([T.CenterCrop(9), T.ToTensor()]), on_error=on_error)
        subject = setup_of(make(data), None, None, None)
        assert subject.in_python == why
        if not why:
            tried = try_loader(partial(subject.loader_for, itertools.cycle(range(20)), 4, 1, 2), 0.01)
            assert tried.images_per_s > 0
            assert (tried.num_workers, tried.threads) == (1, 2)


@slow_start
def test_the_values_for_programs(healthy: Diagnosis) -> None:
    values = json.loads(json.dumps(healthy.to_dict()))
    assert values["schema"] == "fastpipe-doctor/6"
    assert values["healthy"] is True
    assert sum(values["stages"]["us"].values()) == pytest.approx(values["stages"]["total_us"], rel=1e-3)
    assert values["versions"]["fastpipe"] == fastpipe.__version__


@slow_start
def test_the_picture(healthy: Diagnosis, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    healthy.plot(tmp_path / "doctor.png")
    with Image.open(tmp_path / "doctor.png") as picture:
        assert min(picture.size) > 400
    replace(healthy, gpu_rate=None, disk=None).plot(tmp_path / "doctor.svg")
    assert (tmp_path / "doctor.svg").read_bytes().startswith(b"<?xml")
    with pytest.raises(ConfigError, match=r"can't write .*nowhere.*a place that can be written"):
        healthy.plot(tmp_path / "nowhere" / "doctor.png")
    with pytest.raises(ConfigError, match="give a file such as"):
        healthy.plot(tmp_path / "doctor.what")


@slow_start
def test_without_matplotlib_the_extra_is_named(healthy: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match="pip install matplotlib"):
        healthy.plot("never.png")


def nap(image: Any) -> Any:
    time.sleep(0.03)
    return image


@slow_start
def test_an_ill_folder(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in root.rglob("*.jpg"):
        copy = tmp_path / "ill" / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    # Doctor tries samples for a second, in this order: on a busy machine perhaps only until the first good one.
    paths = [path for path, _ in fastpipe.ImageFolder(tmp_path / "ill", index=None).samples]
    Path(random.Random(0).sample(paths, len(paths))[0]).write_bytes(corpus.jpeg(60, 80)[:400])
    MachineConfig(readers={"jpeg": "pil"}, machine={"cpus": 4711}).save()
    monkeypatch.setattr(examine, "memory", lambda: Memory(10**9, 3 * 10**6))
    transform = T.Compose([T.Resize((32, 32)), T.Lambda(nap), T.RandomHorizontalFlip(), T.ToTensor()])
    told: list[str] = []
    with pytest.warns(FastpipeWarning, match="not measured here"):
        diagnosis = doctor(
            tmp_path / "ill",
            transform=transform,
            batch_size=256,
            workers=4,
            gpu_rate=1e6,
            seconds=SHORT,
            progress=lambda done, total, what: told.append(what),
        )
    assert not diagnosis.healthy
    assert names(diagnosis) >= {
        "samples that can't be made",
        "the CPUs can't feed the GPU",
        "too little shared memory",
        "a transform that isn't planned",
        "the machine config is stale",
    }
    assert [finding.severity for finding in diagnosis.findings] == sorted(
        (finding.severity for finding in diagnosis.findings), key=["problem", "advice", "note"].index
    )
    assert [trial.num_workers for trial in diagnosis.scaling.trials] == [1, 2, 4]
    broken = next(finding for finding in diagnosis.findings if finding.name == "a transform that isn't planned")
    assert "is called with each image" in broken.what
    for finding in diagnosis.findings:
        if finding.name in ("the CPUs can't feed the GPU", "too little shared memory"):
            assert ("cuda" in finding.remedy) == torch.cuda.is_available()
    assert told[-1] == "done"
    assert "trying 4 workers" in told


class OwnDataset(torch.utils.data.Dataset[Any]):
    """With a trap."""

    def __init__(self, root: Path) -> None:
        self.paths = sorted(map(str, root.rglob("*.jpg")))
        self.table = [f"something about number {number}" for number in range(50_000)] * 200

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return T.functional.to_tensor(Image.open(self.paths[index]).convert("RGB").resize((16, 16))), index


@slow_start
def test_a_loader_of_a_dataset_written_by_hand(root: Path) -> None:
    seen = torch.get_rng_state()
    diagnosis = fastpipe.doctor(TorchDataLoader(OwnDataset(root), batch_size=4, num_workers=2), seconds=SHORT)
    assert torch.equal(torch.get_rng_state(), seen)
    assert (diagnosis.batch_size, diagnosis.workers) == (4, 2)
    assert {"images are decoded whole", "Python objects are copied into every worker"} <= names(diagnosis)
    whole = next(one for one in diagnosis.findings if one.name == "images are decoded whole")
    assert whole.what.startswith("OwnDataset.__getitem__ makes each image whole")
    assert whole.remedy.startswith("One line, fastpipe.convert(dataset), or `fastpipe run` for the script")
    assert diagnosis.disk is not None
    assert diagnosis.disk.files == 20
    assert "OwnDataset" in diagnosis.subject
    assert diagnosis.stages.output == (16, 16)


def test_what_can_be_examined(root: Path, tmp_path: Path) -> None:
    whole = open_dataset(root, None)
    assert list(whole.samples) == fastpipe.ImageFolder(root).samples
    flat = open_dataset(root / "class0", None)
    assert (type(flat), len(flat)) == (fastpipe.ImageList, 10)
    single = open_dataset(root / "class0/00.jpg", None)
    assert len(single) == 1
    (tmp_path / "list.txt").write_text(f"{root / 'class0/00.jpg'} 3\n{root / 'class1/01.jpg'} 4\n")
    assert len(open_dataset(str(tmp_path / "list.txt"), None)) == 2
    (tmp_path / "empty/class").mkdir(parents=True)
    for place, message in ((tmp_path / "no", "there is no"), (tmp_path / "empty", "there is no image in")):
        with pytest.raises(DatasetError, match=message):
            open_dataset(place, None)


@pytest.mark.parametrize(
    ("subject", "arguments", "message"),
    [
        (7, {}, "not a int"),
        ([], {}, "0 samples"),
        ([1], {"batch_size": 0}, "batch_size=0"),
        ([1], {"workers": -1}, "workers=-1"),
        ([1], {"gpu_rate": 0}, "gpu_rate=0"),
        ([1], {"seconds": 0}, "how long doctor may measure"),
        ([1], {"transform": nap}, "is for a path"),
        (TorchDataLoader([1], batch_size=None), {}, "give batch_size"),
    ],
    ids=["no dataset", "empty", "batch size", "workers", "rate", "seconds", "transform", "no batches"],
)
def test_wrong_arguments(subject: Any, arguments: dict[str, Any], message: str) -> None:
    error = ConfigError if {"batch_size", "workers", "gpu_rate", "seconds"} & set(arguments) else DatasetError
    with pytest.raises(error, match=message):
        doctor(subject, **arguments)


def test_an_iterable_dataset_is_refused_with_the_reason() -> None:
    class Endless(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(3))

    with pytest.raises(DatasetError, match="each worker runs through all"):
        doctor(Endless())


@slow_start
def test_where_no_sample_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/1.jpg").write_bytes(b"no image")
    with pytest.raises(DatasetError, match=r"none of 1 sample can be made; number 0: DecodeError: .*1.jpg"):
        doctor(tmp_path, seconds=SHORT)


@pytest.mark.slow
@slow_start
def test_where_samples_make_no_batch(root: Path) -> None:
    for transform, reason in ((nap, "PIL.Image.Image"), (T.ToTensor(), "resize or crop")):
        with pytest.raises(DatasetError, match=f"can't be made a batch: .*{reason}"):
            doctor(root, transform=transform, seconds=SHORT)


def test_paths_of_samples(root: Path) -> None:
    folder = fastpipe.ImageFolder(root)
    first, last = (str(path) for path in (root / "class0/00.jpg", root / "class1/19.jpg"))
    assert path_of(folder, 0) == first
    assert path_of(torch.utils.data.Subset(folder, [19, 0]), 0) == last
    assert path_of(torch.utils.data.ConcatDataset([folder, folder]), 20) == first
    assert path_of(torch.utils.data.ConcatDataset([folder, folder]), 39) == last
    own = OwnDataset.__new__(OwnDataset)
    own.paths = [first]
    assert path_of(own, 0) == first
    own.paths = ["nowhere.jpg"]
    assert path_of(own, 0) is None
    assert path_of(torch.utils.data.TensorDataset(torch.zeros(3)), 0) is None


def add(one: int, dataset: Any) -> tuple[int, bool]:
    return one + len(dataset), torch.utils.data.get_worker_info() is not None


@slow_start
def test_the_probe_works_in_a_worker_of_the_loaders_making(root: Path) -> None:
    def init(worker: int) -> None:
        info = torch.utils.data.get_worker_info()
        assert info is not None
        assert len(info.dataset.paths) == 20
        info.dataset.mark = 100

    def marked(dataset: Any) -> int:
        return int(dataset.mark)

    dataset = OwnDataset(root)
    with Probe(setup_of(TorchDataLoader(dataset, worker_init_fn=init), None, None, None)) as probe:
        assert probe.run(partial(add, 1)) == (21, True)
        assert probe.run(partial(add, 2)) == (22, True)
    assert not hasattr(dataset, "mark")


def test_a_dataset_that_cannot_be_sent_is_examined_here(root: Path) -> None:
    folder = fastpipe.ImageFolder(root, T.Compose([T.Lambda(lambda image: image), T.Resize((9, 9)), T.ToTensor()]))
    loader = TorchDataLoader(folder, num_workers=1, multiprocessing_context="spawn")
    with Probe(setup_of(loader, None, None, None)) as probe:
        assert probe.run(partial(add, 1)) == (21, False)
        assert "lambda" in probe.why_here
    diagnosis = doctor(loader, seconds=SHORT)
    assert "workers can't get the dataset" in names(diagnosis)
    assert [trial.num_workers for trial in diagnosis.scaling.trials] == [0]
    assert diagnosis.recommended == {"num_workers": 0}
    assert "num_workers=0 is the best here" in str(replace(diagnosis, stages=replace(diagnosis.stages, waited=0.0)))


def test_numbers_of_workers() -> None:
    assert worker_counts(1) == [1]
    assert worker_counts(2) == [1, 2]
    assert worker_counts(6, also=3) == [1, 2, 3, 4, 6]
    assert worker_counts(2, also=0) == [1, 2]
