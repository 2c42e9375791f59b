"""Mutated JPEGs, PNGs and packed images through the core: for each it gives Pillow's pixels, or refuses.

    python tests/fuzz/core.py --count 1000000 --processes 2
    python tests/fuzz/core.py --show fuzz-core                # what all runs there came to
    python tests/fuzz/core.py --file fuzz-core/1-1234.jpeg    # one input again
    python tests/fuzz/core.py --seconds 60

Each input is one of `fuzz.mutate`'s (of these formats alone), or, every other time, one whose scans or rows alone are
damaged. The whole file and a box go through the core in the best and in the portable instruction set; what was decoded
is compared with Pillow's pixels, and the header with Pillow's. Of a PNG whose checksums are right a box is
decoded though there may be damage below it: it is compared with Pillow's pixels of the rows above. A JPEG that is
decoded is packed, if it can be, and a packed image is unpacked, if it can be: the two have the same header,
coefficients and pixels, which are Pillow's of the JPEG. Processes share the numbers; one that dies is a finding, too,
with the input that it had in hand, and the others go on. The exit status is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import hashlib
import io
import json
import mmap
import multiprocessing
import os
import random
import struct
import sys
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

import corpus
import numpy as np
import packed_reference
from fuzz.check import described_of
from fuzz.mutate import mutation
from fuzz.png import rows_above
from fuzz.seeds import seeds
from PIL import Image

from fastpipe import core
from fastpipe.core.packed import is_packed, pack, same_coefficients, unpack
from fastpipe.core.structs import Isa
from fastpipe.errors import DecodeError, NotPackableError
from fastpipe.types import Header

MAX_PIXELS = 1 << 20
FORMATS = ("jpeg", "png", "packed")
PNG = b"\x89PNG"
CELLS = ("number", "inputs", "decoded", "refused", "found", "busy since")
"""The fields that each process writes into the shared memory as it goes."""

DECODED, REFUSED, FOUND, BUSY = (CELLS.index(name) for name in ("decoded", "refused", "found", "busy since"))

HANG_SECONDS = 60


def damaged(seed: int, number: int, formats: tuple[str, ...] = FORMATS) -> bytes:
    """The input of that number: bytes, the same on every machine."""
    encoded = tuple(name for name in formats if name != "packed")
    if number % 2 and encoded:
        return mutation(seed, number, encoded)[1]
    rng = random.Random(f"scans {seed}/{number}")
    chosen = rng.choice(formats)
    if chosen == "png":
        return _damaged_rows(rng)
    if chosen == "packed":
        return _damaged_packed(rng)
    data = bytearray(rng.choice(_pictures()))
    start = data.index(b"\xff\xda")
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        if len(data) <= start:
            break
        at = rng.randrange(start, len(data))
        kind = rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del data[at : at + rng.choice((1, 1, 2, rng.randrange(1, 60)))]
        elif kind == 3:
            data[at:at] = rng.randbytes(rng.choice((1, 2, rng.randrange(1, 60))))
        elif kind == 4:
            data[at:at] = bytes((0xFF, rng.choice((0, 0xD0 + rng.randrange(8), 0xD9, 0xC4, 0xDA, rng.randrange(256)))))
        else:
            length = rng.randrange(1, 60)
            data[at : at + length] = data[start + 12 : start + 12 + length]
    return bytes(data)


def _damaged_packed(rng: random.Random) -> bytes:
    """A packed image that is damaged, half of them in head or metadata, with right checksums."""
    data = bytearray(rng.choice(_packed_pictures()))
    size, rows, segments = *struct.unpack_from("<IQ", data, 36), struct.unpack_from("<Q", data, 48)[0]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        part = rng.randrange(6)
        if part < 2:
            at = rng.randrange(8, 36)  # what it says of the image
        elif part < 3:
            at = rng.randrange(8, size)
        elif part < 4 and segments:
            at = rng.randrange(size + rows, size + rows + segments)
        else:
            at = rng.randrange(size, len(data))
        data[at] = rng.choice((data[at] ^ 1 << rng.randrange(8), rng.randrange(256), rng.randrange(4), *b"\0\1RGB"))
    return packed_reference.mended(bytes(data)) if rng.random() < 0.95 else bytes(data)


_packed: list[bytes] = []


def _packed_pictures() -> list[bytes]:
    if not _packed:
        small = corpus.jpeg(20, 27, "444", seed=3)
        rgb = corpus.save(corpus.photo(20, 27, 4), "JPEG", keep_rgb=True)
        exif = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0"
        adobe = [b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" + bytes((transform,)) for transform in range(3)]
        heads = [small[2:], small[20:], rgb[2:], rgb[18:]]
        segments = [b"", exif, *adobe]
        for data in (*_pictures(), *(b"\xff\xd8" + segment + head for segment in segments for head in heads)):
            with contextlib.suppress(NotPackableError):
                _packed.append(pack(data))
    return _packed


_made: list[bytes] = []


def _pictures() -> list[bytes]:
    """The seeds of all mutations, and larger ones, with boxes that leave much out."""
    if not _made:
        _made.extend(seeds()["jpeg"])
        _made.extend(corpus.jpeg(60, 90, kind, seed=1, quality=95) for kind in (*corpus.SUBSAMPLINGS, "gray"))
        save = functools.partial(corpus.save, corpus.photo(60, 90, 2), "JPEG")
        _made.extend([save(progressive=True), save(progressive=True, subsampling=0), save(restart_marker_blocks=5)])
    return _made


def _damaged_rows(rng: random.Random) -> bytes:
    """A PNG whose compressed data, or what it holds, is damaged, with right checksums."""
    kind, depth = rng.choice(((0, 1), (0, 2), (0, 4), (0, 8), (2, 8), (3, 1), (3, 2), (3, 4), (3, 8), (4, 8), (6, 8)))
    height, width = rng.randrange(1, 40), rng.randrange(1, 60)
    data = png(rng, kind, depth, height, width)
    start = data.index(b"IDAT") + 4
    end = start + int.from_bytes(data[start - 8 : start - 4], "big")
    stream = bytearray(data[start:end])
    if rng.random() < 0.4:
        stream = bytearray(zlib.decompress(stream))
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        if not stream:
            break
        at, length = rng.randrange(len(stream)), rng.randrange(1, 40)
        kind = rng.randrange(5)
        if kind == 0:
            stream[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            stream[at] = rng.randrange(256)
        elif kind == 2:
            del stream[at : at + length]
        elif kind == 3:
            stream[at:at] = rng.randbytes(length)
        else:
            stream[at : at + length] = stream[:length]
    if len(stream) < 2 or stream[0] != 0x78:
        stream = bytearray(zlib.compress(bytes(stream), rng.choice((0, 1, 6, 9))))
    cut = rng.randrange(len(stream) + 1)
    pieces = [stream] if rng.random() < 0.6 else [stream[:cut], stream[cut:]]
    return data[: start - 8] + b"".join(corpus.chunk(b"IDAT", bytes(one)) for one in pieces) + data[end + 4 :]


def png(rng: random.Random, kind: int, depth: int, height: int, width: int) -> bytes:
    """A PNG of random rows with random filters; more colors than indices."""
    bits = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    length = (width * bits + 7) // 8
    rows = []
    for _ in range(height):
        body = rng.randbytes(length) if rng.random() < 0.5 else bytes((rng.randrange(256),)) * length
        rows.append(bytes((rng.randrange(5),)) + body)
    head = corpus.chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
    palette = (
        corpus.chunk(b"PLTE", rng.randbytes(3 * rng.choice((1 << depth, rng.randint(1, 256))))) if kind == 3 else b""
    )
    body = corpus.chunk(b"IDAT", zlib.compress(b"".join(rows), rng.choice((1, 6))))
    return b"\x89PNG\r\n\x1a\n" + head + palette + body + corpus.chunk(b"IEND", b"")


class Checker:
    """Compares the core with Pillow, one input after the other."""

    def __init__(self) -> None:
        best = Isa[core.isa().upper()]
        self.contexts = {isa: core.Context(isa) for isa in sorted({best, Isa.PORTABLE}, reverse=True)}
        self.job = core.Job()

    def check(self, data: bytes, number: int) -> tuple[list[str], int]:
        """The fault, if any, and how the input ended: the index in `CELLS`."""
        found: list[str] = []
        header = core.read_header(data)
        if not isinstance(header, Header):
            return found, REFUSED
        if is_packed(data):
            return self._check_packed(data, header)
        described = described_of(data)
        if described is not None and (header.height, header.width, header.orientation) != described[1:]:
            found.append(f"the header is {header}, Pillow's {described}")
        height, width = header.size
        if height * width > MAX_PIXELS:
            return found, REFUSED
        expected: np.ndarray | None = None
        asked = False
        decoded = False
        rng = random.Random(number)
        top, left = rng.randrange(height), rng.randrange(width)
        box = (top, left, rng.randint(1, height - top), rng.randint(1, width - left))
        for part in ((0, 0, height, width), box):
            statuses, images = [], []
            for context in self.contexts.values():
                out = np.full((part[2], part[3], 3), 0xA5, np.uint8)
                job = self.job
                job.read(data)
                job.box(*part)
                job.write_array(out)
                statuses.append(context.run(job))
                images.append(out)
            name = f"the box {part} of {height}×{width}"
            if len(set(statuses)) > 1:
                found.append(f"{name} ends as {[core.status_text(one) for one in statuses]}")
            if statuses[0] != core.Status.OK:
                continue
            decoded = True
            if not asked:
                expected, asked = _pillow(data), True
            if expected is None and part[0] + part[2] < height and header.format == "PNG":
                above = rows_above(data, header, part[0] + part[2])
                if above is None:
                    continue
                expected, asked = _pillow(above), False
            if expected is None:
                found.append(f"{name} is decoded though Pillow refuses the file")
                break
            wanted = expected[part[0] : part[0] + part[2], part[1] : part[1] + part[3]]
            for isa, image in zip(self.contexts, images, strict=True):
                if not asked:  # rows above damage
                    image = image[: wanted.shape[0]]
                if not np.array_equal(image, wanted):
                    apart = int(np.abs(image.astype(int) - wanted).max()) if image.shape == wanted.shape else -1
                    found.append(f"{name} is up to {apart} from Pillow ({isa.name})")
        if decoded and header.format == "JPEG" and expected is not None:
            with contextlib.suppress(NotPackableError):
                packed = pack(data, discard_original_bytes=True)
                found += self._differences(data, header, packed, expected)
                packed = pack(data)
                found += [] if unpack(packed) == data else ["packed, it doesn't come back"]
                found += self._differences(data, header, packed, expected)
        return found, DECODED if decoded else REFUSED

    def _check_packed(self, packed: bytes, header: Header) -> tuple[list[str], int]:
        """The fault of a packed image that has a header, if any, and how it ended."""
        height, width = header.size
        if height * width > MAX_PIXELS:
            return [], REFUSED
        found = []
        whole = [self._decoded(context, packed, (0, 0, height, width)) for context in self.contexts.values()]
        pixels = whole[0]
        if any((one is None) != (pixels is None) for one in whole):
            found.append("instruction sets end differently")
        outcome = REFUSED if pixels is None else DECODED
        own = int.from_bytes(packed[68:72], "little")
        if 0 < own <= len(packed) - 72:
            # Nearly all damage is seen by the SHA-256 of the JPEG's own bytes: without these, all else is compared.
            found += self._check_packed(packed_reference.with_original(packed, b""), header)[0]
        try:
            jpeg = unpack(packed)
        except DecodeError as error:
            # What stands behind the image has a checksum that only `unpack` looks at.
            if pixels is not None and packed_reference.mended(packed) == packed and not own:
                found.append(f"it is decoded, and can't be unpacked: {error}")
            return found, outcome
        expected = _pillow(jpeg)
        if expected is None:
            return [*found, "what it is unpacked to is refused by Pillow"], REFUSED
        found += self._differences(jpeg, core.read_header(jpeg), packed, expected)
        return found, outcome

    def _differences(self, jpeg: bytes, header: Header | core.Status, packed: bytes, expected: np.ndarray) -> list[str]:
        """The differences between a JPEG, whose expected pixels Pillow gives, and its packed image."""
        found = [] if same_coefficients(jpeg, packed) else ["packed, it has other coefficients"]
        other = core.read_header(packed)
        names = ("size", "color_space", "subsampling", "orientation")
        if any(getattr(header, name, None) != getattr(other, name, None) for name in names):
            found.append(f"packed, its header is {other}, not {header}")
        for isa, context in self.contexts.items():
            pixels, plain = (self._decoded(context, data, (0, 0, *expected.shape[:2])) for data in (packed, jpeg))
            if (pixels is None) != (plain is None):
                found.append(f"packed and not packed end differently ({isa.name})")
            elif pixels is not None and not np.array_equal(pixels, expected):
                found.append(f"packed, its pixels aren't Pillow's ({isa.name})")
        return found

    def _decoded(self, context: core.Context, data: bytes, box: tuple[int, int, int, int]) -> np.ndarray | None:
        out = np.full((box[2], box[3], 3), 0xA5, np.uint8)
        self.job.read(data)
        self.job.box(*box)
        self.job.write_array(out)
        return out if context.run(self.job) == core.Status.OK else None


def _pillow(data: bytes) -> np.ndarray | None:
    try:
        with Image.open(io.BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"))
    except Exception:  # its plugins raise nearly anything on a damaged file
        return None


def _work(given: argparse.Namespace, process: int, first: int, cells: Any, folder: Path) -> None:
    """One process: every ``processes``-th number from ``first`` on."""
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    warnings.simplefilter("ignore")
    with open(folder / f"traceback-{process}", "w") as trace:
        faulthandler.enable(trace)
        checker = Checker()
        base = process * len(CELLS)
        ends = time.monotonic() + given.seconds if given.seconds else float("inf")
        number = first
        while number < given.start + given.count and time.monotonic() < ends:
            cells[base], cells[base + BUSY] = number, int(time.monotonic())
            data = damaged(given.seed, number, given.formats)
            found, outcome = checker.check(data, number)
            cells[base + 1] += 1
            cells[base + outcome] += 1
            if found:
                cells[base + FOUND] += 1
                _write(given, number, data, found)
            number += given.processes
        cells[base] = -1


def _write(given: argparse.Namespace, number: int, data: bytes, found: list[str]) -> None:
    ending = "fpj" if is_packed(data) else "png" if data.startswith(PNG) else "jpeg"
    path = given.out / f"{given.seed}-{number}.{ending}"
    path.write_bytes(data)
    path.with_suffix(".txt").write_text("\n".join(found) + "\n", encoding="utf-8")
    print(f"input {number}: {found[0]}", flush=True)


def run(given: argparse.Namespace) -> int:
    """Watch the processes until all inputs are through; 1 where anything was found."""
    given.out.mkdir(parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
    shared = mmap.mmap(-1, 8 * len(CELLS) * given.processes)
    cells = memoryview(shared).cast("q")
    began = shown = time.monotonic()
    running: dict[int, Any] = {}

    def start(process: int, first: int) -> None:
        cells[process * len(CELLS) + BUSY] = int(time.monotonic())
        running[process] = spawn.Process(target=_work, args=(given, process, first, cells, given.out))
        running[process].start()

    for process in range(given.processes):
        start(process, given.start + process)
    while running:
        time.sleep(0.2)
        for process, one in list(running.items()):
            base = process * len(CELLS)
            number = cells[base]
            hangs = time.monotonic() - cells[base + BUSY] > HANG_SECONDS
            if one.is_alive() and not hangs:
                continue
            if one.is_alive():
                one.kill()
            one.join()
            del running[process]
            if one.exitcode or hangs:
                cells[base + FOUND] += 1
                what = "it hangs" if hangs else f"it brings the process down ({one.exitcode})"
                trace = (given.out / f"traceback-{process}").read_text()[-2000:]
                _write(given, number, damaged(given.seed, number, given.formats), [what, trace])
                start(process, number + given.processes)
        if time.monotonic() - shown > 20:
            shown = time.monotonic()
            done = sum(cells[k * len(CELLS) + 1] for k in range(given.processes))
            print(f"… {done} inputs, {done / (shown - began):.0f} a second", flush=True)
    totals = {name: sum(cells[k * len(CELLS) + at] for k in range(given.processes)) for at, name in enumerate(CELLS)}
    for name in ("number", "busy since"):
        totals.pop(name)
    seconds = time.monotonic() - began
    report = {
        "seed": given.seed,
        "start": given.start,
        "formats": given.formats,
        "code": code_digest(),
        "isas": [core.isa(), "portable"],
        "seconds": round(seconds),
        **totals,
    }
    (given.out / f"run-{given.seed}-{given.start}-{int(time.time())}.json").write_text(json.dumps(report, indent=1))
    print(json.dumps(report, indent=1))
    print(f"{totals['inputs'] / seconds:.0f} inputs a second")
    return 1 if totals["found"] else 0


def code_digest() -> str:
    """Tells two states of the core's sources apart."""
    digest = hashlib.sha256()
    for path in sorted((_TESTS.parent / "fastpipe/core/src").rglob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def show(folder: Path) -> int:
    """Print what the runs in a folder came to, of the code as it is and of all."""
    reports = [json.loads(path.read_text()) for path in sorted(folder.glob("run-*.json"))]
    here = code_digest()
    for name, chosen in (("this code", [one for one in reports if one["code"] == here]), ("all", reports)):
        inputs, found = sum(one["inputs"] for one in chosen), sum(one["found"] for one in chosen)
        decoded = sum(one["decoded"] for one in chosen)
        print(f"{name}: {inputs:,} inputs in {len(chosen)} runs, {decoded:,} decoded, {found} findings")
    return 0


def main() -> int:
    """The command line; 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1 << 40, help="inputs; all that --seconds allow without it")
    parser.add_argument("--seconds", type=float, default=0, help="stop after that time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS, help="of the inputs; all without it")
    parser.add_argument("--start", type=int, default=0, help="the first input's number (%(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="(%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("fuzz-core"), help="folder for findings and figures")
    parser.add_argument("--file", type=Path, help="check this one file, in this process")
    parser.add_argument("--show", type=Path, help="print what the runs in this folder came to")
    given = parser.parse_args()
    given.formats = tuple(given.formats)
    if given.show is not None:
        return show(given.show)
    if not core.available():
        parser.error(core.why_not())
    if given.file is not None:
        _, _, number = given.file.stem.rpartition("-")
        numbers = [int(number)] if number.isdigit() else []
        Image.MAX_IMAGE_PIXELS = MAX_PIXELS
        texts = [text for one in (*numbers, *range(16)) for text in Checker().check(given.file.read_bytes(), one)[0]]
        print("\n".join(dict.fromkeys(texts)) or f"{given.file}: the core agrees with Pillow, or refuses")
        return 1 if texts else 0
    if given.count == 1 << 40 and not given.seconds:
        parser.error("say how much: --count or --seconds")
    return run(given)


if __name__ == "__main__":
    sys.exit(main())
