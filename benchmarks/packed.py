"""Packed images beside the JPEGs that they were made of, and beside torchvision on the JPEGs, in one run.

    python benchmarks/packed.py PATH [--count 250] [--rounds 5] [--json FILE]

PATH is a folder as ImageFolder takes it, of photos that the core wasn't tuned on. They are packed into a temporary
folder, each is unpacked and compared with its JPEG, byte by byte, and every timed sample with torchvision's, byte by
byte. Then, in interleaved rounds and in the processor's time where one thread works:

- a whole image in each instruction set, JPEG and packed;
- `dataset[i]`: training (RandomResizedCrop, flip) and evaluation (Resize, CenterCrop) to float32 and to uint8;
- training to float32 by `fastpipe.DataLoader` on two threads, in time by the clock;
- packing, with and without what gives the original bytes back (the first has the proof in it), unpacking, and the
  comparison of coefficients, a photo; and `fastpipe.pack` of the folder to a zip, all that it does included.

A figure is a median over the rounds, a ratio the median of each round's ratio. Bytes read for an epoch are the heads
and the crops' rows of one epoch of training, beside all bytes of the JPEGs: from this machine's disk, and from a store
in which a request waits for 25 ms and a connection brings 85 MB a second, of which an epoch asks for whole files, as it
does by itself (`fastpipe.ByteSource.ranges_from`), and by rows always.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import platform
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

import fastpipe
from fastpipe import core
from fastpipe import transforms as T
from fastpipe.core.packed import PACKED_EXTENSION, pack, rows_of, same_coefficients, unpack
from fastpipe.core.structs import Isa
from fastpipe.errors import NotPackableError
from fastpipe.reporting.output import make_console
from fastpipe.sources import Entry
from fastpipe.tools.torchvision_mirror import import_torchvision
from fastpipe.types import Box

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
MARKS = {
    "size": 1.20,
    "AVX2 / AVX-512": 1.3,
    "portable / JPEG": 1.0,
    "dataset[i]": 8.0,
    "two threads": 11.0,
    "photos/s": 300,
}
WAIT_S, BYTES_A_SECOND = 0.025, 85e6  # of a request to S3 from the same region
Call = Callable[[], Any]


def packed_folder(source: Path, target: Path, count: int) -> tuple[Path, list[tuple[bytes, bytes]]]:
    """The JPEGs that can be packed, and them packed, as two folders of the same classes; with the bytes of both."""
    pairs, kept, others = [], 0, 0
    for path in sorted(path for path in source.glob("*/*") if path.suffix.lower() in (".jpg", ".jpeg")):
        if len(pairs) == count:
            break
        data = path.read_bytes()
        try:
            packed = pack(data)
        except NotPackableError:
            kept += 1
            with contextlib.suppress(NotPackableError):
                others += bool(pack(data, discard_original_bytes=True))
            continue
        if unpack(packed) != data:
            raise SystemExit(f"{path} doesn't come back from its packed image")
        for kind, name, body in (("jpeg", path.name, data), ("packed", path.stem + PACKED_EXTENSION, packed)):
            place = target / kind / path.parent.name / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(body)
        pairs.append((data, packed))
    if not pairs:
        raise SystemExit(f"there is no JPEG that can be packed in a folder of {source}")
    print(
        f"{len(pairs)} photos, which come back byte for byte, and {kept} that are kept as they are, of which {others} "
        "could be packed without their own bytes"
    )
    return target, pairs


def in_turns(
    rounds: int, calls: dict[str, Call], clock: Callable[[], float] = time.process_time
) -> dict[str, list[float]]:
    """Seconds of each call in each round; who goes first changes."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            start = clock()
            calls[name]()
            if number:  # the first round warms up
                found[name].append(clock() - start)
    return found


def ratio(one: list[float], other: list[float]) -> float:
    """The median of each round's ratio."""
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def whole_images(pairs: list[tuple[bytes, bytes]], rounds: int) -> dict[str, list[float]]:
    """Whole images to RGB in memory, by instruction set."""
    best = Isa[core.isa().upper()]
    sets = [best, *([Isa.AVX2] if best == Isa.AVX512 else []), Isa.PORTABLE]
    calls: dict[str, Call] = {}
    kept = []  # results, which jobs don't keep
    for isa in sets:
        context = core.Context(isa)
        for number, kind in enumerate(("JPEG", "packed")):
            jobs = []
            for pair in pairs:
                header = core.read_header(pair[number])
                assert not isinstance(header, core.Status)
                job = core.Job()
                job.read(pair[number])
                out = np.empty((*header.size, 3), np.uint8)
                job.write_array(out)
                kept.append(out)
                jobs.append(job)

            def run(context: core.Context = context, jobs: list[core.Job] = jobs) -> None:
                for job in jobs:
                    if status := context.run(job):
                        raise SystemExit(core.status_text(status))

            calls[f"{isa.name.lower()} {kind}"] = run
    return in_turns(rounds, calls)


