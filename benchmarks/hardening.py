"""The cost of compiling the core with its protections (CMake's `FPC_HARDEN`): the same photos by two builds of it.

    python benchmarks/hardening.py PHOTOS [--processes 12] [--rounds 20] [--count 10] [--instructions] [--null]

PHOTOS holds JPEGs, in folders of any depth. Needs cmake, ninja and a compiler. Each build has a process of its own,
which decodes whole photos; the two take turns, and are started again and again, since where a process lies in memory
moves its speed by more than what is looked for. The figure is what the protected build takes beyond the other in
processor time: the median over the pairs of processes, with the 95% interval of resampling these pairs. ``--null`` has
the plain build on both sides, and shows how far off the figure may be. ``--instructions`` has valgrind count
instead; it has no AVX-512, so that the core takes AVX2.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from instructions import count, mark

from fastpipe import core
from fastpipe.core import library

SOURCES = Path(core.__file__).parent
RESAMPLED = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("--processes", type=int, default=12, help="pairs of processes")
    parser.add_argument("--rounds", type=int, default=20, help="of each pair")
    parser.add_argument("--null", action="store_true", help="compare the plain build with itself")
    parser.add_argument("--count", type=int, default=10, help="photos that a round decodes")
    parser.add_argument("--instructions", action="store_true", help="count instructions instead")
    parser.add_argument("--library", help=argparse.SUPPRESS)
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library:
        work(options.photos, options.count, options.library, options.counted)
        return
    with tempfile.TemporaryDirectory() as folder:
        commands = [
            [__file__, options.photos, "--count", str(options.count), "--library", build(folder, hardened)]
            for hardened in (not options.null, False)
        ]
        if options.instructions:
            hard, plain = (count(*command, "--counted")[1] for command in commands)
            print(f"{hard / plain - 1:+.2%} ({hard / 1e6:.1f} and {plain / 1e6:.1f} million instructions)")
            return
        times = np.array([np.median(in_turns(commands, options.rounds), 0) for _ in range(options.processes)])
    ratios = times[:, 0] / times[:, 1]
    rng = np.random.default_rng(0)
    found = [np.median(ratios[rng.integers(0, len(ratios), len(ratios))]) for _ in range(RESAMPLED)]
    low, high = np.percentile(found, (2.5, 97.5))
    print(
        f"{np.median(ratios) - 1:+.2%} (95% interval {low - 1:+.2%} … {high - 1:+.2%}), "
        f"{1e3 * np.median(times[:, 0]) / options.count:.2f} and {1e3 * np.median(times[:, 1]) / options.count:.2f} ms "
        "a photo"
    )


def build(folder: str, hardened: bool) -> str:
    """Compiles the core; returns the library's path."""
    where = f"{folder}/{'hardened' if hardened else 'plain'}"
    flags = ["-G", "Ninja", f"-DFPC_HARDEN={'ON' if hardened else 'OFF'}"]
    for command in (["cmake", "-S", str(SOURCES), "-B", where, *flags], ["cmake", "--build", where]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return f"{where}/{library.LIBRARY.name}"


def in_turns(commands: list[list[str]], rounds: int) -> np.ndarray:
    """Processor time of rounds by two processes, in seconds ``(rounds, 2)``."""
    times = np.zeros((rounds + 1, 2))
    processes = [
        subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for command in commands
    ]
    for taken in times:
        for side in random.sample((0, 1), 2):
            asked, told = processes[side].stdin, processes[side].stdout
            assert asked is not None
            assert told is not None
            asked.write("\n")
            asked.flush()
            taken[side] = float(told.readline())
    for process in processes:
        process.communicate()  # ends its input
    return times[1:]


def work(photos: str, number: int, path: str, counted: bool) -> None:
    """Decodes the photos for each line of its input and prints the processor time; or once between marks."""
    library._loaded = library.load("", Path(path))
    files = sorted(one for one in Path(photos).rglob("*") if one.suffix.lower() in (".jpg", ".jpeg"))
    random.Random(0).shuffle(files)
    images = []
    for file in files:
        data = file.read_bytes()
        header = core.read_header(data)
        if not isinstance(header, core.Status) and header.color_space == "YCbCr":
            images.append((data, np.empty((*header.size, 3), np.uint8)))
        if len(images) == number:
            break

    def decode() -> float:
        began = time.process_time()
        for data, out in images:
            job = core.Job()
            job.read(data)
            job.write_array(out)
            if status := core.run(job):
                raise ValueError(core.status_text(status))
        return time.process_time() - began

    decode()
    if counted:
        mark()
        decode()
        mark()
        return
    for _ in sys.stdin:
        print(decode(), flush=True)


if __name__ == "__main__":
    main()
