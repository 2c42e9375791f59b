"""Photos out of zip, tar, shards and Parquet, against the same photos as files, in one run.

    python benchmarks/anywhere.py PATH [--threads 2] [--batch-size 32] [--repeat 4] [--rounds 5] [--samples 6000]

PATH is a folder as ImageFolder takes it (root/class/….jpg). It is packed into a temporary folder. The transform is
RandomResizedCrop(224), flip, ToTensor, Normalize; `--threads` threads of fastpipe.DataLoader make the batches, with a
seed, so that all make the same ones. Rounds are interleaved. A figure is the median over the rounds, a ratio the median
of each round's ratio to the files' rate.

The second opening is that of a tar of `--members` empty members, whose index is in the cache: the median of the rounds,
from `ImageFolder(path)` to the dataset.

Behind that comes `benchmarks/growing.py`: a growing data set over a slow store, unless ``--samples 0`` leaves it out.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import archives
import growing
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from rich.console import Console
from rich.table import Table

import fastpipe
from fastpipe import transforms as T

TRAIN = T.Compose(
    [
        T.RandomResizedCrop(224),
        T.RandomHorizontalFlip(),
        T.ToTensor(),
        T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
)


def parquet(dataset: fastpipe.ImageFolder, target: Path, compression: str) -> Path:
    rows = [(Path(path).read_bytes(), label) for path, label in dataset.samples]
    table = pa.table({"image": [data for data, _ in rows], "label": [label for _, label in rows]})
    pq.write_table(table, target, compression=compression, row_group_size=100)
    return target


def sources(root: Path, folder: Path) -> dict[str, Callable[[], Any]]:
    """What is measured: each makes a dataset of the same photos."""
    files = fastpipe.ImageFolder(root, TRAIN, seed=0)
    zipped = archives.zipped(root, folder / "a.zip")
    tarred = archives.tarred(root, folder / "a.tar")
    archives.shards(root, folder / "shards")
    plain = parquet(files, folder / "plain.parquet", "none")
    snappy = parquet(files, folder / "snappy.parquet", "snappy")
    return {
        "files": lambda: files,
        "zip": lambda: fastpipe.ImageFolder(zipped, TRAIN, seed=0),
        "tar": lambda: fastpipe.ImageFolder(tarred, TRAIN, seed=0),
        "shards": lambda: fastpipe.ImageShards(str(folder / "shards/*.tar"), TRAIN, seed=0),
        "Parquet": lambda: fastpipe.ImageTable(plain, TRAIN, seed=0),
        "Parquet, snappy": lambda: fastpipe.ImageTable(snappy, TRAIN, seed=0),
    }


def rate(loader: Any) -> float:
    """Images a second of one epoch, from the request of its first batch."""
    start, images = time.perf_counter(), 0
    for batch, _ in loader:
        images += len(batch)
    return images / (time.perf_counter() - start)


def second_opening(folder: Path, members: int, rounds: int) -> list[float]:
    """Seconds to open a tar of so many members, whose index is kept."""
    path = folder / "many.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(members):
            archive.addfile(tarfile.TarInfo(f"class{number % 100:02}/{number:07}.jpg"), io.BytesIO())
    os.utime(path, (1e9, 1e9))
    time.sleep(3.1)  # its change time has to settle before a list of it is believed
    fastpipe.ImageFolder(path)
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        dataset = fastpipe.ImageFolder(path)
        taken.append(time.perf_counter() - start)
        assert len(dataset) == members
        assert dataset.index is not None
        assert dataset.index.origin == "opened"
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="a folder of images, one folder a class")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=4, help="epochs that a round goes through")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--members", type=int, default=100_000, help="of the tar that is opened a second time")
    parser.add_argument("--samples", type=int, default=6000, help="of the growing data set")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # that compressed Parquet is unpacked
    with tempfile.TemporaryDirectory() as name:
        os.environ["FASTPIPE_CACHE"] = str(Path(name) / "cache")
        loaders = {
            kind: fastpipe.DataLoader(make(), arguments.batch_size, threads=arguments.threads, shuffle=True)
            for kind, make in sources(arguments.path, Path(name)).items()
        }
        rates: dict[str, list[float]] = {kind: [] for kind in loaders}
        for round_ in range(arguments.rounds + 1):
            kinds = list(loaders)
            for kind in kinds if round_ % 2 else reversed(kinds):
                found = statistics.mean(rate(loaders[kind]) for _ in range(arguments.repeat))
                if round_:  # the first warms up
                    rates[kind].append(found)
        grown = growing.figures(arguments.path, arguments.samples, 10, 250.0, 20) if arguments.samples else None
        opening = second_opening(Path(name), arguments.members, max(arguments.rounds, 5))
    figures: dict[str, Any] = {
        kind: {
            "images_per_s": round(statistics.median(found), 1),
            "of_files": round(
                statistics.median(one / other for one, other in zip(found, rates["files"], strict=True)), 3
            ),
        }
        for kind, found in rates.items()
    }
    figures["second_opening_ms"] = round(1000 * statistics.median(opening), 1)
    table = Table("photos out of", "images/s", "of files' rate")
    for kind in rates:
        table.add_row(kind, f"{figures[kind]['images_per_s']:.0f}", f"{figures[kind]['of_files']:.2f}")
    Console().print(table)
    print(f"a tar of {arguments.members:,} members, opened a second time: {figures['second_opening_ms']} ms")
    if grown is not None:
        figures["growing"] = grown
        print(growing.shown(grown))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
