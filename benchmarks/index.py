"""Measures an index of ten million files, and the listing of a folder, in comparison with torchvision.

    python benchmarks/index.py [--entries 10000000] [--draws 2000000] [--workers 4] [--files 500000] [--lines 10000000]
                               [--json FILE]

The first part needs no image files: it makes 1,000 empty folders and an index of ImageNet-like paths in them, and opens
`ImageFolder` on it, with all checks. A torchvision dataset gets the same samples as a list. Forked DataLoader workers
then read random entries of each, as the first line of ``__getitem__`` does; growth is that of a worker's private memory
(USS) from its first batch to its last, with all workers alive.

The second part makes empty files in 1,000 folders and lists them with each package in turn; figures are medians.

The third part writes a list of "path label" lines, and two processes, one after the other, open an `ImageList` of it:
the first parses it, the second opens the kept index. Memory is each process's peak.

Everything is made in a temporary folder (TMPDIR chooses where) and removed again. psutil and torchvision are needed:
pip install '.[bench]'.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import psutil
from torch.utils.data import DataLoader, Dataset
from torchvision_here import torchvision

import fastpipe
from fastpipe import transforms as T
from fastpipe.datasets import ImageIndex
from fastpipe.index import format
from fastpipe.index.extensions import IMG_EXTENSIONS
from fastpipe.index.local_scan import LocalFolderSource, folder_states
from fastpipe.index.table import Listing, Table, joined, offsets_of, pack_paths

FOLDERS = 1000
LIST_BYTES = 230
"""Bytes that torchvision's lists take for each entry in the parent; in the end, about as many in every worker."""


def class_names() -> list[str]:
    return [f"n{1440764 + 13 * number:08d}" for number in range(FOLDERS)]


def made_up(root: Path, entries: int) -> Table:
    """The table of a root with that many ImageNet-like file names; the folders exist, so that they have states."""
    names = class_names()
    each = np.diff(np.linspace(0, entries, FOLDERS + 1).astype(int))
    packed = []
    for name, count in zip(names, each, strict=True):
        (root / name).mkdir(parents=True)
        packed.append(pack_paths(sorted(f"{name}/{name}_{number * 7}.JPEG" for number in range(count))))
    folders = joined([pack_paths(["", *names])])
    paths = joined(packed)
    return Table(
        paths,
        offsets_of(paths),
        np.repeat(np.arange(FOLDERS, dtype=np.int32), each),
        part_paths=folders,
        part_starts=np.concatenate([[0, 0], np.cumsum(each)]),
        part_states=folder_states(str(root), ["", *names]),
    )


class Entries(Dataset[int]):
    """Reads an entry as a dataset's ``__getitem__`` does before it opens the file."""

    def __init__(self, samples: Any) -> None:
        self.samples = samples

    def __getitem__(self, index: int) -> int:
        path, target = self.samples[index]
        return len(path) + target