def chains(library: Any, last: str) -> dict[str, list[Any]]:
    """Training and evaluation by a library's transforms, up to float32 or uint8."""
    end = [library.ToTensor(), library.Normalize(MEAN, STD)] if last == "float32" else [library.PILToTensor()]
    return {
        f"training, {last}": [library.RandomResizedCrop(224), library.RandomHorizontalFlip(), *end],
        f"evaluation, {last}": [library.Resize(256), library.CenterCrop(224), *end],
    }


def samples(folder: Path, rounds: int) -> dict[str, dict[str, list[float]]]:
    """``dataset[i]``: torchvision's and fastpipe's on the JPEGs, fastpipe's on packed images; compared first."""
    torchvision = import_torchvision()
    found = {}
    for last in ("float32", "uint8"):
        theirs, ours = chains(torchvision.transforms, last), chains(T, last)
        for name in ours:
            datasets = {
                "torchvision": torchvision.datasets.ImageFolder(
                    str(folder / "jpeg"), torchvision.transforms.Compose(theirs[name])
                ),
                "JPEG": fastpipe.ImageFolder(folder / "jpeg", T.Compose(ours[name])),
                "packed": fastpipe.ImageFolder(folder / "packed", T.Compose(ours[name])),
            }
            compare(datasets)

            def passed(dataset: Any) -> Call:
                def run() -> None:
                    torch.manual_seed(0)
                    for index in range(len(dataset)):
                        dataset[index]

                return run

            found[name] = in_turns(rounds, {kind: passed(dataset) for kind, dataset in datasets.items()})
    return found


def compare(datasets: dict[str, Any]) -> None:
    """Ends the run where samples aren't the same bytes."""
    made = []
    for dataset in datasets.values():
        torch.manual_seed(0)
        made.append([dataset[index] for index in range(len(dataset))])
    for one in made[1:]:
        if not all(torch.equal(a, c) and b == d for (a, b), (c, d) in zip(made[0], one, strict=True)):
            raise SystemExit("samples differ from torchvision's")


def two_threads(folder: Path, rounds: int) -> dict[str, list[float]]:
    """An epoch of training to float32, by the clock: torchvision in one process, fastpipe on two threads."""
    torchvision = import_torchvision()
    theirs, ours = chains(torchvision.transforms, "float32"), chains(T, "float32")
    name = "training, float32"
    reference = torchvision.datasets.ImageFolder(str(folder / "jpeg"), torchvision.transforms.Compose(theirs[name]))

    def by_torchvision() -> None:
        for index in range(len(reference)):
            reference[index]

    def by_threads(kind: str) -> Call:
        loader = fastpipe.DataLoader(fastpipe.ImageFolder(folder / kind, T.Compose(ours[name])), 32, threads=2)

        def run() -> None:
            for _ in loader:
                pass

        return run

    calls = {"torchvision": by_torchvision, "JPEG": by_threads("jpeg"), "packed": by_threads("packed")}
    return in_turns(rounds, calls, time.perf_counter)


def bytes_of_epoch(pairs: list[tuple[bytes, bytes]]) -> tuple[int, int]:
    """Bytes of an epoch of training: of the JPEGs, and of packed images (heads and the crops' rows)."""
    torch.manual_seed(0)
    jpegs = packed_bytes = 0
    for data, packed in pairs:
        (head,), (height, width) = struct.unpack_from("<I", packed, 36), struct.unpack_from("<II", packed, 12)
        box = T.RandomResizedCrop.get_params(torch.empty(3, height, width), [0.08, 1.0], [3 / 4, 4 / 3])
        start, end = rows_of(packed, Box(*box))
        jpegs += len(data)
        packed_bytes += max(head, 4096) + end - start
    return jpegs, packed_bytes


class SlowStore(fastpipe.ByteSource):
    """Packed images as a store like S3 has them: each request waits, then comes at a connection's rate.

    Attributes:
        requests, sent: how many there were, and their bytes.
    """

    def __init__(self, pairs: list[tuple[bytes, bytes]], ranges_from: int | None) -> None:
        self._files = {f"class/{number:06}{PACKED_EXTENSION}": packed for number, (_, packed) in enumerate(pairs)}
        self.ranges_from = ranges_from
        self.requests = self.sent = 0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return f"slow://{self.ranges_from}"

    def list(self) -> list[Entry]:
        return [Entry(key, len(data)) for key, data in self._files.items()]

    def read(self, key: str, offset: int = 0, length: int = -1) -> bytes:
        data = self._files[key][offset : None if length < 0 else offset + length]
        time.sleep(WAIT_S + len(data) / BYTES_A_SECOND)
        with self._lock:
            self.requests += 1
            self.sent += len(data)
        return data


def from_a_store(pairs: list[tuple[bytes, bytes]]) -> dict[str, tuple[int, int, float]]:
    """Requests, bytes, and seconds by the clock of an epoch of training from a store, by what is asked for."""
    found = {}
    for name, least in (("whole files", None), ("as it is", fastpipe.ByteSource.ranges_from), ("always by rows", 0)):
        store = SlowStore(pairs, least)
        dataset = fastpipe.ImageFolder(store, T.Compose(chains(T, "float32")["training, float32"]), seed=0)
        start = time.perf_counter()
        for first in range(0, len(pairs), 32):
            dataset.executor.run(range(first, min(first + 32, len(pairs))), 0)
        found[name] = store.requests, store.sent, time.perf_counter() - start
    return found


