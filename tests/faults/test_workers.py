"""A worker that is killed or stalls: an error that says which, where and why, and never a hang."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader as StockLoader

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import FastpipeWarning, LoaderError
from fastpipe.loading import worker_monitor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks workers and sends them signals")

TRANSFORM = T.Compose([T.RandomResizedCrop(24), T.ToTensor()])
VICTIM = "17.jpg"


class Loader:
    """Loads images; ends its process at the victim as it was told to, once."""

    def __init__(self, how: int, mark: Path) -> None:
        self.how = how
        self.mark = mark

    def __call__(self, path: str) -> Image.Image:
        if path.endswith(VICTIM) and not self.mark.exists():
            self.mark.touch()
            if self.how > 0:
                if self.how != signal.SIGKILL:  # torch's handlers print a message first
                    signal.signal(self.how, signal.SIG_DFL)
                os.kill(os.getpid(), self.how)
            os._exit(-self.how)
        return Image.open(path).convert("RGB")


def labels(loader) -> int:
    return sum(len(targets) for _, targets in loader)


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("threads", [0, 2])
def test_killed_worker_is_named(photos, tmp_path, stays, threads):
    dataset = fastpipe.ImageFolder(photos, TRANSFORM, loader=Loader(signal.SIGKILL, tmp_path / "mark"))
    loader = fastpipe.DataLoader(dataset, 4, num_workers=2, persistent_workers=stays, threads=threads)
    with pytest.raises(LoaderError, match=r"worker \d \(pid \d+\) was killed by SIGKILL") as caught:
        labels(loader)
    message = str(caught.value)
    assert "memory" in message
    if not threads:  # of several threads, another may have begun its file before
        assert f"{photos / 'class1' / VICTIM} (sample 17)" in message
    assert isinstance(caught.value, RuntimeError), "what torch raises is caught by the same handlers"
    assert labels(loader) == 24, "the next epoch starts new workers"


@pytest.mark.parametrize(
    ("how", "name", "cause"),
    [
        (signal.SIGBUS, "killed by SIGBUS", "--shm-size"),
        (signal.SIGSEGV, "killed by SIGSEGV", "fastpipe check"),
        (-3, "exit status 3", "above this one"),
    ],
)
def test_each_death_has_its_likely_causes(photos, tmp_path, how, name, cause):
    dataset = fastpipe.ImageFolder(photos, TRANSFORM, loader=Loader(how, tmp_path / "mark"))
    with pytest.raises(LoaderError, match=name) as caught:
        labels(fastpipe.DataLoader(dataset, 4, num_workers=2))
    assert cause in str(caught.value)
    assert VICTIM in str(caught.value)


def load_with_the_stock_loader(dataset: fastpipe.ImageFolder) -> None:
    print("an epoch of", labels(StockLoader(dataset, 4, num_workers=2)))


def test_killed_worker_of_the_stock_loader(photos, tmp_path, apart):
    """torch's own error, whichever: it comes from a signal handler, at any step of the main process."""
    dataset = fastpipe.ImageFolder(photos, TRANSFORM, loader=Loader(signal.SIGKILL, tmp_path / "mark"))
    status, printed = apart(load_with_the_stock_loader, dataset)
    assert status == 1
    assert "Error" in printed
    assert "\nan epoch of" not in f"\n{printed}"
    status, printed = apart(load_with_the_stock_loader, dataset)
    assert (status, printed) == (0, "an epoch of 24\n")


def slowly(batches) -> None:
    while True:
        time.sleep(0.01)  # the training, in which no error may come up
        try:
            next(batches)
        except Exception as error:
            raise KeyError("told where a batch was asked for") from error


