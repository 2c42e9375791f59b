"""Compares packed images with the JPEGs that they were made of, and with torchvision on these JPEGs.

    python benchmarks/packed.py PHOTOS [--count 250] [--rounds 5] [--only WORD] [--json FILE]

PHOTOS is a folder as ImageFolder takes it, of photos that the core wasn't tuned on. They are packed into a temporary
folder. Each is unpacked and compared with its JPEG, and every timed sample with torchvision's, byte by byte. Then the
following is timed in interleaved rounds, in processor time if one thread works:

- a whole image in each instruction set, JPEG and packed;
- `dataset[i]`: training (RandomResizedCrop, flip) and evaluation (Resize, CenterCrop) to float32 and to uint8;
- training to float32 by `fastpipe.DataLoader` on two threads, in time by the clock;
- packing with the data for the original bytes (including the verification) and without it, unpacking, and the
  comparison of coefficients, for each photo; and `fastpipe.pack` of the whole folder to a zip.

A figure is the median over the rounds, a ratio the median of the rounds' ratios. The bytes read in an epoch of training
(heads, and the crops' rows) are compared with all bytes of the JPEGs: from this machine's disk, and from a simulated
store with 25 ms for a request and 85 MB a second for a connection. From the store, an epoch is read by whole files, by
the default of `fastpipe.ByteSource.ranges_from`, and always by rows.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import struct
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import Benchmark, Pass, calls, command_line, evaluation, samples, torchvision, training

import fastpipe
from fastpipe import core
from fastpipe import transforms as T
from fastpipe.core.packed import PACKED_EXTENSION, pack, rows_of, same_coefficients, unpack
from fastpipe.core.structs import Isa
from fastpipe.errors import NotPackableError
from fastpipe.reporting.tables import ReportTable
from fastpipe.sources import Entry
from fastpipe.types import Box

WAIT_S, BYTES_A_SECOND = 0.025, 85e6  # latency and rate of a request to S3 from the same region


def packed_folder(source: Path, target: Path, count: int) -> tuple[Path, list[tuple[bytes, bytes]]]:
    """Writes the JPEGs that can be packed, and their packed images, to two folders; also returns the bytes of both."""
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


def whole_images(bench: Benchmark, pairs: list[tuple[bytes, bytes]]) -> None:
    """Times the decoding of whole images to RGB in memory, for each instruction set."""
    best = Isa[core.isa().upper()]
    sets = [best, *([Isa.AVX2] if best == Isa.AVX512 else []), Isa.PORTABLE]
    marks = {Isa.PORTABLE: 1.0}
    for isa in sets:
        context = core.Context(isa)

        def decode(data: bytes, context: core.Context = context) -> np.ndarray[Any, Any]:
            header = core.read_header(data)
            assert not isinstance(header, core.Status)
            job, out = core.Job(), np.empty((*header.size, 3), np.uint8)
            job.read(data)
            job.write_array(out)
            if status := context.run(job):
                raise SystemExit(core.status_text(status))
            return out

        contenders = {
            kind: calls(decode, [pair[number] for pair in pairs]) for number, kind in enumerate(("JPEG", "packed"))
        }
        bench.row(f"whole image: {isa.name.lower()}", contenders, len(pairs), mark=marks.get(isa))


def chains(library: Any) -> dict[str, Any]:
    """The training and evaluation transforms of a library, to float32 and to uint8."""
    train = [library.RandomResizedCrop(224), library.RandomHorizontalFlip(), library.PILToTensor()]
    test = [library.Resize(256), library.CenterCrop(224), library.PILToTensor()]
    return {
        "training, float32": training(library),
        "evaluation, float32": evaluation(library),
        "training, uint8": library.Compose(train),
        "evaluation, uint8": library.Compose(test),
    }


def in_training(bench: Benchmark, folder: Path) -> None:
    """Times ``dataset[i]`` and loaders: torchvision and fastpipe on the JPEGs, fastpipe on packed images."""
    theirs = chains(torchvision.transforms)
    for name, ours in chains(T).items():
        reference = torchvision.datasets.ImageFolder(str(folder / "jpeg"), theirs[name])
        jpeg, packed = (fastpipe.ImageFolder(folder / kind, ours) for kind in ("jpeg", "packed"))
        count = len(jpeg)
        passes = {
            who: samples(one, count) for who, one in (("torchvision", reference), ("JPEG", jpeg), ("packed", packed))
        }
        bench.row(f"dataset[i]: {name}", passes, count, mark=8.0)
        if name == "training, float32":
            by_jpeg, by_packed = (fastpipe.DataLoader(one, 32, threads=2) for one in (jpeg, packed))
            contenders: dict[str, Pass] = {
                "torchvision": passes["torchvision"],
                "JPEG": lambda loader=by_jpeg: loader,
                "packed": lambda loader=by_packed: loader,
            }
            bench.row("loader: two threads", contenders, count, equal=(), mark=11.0, clock=time.perf_counter)


def packing(bench: Benchmark, pairs: list[tuple[bytes, bytes]], folder: Path) -> None:
    """Times the packing of a photo with and without its own bytes, unpacking, comparing; and `fastpipe.pack`."""
    numbers = itertools.count()

    def by_command() -> list[None]:
        fastpipe.pack(folder / "jpeg", folder / f"{next(numbers)}.zip", jobs=1, progress=False)
        return []

    passes: dict[str, Pass] = {
        "pack": calls(lambda pair: pack(pair[0]), pairs),
        "pack without the original bytes": calls(lambda pair: pack(pair[0], discard_original_bytes=True), pairs),
        "compare coefficients": calls(lambda pair: same_coefficients(*pair), pairs),
        "unpack": calls(lambda pair: unpack(pair[1]), pairs),
        "fastpipe.pack, listed and written": by_command,
    }
    for name, one in passes.items():
        bench.row(f"packing: {name}", {"fastpipe": one}, len(pairs), equal=())


def bytes_of_epoch(pairs: list[tuple[bytes, bytes]]) -> tuple[int, int]:
    """The bytes read in an epoch of training: of JPEGs, and of packed images (heads and the crops' rows)."""
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
    """Simulates a store like S3: each request waits, and its bytes then come at a connection's rate.

    Attributes:
        requests, sent: the number of requests, and of bytes sent.
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
    """Requests, bytes, and seconds by the clock of an epoch of training from a store, for each way to read."""
    found = {}
    for name, least in (("whole files", None), ("as it is", fastpipe.ByteSource.ranges_from), ("always by rows", 0)):
        store = SlowStore(pairs, least)
        dataset = fastpipe.ImageFolder(store, training(T), seed=0)
        start = time.perf_counter()
        for first in range(0, len(pairs), 32):
            dataset.executor.run(range(first, min(first + 32, len(pairs))), 0)
        found[name] = store.requests, store.sent, time.perf_counter() - start
    return found


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("--count", type=int, default=250, help="photos (%(default)s)")
    bench = Benchmark(parser.parse_args(), f"packed images ({core.isa()})", "photo")
    with tempfile.TemporaryDirectory() as name:
        folder, pairs = packed_folder(bench.options.photos, Path(name), bench.options.count)
        figures = about_bytes(pairs) if bench.wants("bytes") else {}
        whole_images(bench, pairs)
        in_training(bench, folder)
        packing(bench, pairs, folder)
    bench.finish(**figures)


def about_bytes(pairs: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    """Prints and returns the bytes of packed images, and the bytes that an epoch reads."""
    size = sum(len(packed) for _, packed in pairs) / sum(len(data) for data, _ in pairs)
    print(f"size: {size:.4f} times the JPEGs (mark: at most 1.20)")
    own = [len(packed) - len(pack(data, discard_original_bytes=True)) for data, packed in pairs]
    print(f"of these the original bytes take {statistics.mean(own):.0f} a photo, {max(own)} at most")
    jpegs, read = bytes_of_epoch(pairs)
    print(f"an epoch of training reads {read:,} bytes, {read / jpegs:.2f} times the JPEGs' {jpegs:,}")
    table = ReportTable(["an epoch from a store", "requests", "MB", "× the JPEGs' bytes", "s"])
    stores = from_a_store(pairs)
    for name, (requests, sent, seconds) in stores.items():
        table.add_row(name, requests, f"{sent / 1e6:.1f}", f"{sent / jpegs:.2f}", f"{seconds:.2f}")
    print(table)
    return {"size": size, "original_bytes": statistics.mean(own), "epoch": read / jpegs, "stores": stores}


if __name__ == "__main__":
    main()