def packed_by_command(folder: Path) -> Call:
    """Packs the JPEGs' folder to a zip, each time to another one."""
    numbers = itertools.count()
    return lambda: fastpipe.pack(folder / "jpeg", folder / f"{next(numbers)}.zip", jobs=1, progress=False)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder, pairs = packed_folder(given.path, Path(name), given.count)
        report(folder, pairs, given)


def report(folder: Path, pairs: list[tuple[bytes, bytes]], given: argparse.Namespace) -> None:
    """Measures, prints a table of each, and writes the figures."""
    count, console = len(pairs), make_console()
    size = sum(len(packed) for _, packed in pairs) / sum(len(data) for data, _ in pairs)
    figures: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "isa": core.isa(), "size": size}
    console.print(f"size: {size:.4f} times the JPEGs (mark: at most {MARKS['size']:.2f})")
    own = [len(packed) - len(pack(data, discard_original_bytes=True)) for data, packed in pairs]
    figures["bytes that the original takes"] = statistics.mean(own)
    console.print(f"of these the original bytes take {statistics.mean(own):.0f} a photo, {max(own)} at most")

    whole = whole_images(pairs, given.rounds)
    table = Table("whole image", "JPEG µs", "packed µs", "JPEG / packed")
    for isa in dict.fromkeys(key.split()[0] for key in whole):
        one, other = whole[f"{isa} JPEG"], whole[f"{isa} packed"]
        microseconds = [f"{statistics.median(times) / count * 1e6:.0f}" for times in (one, other)]
        table.add_row(isa, *microseconds, f"{ratio(one, other):.2f}")
        figures[f"whole {isa}"] = ratio(one, other)
    console.print(table)
    if "avx2 packed" in whole and "avx512 packed" in whole:
        figures["AVX2 / AVX-512"] = ratio(whole["avx2 packed"], whole["avx512 packed"])
        console.print(f"AVX2 takes {figures['AVX2 / AVX-512']:.2f} times AVX-512's time (mark: 1.3)")

    table = Table(r"dataset\[i]", "torchvision µs", "JPEG ×", "packed ×")
    for name, times in samples(folder, given.rounds).items():
        ratios = {kind: ratio(times["torchvision"], times[kind]) for kind in ("JPEG", "packed")}
        table.add_row(
            name,
            f"{statistics.median(times['torchvision']) / count * 1e6:.0f}",
            *(f"{one:.2f}" for one in ratios.values()),
        )
        figures[name] = ratios
    threads = two_threads(folder, given.rounds)
    ratios = {kind: ratio(threads["torchvision"], threads[kind]) for kind in ("JPEG", "packed")}
    table.add_row(
        "two threads, training, float32",
        f"{statistics.median(threads['torchvision']) / count * 1e6:.0f}",
        *(f"{one:.2f}" for one in ratios.values()),
    )
    figures["two threads"] = ratios
    console.print(table)

    calls: dict[str, Call] = {
        "pack": lambda: [pack(data) for data, _ in pairs],
        "pack without the original bytes": lambda: [pack(data, discard_original_bytes=True) for data, _ in pairs],
        "compare coefficients": lambda: [same_coefficients(data, packed) for data, packed in pairs],
        "unpack": lambda: [unpack(packed) for _, packed in pairs],
    }
    calls["fastpipe.pack, listed and written"] = packed_by_command(folder)
    table = Table("a photo", "µs")
    for name, times in in_turns(given.rounds, calls).items():
        figures[name] = statistics.median(times) / count
        table.add_row(name, f"{figures[name] * 1e6:.0f}")
    console.print(table)
    both = figures["pack without the original bytes"] + figures["compare coefficients"]
    console.print(f"with the original bytes, packing takes {figures['pack'] / both:.2f} times what it takes without")
    rates = [1 / figures["pack"], 1 / figures["fastpipe.pack, listed and written"]]
    console.print(
        f"{rates[0]:.0f} photos a second are packed and proved on a core, {rates[1]:.0f} by the whole command "
        f"(mark: {MARKS['photos/s']})"
    )

    jpegs, packed_bytes = bytes_of_epoch(pairs)
    figures["epoch"] = packed_bytes / jpegs
    console.print(
        f"an epoch of training reads {packed_bytes:,} bytes, {packed_bytes / jpegs:.2f} times the JPEGs' {jpegs:,}"
    )
    table = Table("an epoch from a store", "requests", "MB", "× the JPEGs' bytes", "s")
    for name, (requests, sent, seconds) in from_a_store(pairs).items():
        figures[f"store, {name}"] = {"requests": requests, "bytes": sent, "seconds": seconds}
        table.add_row(name, f"{requests:,}", f"{sent / 1e6:.1f}", f"{sent / jpegs:.2f}", f"{seconds:.2f}")
    console.print(table)
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
