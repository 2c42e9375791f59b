"""Writes the files that the core's fuzzers begin with.

    python tests/fuzz/core_files.py FOLDER [--tails N]

Every file of the corpus that a fuzzer can chew, the small ones that `fuzz.mutate` mutates, and those of them that are
JPEGs packed. With ``--tails`` each
comes N times with the 16 bytes behind it that choose box, operations and sink, as core_fuzzer.c reads them.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import corpus
from fuzz.seeds import seeds

from fastpipe import core
from fastpipe.core.packed import pack
from fastpipe.errors import NotPackableError

MAX_BYTES = 20_000
TAIL = 16


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tails", type=int, default=0)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    files = {
        name: data
        for name, data in corpus.files().items()
        if name.startswith(("jpeg", "png")) and len(data) <= MAX_BYTES
    }
    files |= {
        f"small-{format}-{number}": data for format in ("jpeg", "png") for number, data in enumerate(seeds()[format])
    }
    files["webp"] = corpus.files()["webp"]
    if core.available():
        for name, data in list(files.items()):
            with contextlib.suppress(NotPackableError):
                files[f"packed-{name}"] = pack(data, discard_original_bytes=True)
                files[f"packed-exactly-{name}"] = pack(data)
    rng = random.Random(0)
    for name, data in files.items():
        if not given.tails:
            (given.folder / name).write_bytes(data)
        for number in range(given.tails):
            (given.folder / f"{name}-{number}").write_bytes(data + rng.randbytes(TAIL))


if __name__ == "__main__":
    main()
