"""A growing data set over a slow store: how long training waits, what the cache holds, and what a kill costs.

    python benchmarks/growing.py PATH [--samples 6000] [--epochs 10] [--rate 250] [--kills 20] [--json FILE]

PATH is a folder as ImageFolder takes it (root/class/….jpg); its photos are what a store of `--samples` samples has,
each of them under several names. The store answers after 20 ms and gives 50 MB/s in all; the cache has room for a third
of it. The transform is RandomResizedCrop(224), flip, ToTensor, Normalize, on two threads, four batches ahead; training
takes `--rate` images a second, by sleeping. Wait is what passes between the request of a batch and the batch, behind
the first one. The same training on as many of the local files says what of it is this machine's.

Then such a training, of smaller images, is killed with SIGKILL `--kills` times at random moments, and resumed from what
it wrote down behind each batch: at the end, each epoch must have had each of its samples once, with the right pixels.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

import fastpipe
from fastpipe import transforms as T
from fastpipe.sources import Cache, Entry

TRAIN = T.Compose(
    [
        T.RandomResizedCrop(224),
        T.RandomHorizontalFlip(),
        T.ToTensor(),
        T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
)
SMALL = T.Compose([T.Resize(32), T.CenterCrop(32), T.PILToTensor()])

CONTEXT: Any = multiprocessing.get_context("fork")

_line = threading.Lock()  # one line to the store, for all threads of a process


class SlowStore(fastpipe.ByteSource):
    """Local files under the names of a store's, late and at a limited rate.

    Args:
        files: a path for each sample.
        latency: seconds until a file begins to come.
        rate: bytes a second, of all files together.
    """

    def __init__(self, files: list[str], latency: float, rate: float) -> None:
        self._files, self._latency, self._rate = files, latency, rate
        self._free = 0.0  # when the line is

    @property
    def name(self) -> str:
        return "slow://photos"

    def list(self) -> Iterable[Entry]:
        return [Entry(str(number), os.path.getsize(path), "1") for number, path in enumerate(self._files)]

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        data = Path(self._files[int(key)]).read_bytes()[offset:]
        data = data if length < 0 else data[:length]
        asked = time.monotonic()
        with _line:
            self._free = done = max(asked, self._free) + len(data) / self._rate
        time.sleep(max(asked + self._latency, done) - asked)
        return data


def grown(store: SlowStore, transform: Any, cache: Cache, start: int) -> fastpipe.GrowingDataset:
    keys = [entry.key for entry in store.list()]
    source = fastpipe.ImageList((keys, range(len(keys))), transform, root=store, seed=0)
    return fastpipe.GrowingDataset(source, cache, start=start)


def on_disk(cache: Cache) -> int:
    """Bytes of the files in a cache, as the file system counts them, that were there at one moment.

    Files come and go while they are counted. Those that were seen, and still are there behind the last one, were there
    together then.
    """
    seen = {}
    for folder, _, names in os.walk(Path(cache.folder) / "files"):
        for path in (os.path.join(folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                seen[path] = os.stat(path).st_blocks * 512
    return sum(size for path, size in seen.items() if os.path.exists(path))


def trained(dataset: Any, epochs: int, rate: float, behind: Callable[[], None]) -> tuple[float, float, float]:
    """Seconds until the first batch, of the training behind it, and of that waited; calls `behind` after each epoch."""
    loader = fastpipe.DataLoader(dataset, 32, shuffle=True, threads=2, prefetch_factor=4)
    asked = before = time.perf_counter()
    begun = waited = 0.0
    for _ in range(epochs):
        for images, _ in loader:
            now = time.perf_counter()
            waited += now - asked if begun else 0.0
            begun = begun or now
            time.sleep(max(0.0, now + len(images) / rate - time.perf_counter()))
            asked = time.perf_counter()
        behind()
    return begun - before, time.perf_counter() - begun, waited


def watch(cache: Cache, most: Any, over: Any) -> None:
    """A process of its own: what the cache holds at most."""
    while not over.wait(0.1):
        most.value = max(most.value, on_disk(cache))


def training(store: SlowStore, folder: Path, epochs: int, rate: float, capacity: int, start: int) -> dict[str, Any]:
    """Trains for so many epochs; what it waited for, and what the cache held."""
    cache = Cache(folder, capacity)
    most, over = CONTEXT.Value("q", 0), CONTEXT.Event()
    watching = CONTEXT.Process(target=watch, args=(cache, most, over))
    watching.start()
    dataset = grown(store, TRAIN, cache, start)
    rows: list[Any] = []
    first, took, waited = trained(dataset, epochs, rate, lambda: rows.append(dataset.statistics()))
    dataset.close()
    over.set()
    watching.join()
    seen = sum(row.samples for row in rows)
    files = fastpipe.ImageList((store._files[: seen // epochs], [0] * (seen // epochs)), TRAIN, seed=0)
    _, took_here, waited_here = trained(files, epochs, rate, lambda: None)
    last = rows[-1]
    return {
        "first_batch_s": round(first, 2),
        "training_s": round(took, 2),
        "wait_percent": round(100 * waited / took, 3),
        "wait_percent_of_local_files": round(100 * waited_here / took_here, 3),
        "samples_per_epoch": [row.samples for row in rows],
        "new_per_epoch": [row.new for row in rows],
        "arrived": last.arrived,
        "evicted": last.evicted,
        "fetched_mb_per_s": round(last.mb_per_s, 1),
        "capacity_mb": round(capacity / 1e6, 1),
        "most_on_disk_mb": round(most.value / 1e6, 1),
        "above_capacity": most.value > capacity,
    }


def victim(store: SlowStore, folder: Path, capacity: int, start: int, epochs: int) -> None:
    """Trains, and writes down behind each batch what it had and how to go on."""
    dataset = grown(store, SMALL, Cache(folder / "cache", capacity), start)
    loader = fastpipe.DataLoader(dataset, 16, shuffle=True, threads=1)
    notes: dict[str, Any] = {"seen": {}, "state": None}
    if (folder / "notes").exists():
        notes = pickle.loads((folder / "notes").read_bytes())
        loader.load_state_dict(notes["state"])
    while True:
        for images, labels in loader:
            epoch = loader.sampler.epoch
            if epoch >= epochs:
                os._exit(0)
            seen = notes["seen"].setdefault(epoch, [])
            seen += [(label, zlib.crc32(image.numpy())) for label, image in zip(labels.tolist(), images, strict=True)]
            notes["state"] = loader.state_dict()
            (folder / "notes.part").write_bytes(pickle.dumps(notes))
            os.replace(folder / "notes.part", folder / "notes")
            time.sleep(0.02)


def killed(store: SlowStore, folder: Path, capacity: int, start: int, epochs: int, kills: int) -> dict[str, Any]:
    """Kills the victim so many times; what is wrong in the end, nothing if all is well."""
    chance = random.Random(0)
    done = 0
    while True:
        process = CONTEXT.Process(target=victim, args=(store, folder, capacity, start, epochs))
        process.start()
        if done == kills:
            process.join()
            break
        process.join(chance.uniform(0.05, 0.8))
        if process.is_alive():
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
            done += 1
        else:
            break
    notes = pickle.loads((folder / "notes").read_bytes())
    keys = [entry.key for entry in store.list()]
    plain = fastpipe.ImageList((store._files, range(len(keys))), SMALL)
    right: dict[int, int] = {}
    dataset = grown(store, SMALL, Cache(folder / "cache", capacity), start)
    warnings.simplefilter("ignore")  # that the first epochs' samples have left
    lost = doubled = wrong = 0
    for epoch in range(epochs):
        had = [label for label, _ in notes["seen"].get(epoch, [])]
        window = dataset._state.window(epoch)
        dataset.set_epoch(epoch)
        wanted = set(dataset.indices) if window is not None else set()
        lost += len(wanted - set(had))
        doubled += len(had) - len(set(had))
        wrong += len(set(had) - wanted)
        for label, found in notes["seen"].get(epoch, []):
            if label not in right:
                right[label] = zlib.crc32(plain[label][0].numpy())
            wrong += right[label] != found
    dataset.close()
    return {"kills": done, "epochs": epochs, "lost": lost, "doubled": doubled, "wrong": wrong}


def figures(root: Path, samples: int, epochs: int, rate: float, kills: int) -> dict[str, Any]:
    """Everything that is measured here."""
    photos = [path for path, _ in fastpipe.ImageFolder(root).samples]
    files = [photos[number % len(photos)] for number in range(samples)]
    store = SlowStore(files, 0.02, 50e6)
    third = sum(-(-os.path.getsize(path) // 4096) * 4096 for path in files) // 3
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        fewer = SlowStore(files[: samples // 10], 0.02, 50e6)
        found["killed"] = killed(fewer, Path(name), third // 10, max(1, samples // 100), kills, kills)
    with tempfile.TemporaryDirectory() as name:
        found["training"] = training(store, Path(name), epochs, rate, third, samples // 20)
    return found


def shown(found: dict[str, Any]) -> str:
    """The figures beside what was aimed at."""
    row, kills = found["training"], found["killed"]
    return "\n".join(
        [
            f"samples of each epoch: {', '.join(map(str, row['samples_per_epoch']))}",
            f"new among them: {', '.join(map(str, row['new_per_epoch']))}",
            f"wait for data behind the first batch: {row['wait_percent']} % of {row['training_s']} s (aim: below 2); "
            f"on local files {row['wait_percent_of_local_files']} %",
            f"first batch after {row['first_batch_s']} s; fetched at {row['fetched_mb_per_s']} MB/s of 50; arrived "
            f"{row['arrived']}, evicted {row['evicted']}",
            f"most on the disk: {row['most_on_disk_mb']} MB of {row['capacity_mb']} (aim: never above)",
            f"killed {kills['kills']} times: {kills['lost']} samples lost, {kills['doubled']} doubled, "
            f"{kills['wrong']} wrong (aim: 0)",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="a folder of images, one folder a class")
    parser.add_argument("--samples", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=250.0, help="images a second that training takes")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        os.environ["FASTPIPE_CACHE"] = name
        found = figures(arguments.path, arguments.samples, arguments.epochs, arguments.rate, arguments.kills)
    print(shown(found))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    well = found["training"]["wait_percent"] < 2 and not found["training"]["above_capacity"]
    sys.exit(not well or any(found["killed"][what] for what in ("lost", "doubled", "wrong")))


if __name__ == "__main__":
    main()
