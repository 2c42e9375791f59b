"""Loops that never ask for the batch behind the last: torch's batches in every epoch, from one set of workers."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import multiprocessing
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from loading.batches import dataset
from torch.utils.data import DataLoader as StockLoader
from torch.utils.data import IterableDataset, Sampler

import fastpipe
from fastpipe.errors import FastpipeWarning

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts forked workers")
ROOT = Path(__file__).resolve().parents[2]
EPOCHS, BATCH = 4, 3


def digest(batch) -> str:
    return hashlib.sha256(b"".join(part.contiguous().numpy().tobytes() for part in batch)).hexdigest()[:12]


def to_the_end(loader):
    yield from loader


def sliced(loader):
    yield from itertools.islice(loader, len(loader))


def broken_off_at(number):
    """A loop whose iterator is kept until the next one is there."""
    kept = []

    def loop(loader):
        kept[:] = [iter(loader)]  # until which the last one is there
        for _ in range(number or len(loader)):
            yield next(kept[0])

    return loop


def all_kept():
    """A loop whose iterators are all kept."""
    kept = []

    def loop(loader):
        kept.append(iter(loader))
        for _ in range(len(loader)):
            yield next(kept[-1])

    return loop


LOOPS = {
    "to the end": lambda: to_the_end,
    "islice": lambda: sliced,
    "break at the last": lambda: broken_off_at(None),
    "break at the second": lambda: broken_off_at(2),
    "all iterators kept": all_kept,
}
WAYS = {
    "workers": {"num_workers": 2},
    "threads": {"threads": 2},
    "worker with threads": {"num_workers": 1, "threads": 2},
}


def makers() -> list[object]:
    """Processes and threads that make batches."""
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("fastpipe batches")]
    return [*multiprocessing.active_children(), *threads]


def epochs(loader, loop):
    """Digests of the batches of some epochs, and the most processes and threads that made them."""
    found, most, before = [], 0, len(makers())
    for _ in range(EPOCHS):
        found.append([])
        for batch in loop(loader):
            found[-1].append(digest(batch))
            most = max(most, len(makers()) - before)
    return found, most


def seeded():
    torch.manual_seed(7)
    random.seed(7)


@pytest.mark.parametrize(
    ("way", "loop", "stay"),
    [
        pytest.param(way, loop, stay, marks=[pytest.mark.slow] * (not stay or loop != "break at the last"))
        for way in WAYS
        for loop in LOOPS
        for stay in (True, False)
        # of these, see test_threads_go_on_behind_the_last_batch_that_was_handed_out
        if (way, loop, stay) != ("threads", "break at the second", True)
    ],
)
def test_batches_are_torchs(root, way, stay, loop):
    """Those of new workers in each epoch, or of workers that stay."""
    options = WAYS[way]
    data = dataset(root)
    seeded()
    workers = options.get("num_workers", 1)
    expected, _ = epochs(
        StockLoader(data, BATCH, shuffle=True, num_workers=workers, persistent_workers=stay), LOOPS[loop]()
    )
    seeded()
    loader = fastpipe.DataLoader(data, BATCH, shuffle=True, persistent_workers=stay, **options)
    found, most = epochs(loader, LOOPS[loop]())
    assert found == expected
    if stay:
        assert most <= workers


class Rotated(Sampler):
    """All indices, in each epoch from the next on."""

    def __init__(self, count):
        self.count, self.epoch = count, 0

    def __len__(self):
        return self.count

    def __iter__(self):
        self.epoch += 1
        return iter([(index + self.epoch) % self.count for index in range(self.count)])


def test_threads_go_on_behind_the_last_batch_that_was_handed_out(root):
    data = dataset(root)
    seeded()
    base = int(torch.empty((), dtype=torch.int64).random_())
    torch.manual_seed(base)
    random.seed(base)
    stock = StockLoader(data, BATCH, sampler=Rotated(len(data)), generator=torch.Generator())
    expected, _ = epochs(stock, broken_off_at(2))
    seeded()
    loader = fastpipe.DataLoader(data, BATCH, sampler=Rotated(len(data)), persistent_workers=True, threads=2)
    found, most = epochs(loader, broken_off_at(2))
    assert [len(epoch) for epoch in found] == [2] * EPOCHS
    assert found == expected
    assert most == 1


@pytest.mark.parametrize("way", WAYS)
def test_an_older_iteration_gets_workers_of_its_own_when_it_is_asked(root, way):
    """And goes on where it was: each of its samples comes once."""
    options = WAYS[way]
    data = dataset(root, seed=3)
    before = len(makers())
    expected = [digest(batch) for batch in fastpipe.DataLoader(data, BATCH, shuffle=True)]
    loader = fastpipe.DataLoader(data, BATCH, shuffle=True, persistent_workers=True, **options)
    loader.set_epoch(0)
    workers = options.get("num_workers", 1)
    outer = iter(loader)
    found = [digest(next(outer)), digest(next(outer))]
    next(iter(loader))
    assert len(makers()) - before <= workers
    found.append(digest(next(outer)))
    assert len(makers()) - before <= 2 * workers
    if "num_workers" in options:
        assert len(makers()) - before == 2 * workers
    found += [digest(batch) for batch in outer]
    assert found == expected
    assert len(makers()) - before <= workers, "its workers ended with it"
    assert next(outer, None) is None
    assert len(list(loader)) == len(expected)
    assert next(outer, None) is None


@pytest.mark.parametrize("way", WAYS)
def test_an_older_iteration_that_is_over_starts_nothing(root, way):
    loader = fastpipe.DataLoader(dataset(root), BATCH, persistent_workers=True, **WAYS[way])
    before = len(makers())
    older = iter(loader)
    for _ in range(len(loader)):
        next(older)
    newer = iter(loader)
    next(newer)
    assert next(older, None) is None
    assert len(makers()) - before <= WAYS[way].get("num_workers", 1)
    assert len(list(newer)) == len(loader) - 1


class Counted(IterableDataset):
    def __iter__(self):
        worker = torch.utils.data.get_worker_info().id
        return iter(range(100 * worker, 100 * worker + 8))

    def __len__(self):
        return 16


def test_iterable_data_sets():
    before = len(makers())
    loader = fastpipe.DataLoader(Counted(), 2, num_workers=2, persistent_workers=True)
    expected = [batch.tolist() for batch in StockLoader(Counted(), 2, num_workers=2)]
    older = iter(loader)
    found = [next(older).tolist() for _ in range(3)]
    assert [batch.tolist() for batch in itertools.islice(loader, len(loader))] == expected
    assert len(makers()) - before == 2
    assert found + [batch.tolist() for batch in older] == expected
    assert [batch.tolist() for batch in loader] == expected


def test_what_an_epoch_ends_with_comes_with_its_last_batch(root, tmp_path):
    """The warning about bad files, and the time that rates are of."""
    for number in range(6):
        source = next((root / "class0").iterdir())
        path = tmp_path / "a" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(source.read_bytes() if number else b"\xff\xd8\xff\xe0 no image")
    loader = fastpipe.DataLoader(
        dataset(tmp_path, on_error="skip", max_bad_fraction=0.5), BATCH, num_workers=1, persistent_workers=True
    )
    with pytest.warns(FastpipeWarning, match="1 left out"):
        list(itertools.islice(loader, len(loader)))
    seconds = loader.stats()["this_epoch"]["seconds"]
    assert loader.stats()["this_epoch"]["seconds"] == seconds


LIGHTNING = """if True:
    import gc, hashlib, json, multiprocessing, os, random, sys, threading
    sys.path.insert(0, sys.argv[1])
    import torchvision_here
    torchvision_here.module("transforms")
    import torch, lightning
    import fastpipe
    from loading.batches import dataset
    root, out, ranks, runs = sys.argv[2], sys.argv[3], int(sys.argv[4]), json.loads(sys.argv[5])
    found = []

    def makers():
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("fastpipe batches")]
        return len(multiprocessing.active_children()) + len(threads)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.digests, self.most = [], 0

        def on_train_epoch_start(self):
            self.digests.append([])

        def training_step(self, batch, number):
            data = b"".join(part.contiguous().numpy().tobytes() for part in batch)
            self.digests[-1].append(hashlib.sha256(data).hexdigest()[:12])
            self.most = max(self.most, makers())
            return self.layer(torch.ones(1, 1)).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    for kind, options in runs:
        lightning.seed_everything(3, verbose=False)
        Loader = fastpipe.DataLoader if kind == "ours" else torch.utils.data.DataLoader
        loader = Loader(dataset(root), 3, shuffle=True, persistent_workers=True, **options)
        module = Module()
        trainer = lightning.Trainer(
            max_epochs=4, accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto", logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=out)
        trainer.fit(module, loader)
        found.append([module.digests, module.most])
        del loader, module, trainer
        gc.collect()
        assert makers() == 0
    with open(os.path.join(out, os.environ.get("LOCAL_RANK", "0") + ".json"), "w") as stream:
        json.dump(found, stream)
"""


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_lightning(root, tmp_path, ranks):
    """It takes ``len(loader)`` batches, and never asks for the one behind them."""
    if importlib.util.find_spec("lightning") is None:
        pytest.skip("lightning isn't installed")
    script = tmp_path / "train.py"
    script.write_text(LIGHTNING)
    runs = [("torch's", {"num_workers": workers}) for workers in (1, 2)] + [("ours", way) for way in WAYS.values()]
    command = [sys.executable, str(script), str(ROOT / "tests"), str(root), str(tmp_path), str(ranks), json.dumps(runs)]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PL_", "PYTEST_"))},
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "MASTER_ADDR": "127.0.0.1",
    }
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    for rank in range(ranks):
        one, two, *found = json.loads((tmp_path / f"{rank}.json").read_text())
        for (digests, most), options in zip(found, WAYS.values(), strict=True):
            workers = options.get("num_workers", 1)
            assert [len(epoch) for epoch in digests] == [5 if ranks == 1 else 3] * EPOCHS
            assert digests == (one if workers == 1 else two)[0]
            assert most <= workers