def lose_workers(photos: Path) -> None:
    loader = fastpipe.DataLoader(fastpipe.ImageFolder(photos, TRANSFORM), 2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        batches = iter(loader)
        next(batches)
        worker = loader._iterator._workers[1]
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(KeyError, match="told where") as caught:
            slowly(batches)
        assert isinstance(caught.value.__cause__, LoaderError)
        assert str(worker.pid) in str(caught.value.__cause__)
    assert labels(loader) == 24
    worker = loader._iterator._workers[0]
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    assert labels(loader) == 24, "nothing is lost with a worker that dies between two epochs"


def test_worker_killed_from_outside_between_two_batches(photos, apart):
    assert apart(lose_workers, photos) == (0, "")


def end_at_once(worker: int) -> None:
    os._exit(3)


def test_worker_that_dies_at_its_start(photos):
    gc.collect()  # iterators of other tests: a signal that comes up in their __del__ is reported by Python
    dataset = fastpipe.ImageFolder(photos, TRANSFORM)
    with pytest.raises(LoaderError, match="exit status 3"):
        labels(fastpipe.DataLoader(dataset, 4, num_workers=2, worker_init_fn=end_at_once))


def test_torch_forgets_the_workers_with_the_error(photos, tmp_path):
    """Else its handler of SIGCHLD raises once more, in the middle of something else."""
    dataset = fastpipe.ImageFolder(photos, TRANSFORM, loader=Loader(signal.SIGKILL, tmp_path / "mark"))
    loader = fastpipe.DataLoader(dataset, 4, num_workers=2, persistent_workers=True)
    batches = iter(loader)
    known = [id(loader._iterator)]
    with pytest.raises(LoaderError):
        list(batches)
    labels(loader)
    known.append(id(loader._iterator))
    for key in known:
        with pytest.raises(ValueError, match="Cannot find worker information"):
            torch._C._remove_worker_pids(key)


def with_a_lambda(samples):
    return [torch.stack([image for image, _ in samples]), lambda: None]


def test_a_batch_that_cannot_be_sent(photos, capfd):
    """torch's loader waits for it for ever."""
    dataset = fastpipe.ImageFolder(photos, TRANSFORM)
    with pytest.raises(LoaderError, match=r"ended with exit status 1.*message, if it left one, is above"):
        list(fastpipe.DataLoader(dataset, 4, num_workers=2, collate_fn=with_a_lambda))
    assert re.search("Can't (pickle|get) local object", capfd.readouterr().err)


def collect_and_leave(loader: fastpipe.DataLoader) -> None:
    loader._iterator = None
    gc.collect()


@pytest.mark.slow
def test_a_fork_leaves_the_workers_that_it_inherits_alone(photos, apart):
    loader = fastpipe.DataLoader(fastpipe.ImageFolder(photos, TRANSFORM), 4, num_workers=2, persistent_workers=True)
    assert labels(loader) == 24
    workers = list(loader._iterator._workers)
    assert apart(collect_and_leave, loader) == (0, "")
    assert labels(loader) == 24
    assert workers == loader._iterator._workers


def test_other_errors_of_workers_stay_what_they_are(photos):
    os.remove(photos / "class1" / VICTIM)
    os.mkdir(photos / "class1" / VICTIM)
    (photos / "class1" / "99.jpg").touch()
    dataset = fastpipe.ImageFolder(photos, TRANSFORM)
    with pytest.raises(Exception, match=r"99\.jpg") as caught:
        labels(fastpipe.DataLoader(dataset, 4, num_workers=2))
    assert not isinstance(caught.value, LoaderError)


class Blocking:
    """Loads images; for the victim it reads a FIFO that nobody writes to, as a dead network disk would have it."""

    def __init__(self, fifo: Path) -> None:
        self.fifo = fifo

    def __call__(self, path: str) -> Image.Image:
        with open(self.fifo if path.endswith(VICTIM) else path, "rb") as file:
            return Image.open(file).convert("RGB")


@pytest.fixture
def stalling(photos, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    return fastpipe.ImageFolder(photos, TRANSFORM, loader=Blocking(fifo))


@pytest.mark.parametrize("threads", [0, 2])
def test_stalled_read_times_out_with_its_file(photos, stalling, threads):
    loader = fastpipe.DataLoader(stalling, 4, num_workers=2, timeout=1, threads=threads)
    with pytest.raises(LoaderError, match=r"no batch for 1 s \(timeout=1\)") as caught:
        labels(loader)
    awaited = str(caught.value).split("whose batch is next, ")[1].split(" ago")[0]
    assert awaited.startswith(f"began {photos / 'class1' / VICTIM} (sample 17)")


def test_stalled_read_without_a_timeout_is_told_once(stalling, tmp_path, monkeypatch):
    monkeypatch.setattr(worker_monitor, "PATIENCE_S", 0.0)

    def relieve() -> None:
        with open(tmp_path / "fifo", "wb") as fifo:
            Image.new("RGB", (30, 30)).save(fifo, "PNG")

    loader = fastpipe.DataLoader(stalling, 4, num_workers=2)
    timer = threading.Timer(1.0, relieve)
    timer.start()
    with pytest.warns(FastpipeWarning, match="no batch for 0 s") as told:
        assert labels(loader) == 24
    timer.join()
    (warning,) = [one for one in told if issubclass(one.category, FastpipeWarning)]  # Python 3.12 warns of forks, too
    assert "timeout=SECONDS" in str(warning.message)


def test_notes_name_the_sample_in_subsets_and_concatenations(photos, tmp_path):
    plain = fastpipe.ImageFolder(photos, TRANSFORM)
    fatal = fastpipe.ImageFolder(photos, TRANSFORM, loader=Loader(signal.SIGKILL, tmp_path / "mark"))
    both = torch.utils.data.ConcatDataset([torch.utils.data.Subset(plain, [3, 2, 1]), fatal])
    with pytest.raises(LoaderError, match=r"17\.jpg \(sample 17\)"):
        labels(fastpipe.DataLoader(both, 4, num_workers=1))


def test_workers_of_a_loader_in_a_ring_end_by_themselves(photos):
    """torch waits five seconds for each and then kills them: Python closes their queues first."""
    loader = fastpipe.DataLoader(fastpipe.ImageFolder(photos, TRANSFORM), 4, num_workers=2, persistent_workers=True)
    assert labels(loader) == 24
    workers = list(loader._iterator._workers)
    loader.ring = loader
    del loader
    gc.collect()
    assert [worker.exitcode for worker in workers] == [0, 0]