def random_batches(entries: int, draws: int, batch: int = 1000) -> Iterator[list[int]]:
    generator = np.random.default_rng(0)
    for _ in range(draws // batch):
        yield generator.integers(0, entries, batch).tolist()


def growth_mb(samples: Any, draws: int, workers: int) -> list[float]:
    """The growth of each worker's private memory, in MB."""
    batches = list(random_batches(len(samples), draws))
    loader = DataLoader(
        Entries(samples), batch_sampler=batches, num_workers=workers, collate_fn=sum, multiprocessing_context="fork"
    )
    iterator = iter(loader)
    processes = [psutil.Process(worker.pid) for worker in iterator._workers]
    for _ in range(workers):
        next(iterator)
    before = [process.memory_full_info().uss for process in processes]
    after = before
    for number in range(workers, len(batches)):
        if number == len(batches) - 2 * workers:  # the last batches are in flight, so all workers are still alive
            after = [process.memory_full_info().uss for process in processes]
        next(iterator)
    return [(end - start) / 1e6 for start, end in zip(before, after, strict=True)]


class ListBased(torchvision.datasets.DatasetFolder):
    """torchvision's own dataset over given samples, without a listing of the disk."""

    def __init__(self, samples: list[tuple[str, int]]) -> None:
        self._given = samples
        super().__init__("made-up", loader=len, extensions=IMG_EXTENSIONS)
        del self._given

    def find_classes(self, directory: str) -> tuple[list[str], dict[str, int]]:
        return class_names(), {name: number for number, name in enumerate(class_names())}

    def make_dataset(self, *_: Any, **__: Any) -> list[tuple[str, int]]:
        return self._given


def median_ms(function: Callable[[], Any], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        gc.collect()
        start = time.perf_counter()
        made = function()
        times.append((time.perf_counter() - start) * 1e3)
        del made  # not timed, as freeing a million tuples takes time
    return statistics.median(times)


def large(root: Path, cache: Path, entries: int, draws: int, workers: int) -> dict[str, Any]:
    root.mkdir()
    table = made_up(root, entries)
    location = cache / "made-up"
    identity = LocalFolderSource(root=str(root), extensions=IMG_EXTENSIONS).identity
    about = {**Listing(table, class_names(), range(FOLDERS)).header(), "identity": identity}
    generation = format.write(location, table.arrays(), about)
    on_disk = (location / f"{generation}.index").stat().st_size
    result: dict[str, Any] = {
        "entries": entries,
        "mean path bytes": round(table.paths.size / entries - 1, 1),
        "index, bytes an entry": round(on_disk / entries, 2),
    }
    del table
    transform = T.Compose(
        [
            T.RandomResizedCrop(224),
            T.RandomHorizontalFlip(),
            T.ToTensor(),
            T.Normalize([0.485, 0.456, 0.406], [0.2] * 3),
        ]
    )
    dataset = fastpipe.ImageFolder(root, transform, index=location)
    assert dataset.index is not None
    assert dataset.index.origin == "opened"
    assert len(dataset) == entries
    result["opening the index, ms"] = median_ms(lambda: ImageIndex.from_folder(root, location=location), 9)
    result["opening ImageFolder, ms"] = median_ms(lambda: fastpipe.ImageFolder(root, transform, index=location), 9)
    pickled = pickle.dumps(dataset)
    result["pickled dataset, bytes"] = len(pickled)
    result["unpickling, ms"] = median_ms(lambda: pickle.loads(pickled), 9)
    result["worker growth, MB"] = growth_mb(dataset.samples, draws, workers)

    room = psutil.virtual_memory().available
    fits = int(0.6 * room / (LIST_BYTES * (workers + 1)))
    count = min(entries, fits)
    known = dataset.samples[:count] if count < entries else list(dataset.samples)
    theirs = ListBased(known)
    del known
    gc.collect()
    start = time.perf_counter()
    their_pickle = len(pickle.dumps(theirs.samples[: min(count, 1_000_000)]))
    seconds = time.perf_counter() - start
    share = count / min(count, 1_000_000)
    result["torchvision"] = {
        "entries": count,
        "scaled": count < entries,
        "pickled samples, MB": round(their_pickle * share / 1e6, 1),
        "pickling, s": round(seconds * share, 2),
        "worker growth, MB": growth_mb(theirs.samples, draws, workers),
    }
    return result


def scanning(root: Path, files: int, rounds: int) -> dict[str, Any]:
    each = np.diff(np.linspace(0, files, FOLDERS + 1).astype(int))
    for name, count in zip(class_names(), each, strict=True):
        (root / name).mkdir(parents=True)
        for number in range(count):
            os.close(os.open(root / name / f"{name}_{number * 7919 % 99991}.JPEG", os.O_CREAT | os.O_WRONLY))
    time.sleep(4)  # folders that changed in the last seconds would be listed again in any case
    ours, theirs, ratios, second = [], [], [], []
    known = torchvision.datasets.ImageFolder(root)
    dataset = fastpipe.ImageFolder(root, index=None)
    assert dataset.samples == known.samples
    assert dataset.targets == known.targets
    del known, dataset
    for number in range(rounds):
        location = root.parent / f"index {number}"
        theirs.append(median_ms(lambda: torchvision.datasets.ImageFolder(root), 1) / 1e3)
        ours.append(median_ms(lambda at=location: fastpipe.ImageFolder(root, index=at), 1) / 1e3)
        ratios.append(theirs[-1] / ours[-1])
        second.append(median_ms(lambda at=location: fastpipe.ImageFolder(root, index=at), 5) / 1e3)
    return {
        "files": files,
        "torchvision, s": round(statistics.median(theirs), 3),
        "fastpipe, first opening, s": round(statistics.median(ours), 3),
        "times as fast": round(statistics.median(ratios), 2),
        "fastpipe, second opening, ms": round(statistics.median(second) * 1e3, 2),
        "second opening, times as fast as torchvision": round(statistics.median(theirs) / statistics.median(second)),
        "second opening, times as fast as the first": round(statistics.median(ours) / statistics.median(second)),
    }


_OPENING = """
import json, resource, sys, time
import fastpipe
fastpipe.ImageList
def most_mb():
    try:  # what Linux's resource usage says begins with the memory of the process that started this one
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1e3
    except (OSError, StopIteration):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
imported, start = most_mb(), time.perf_counter()
dataset = fastpipe.ImageList(sys.argv[1])
seconds = time.perf_counter() - start
print(json.dumps([len(dataset), seconds, most_mb(), imported, dataset.index.table.nbytes / 1e6]))
"""


def listed(path: Path, lines: int) -> dict[str, Any]:
    names = class_names()
    with open(path, "w") as file:
        for start in range(0, lines, 100_000):
            some = range(start, min(start + 100_000, lines))
            kinds = ((number, names[number * 7919 % FOLDERS]) for number in some)
            file.write("".join(f"train/{name}/{name}_{number:09d}.JPEG {name}\n" for number, name in kinds))
    result: dict[str, Any] = {"lines": lines, "list, MB": round(path.stat().st_size / 1e6, 1)}
    for opening in ("first opening", "second opening"):
        command = [sys.executable, "-c", _OPENING, str(path)]
        count, seconds, most, imported, index = json.loads(subprocess.check_output(command))
        assert count == lines
        result |= {"index, MB": round(index, 1), "importing fastpipe, MB": round(imported, 1)}
        result |= {f"{opening}, s": round(seconds, 4), f"{opening}, MB": round(most, 1)}
    return result


def show(result: dict[str, Any], indent: str = "") -> None:
    for name, value in result.items():
        if isinstance(value, dict):
            print(f"{indent}{name}:")
            show(value, indent + "  ")
        elif isinstance(value, list):
            print(f"{indent}{name}: {', '.join(f'{one:.2f}' for one in value)}")
        else:
            print(f"{indent}{name}: {value:,.2f}" if isinstance(value, float) else f"{indent}{name}: {value}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--entries", type=int, default=10_000_000, help="entries in the index; 0 skips the first part")
    parser.add_argument("--draws", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--files", type=int, default=500_000, help="empty files; 0 skips the second part")
    parser.add_argument("--lines", type=int, default=10_000_000, help="lines of the list; 0 skips the third part")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of the second part")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="fastpipe-index-") as folder:
        os.environ["FASTPIPE_CACHE"] = os.path.join(folder, "cache")
        if arguments.files:
            results["scanning"] = scanning(Path(folder) / "files", arguments.files, arguments.rounds)
            show({"scanning": results["scanning"]})
        if arguments.entries:
            results["large"] = large(
                Path(folder) / "large", Path(folder), arguments.entries, arguments.draws, arguments.workers
            )
            show({"large": results["large"]})
        if arguments.lines:
            results["list"] = listed(Path(folder) / "list.txt", arguments.lines)
            show({"list": results["list"]})
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
