"""Runs scripts modelled on public repositories, without fastpipe and by ``python -m fastpipe run``.

    python benchmarks/untouched.py PHOTOS
    python benchmarks/untouched.py PHOTOS --only own_train --rounds 9 --workers 2

PHOTOS is a folder with one folder for each class. The scripts are in benchmarks/untouched/; each runs a seeded epoch,
whose batches and final states of generators have to be equal both ways, and a second, timed epoch. The rows "process"
are of the whole process, by the clock. If the installed torchvision doesn't fit the installed torch,
``--first torchvision_here`` (with tests/ in PYTHONPATH) makes it importable.

With ``--packed``, PHOTOS are packed first, under their own names, and each script also runs by ``fastpipe run`` on the
packed copy, which has to give the same batches: the last column.

With ``--beside 4``, nothing is compared: each script runs by ``fastpipe run``, first alone and then beside four busy
loops, and the gain of the whole run that its report gives is printed for both, with their ratio, which should be
between 0.8 and 1.2:

    python benchmarks/untouched.py PHOTOS --only own_train --rounds 3 --beside 4

The exit status is 1 if an epoch differs, if a script fails, or if the reports differ by more than 20%.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import Benchmark, command_line

import fastpipe
from fastpipe.tools.timing import summarize

SCRIPTS = Path(__file__).parent / "untouched"
WAYS: dict[str, list[str]] = {"plain": [], "fastpipe": ["-m", "fastpipe", "run", "--quiet"]}
MARKS = {
    "own_train": 4.5,
    "own_evaluation": 5,
    "own_v2": 4,
    "image_folder": 5,
    "image_folder_v2": 5,
    "trivial_augment": 5,
    "dino_crops": 5,
    "two_views": 5,
    "timm_loader": 5,
    "hugging_face": 4.5,
    "webdataset_pil": 4,
    "coco_ssd": 3,
    "detr": 2.5,
    "detection_hflip": 2.5,
    "detection_multiscale": 2.5,
    "rtdetr": 2.5,
    "segmentation": 2.5,
    "text_to_image": 4.5,
    "open_clip_csv": 4.5,
    "decode_image": 3,
    "cv2_albumentations": 2.2,
    "cifar": 6,
    "numpy_samples": 1.2,
    "sixteen_bits": 1.8,
}
"""The expected speed-up of each script in one process; with workers of torch's own loader, 0.9 times it."""
PACKED_MARKS = {
    "own_train": 6,
    "own_evaluation": 7.2,
    "own_v2": 4.8,
    "image_folder": 8.5,
    "image_folder_v2": 8.5,
    "trivial_augment": 8.5,
    "two_views": 5.4,
    "timm_loader": 6.8,
    "hugging_face": 5.8,
    "webdataset_pil": 4.5,
    "coco_ssd": 5.6,
    "decode_image": 3.5,
    "cv2_albumentations": 2.5,
}
"""The same for packed photos, compared with the plain script on the JPEGs."""


def main() -> None:
    """Runs the scripts in turns, and prints a table."""
    parser = command_line(__doc__)
    parser.add_argument("--workers", type=int, default=0, help="workers of torch's own loader")
    parser.add_argument("--threads", type=int, default=1, help="torch.set_num_threads() of the script")
    parser.add_argument("--first", help="a module that each script imports first")
    parser.add_argument("--cpu", action="store_true", help="measure process time instead of wall time")
    parser.add_argument("--beside", type=int, metavar="LOOPS", help="compare reports alone and beside busy loops")
    parser.add_argument("--packed", action="store_true", help="also run on a packed copy of the photos")
    options = parser.parse_args()
    if options.beside:
        sys.exit(compare_reports(options))
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(compare_ways(options, folder))


def compare_ways(options: argparse.Namespace, folder: str) -> int:
    """Runs the scripts each way, and prints the table; packs photos into a folder if asked to."""
    bench = Benchmark(options, "scripts as they are")
    failed = []
    photos, marks = dict.fromkeys(WAYS, options.photos.resolve()), MARKS
    if options.packed:
        print(fastpipe.pack(options.photos, Path(folder, "photos"), keep_names=True, progress=False))
        photos, marks = {**photos, "packed": Path(folder, "photos")}, PACKED_MARKS
    for name in sorted(path.stem for path in SCRIPTS.glob("[!_]*.py")):
        if not bench.wants(name):
            continue
        rounds = [one_round(name, options, photos) for _ in range(options.rounds)]
        errors = [found["error"] for both in rounds for found in both.values() if "error" in found]
        if errors:
            failed.append(name)
            print(f"{name} failed: {errors[0]}", file=sys.stderr)
            continue
        same = len({(found["digest"], found["states"]) for both in rounds for found in both.values()}) == 1
        mark = marks[name] * (0.9 if options.workers else 1) if name in marks else None
        for row, clock in ((name, "cpu" if options.cpu else "seconds"), (f"process: {name}", "process")):
            timings = {
                way: summarize([both[way][clock] / both[way]["images"] * 1e6 for both in rounds]) for way in photos
            }
            bench.add(row, timings, same, mark if row == name else None)
    if bench.timings or not failed:
        bench.finish(workers=options.workers, threads=options.threads)
    return 1 if failed else 0


def compare_reports(options: argparse.Namespace) -> int:
    """Prints what reports say of a run alone and beside busy loops; returns the exit status."""
    status = 0
    for name in sorted(path.stem for path in SCRIPTS.glob("[!_]*.py")):
        if options.only.lower() not in name:
            continue
        alone, beside = [], []
        for _ in range(options.rounds):
            alone.append(reported_times(name, options))
            with busy(options.beside):
                beside.append(reported_times(name, options))
        one, other = statistics.median(alone), statistics.median(beside)
        status |= not 0.8 <= other / one <= 1.2
        print(f"{name}: {one:.2f} times as fast alone, {other:.2f} beside; ratio {other / one:.2f}")
    return status


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keeps processors busy within the block."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def reported_times(name: str, options: argparse.Namespace) -> float:
    """How many times as fast as before a script's images were made, as its report says of the whole run."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        found = run(name, ["-m", "fastpipe", "run", "--quiet", "--check", "20", "--report", str(report)], options)
        if "error" in found:
            sys.exit(f"{name} failed: {found['error']}")
        times: dict[str, float] = json.loads(report.read_text())["run"]
    return times["before_s"] / times["now_s"]


def one_round(name: str, options: argparse.Namespace, photos: dict[str, Path]) -> dict[str, dict[str, Any]]:
    """Runs a script each way in random order, on the way's photos; returns its output, with the process's seconds."""
    prefixes = {**WAYS, "packed": WAYS["fastpipe"]}
    return {way: run(name, prefixes[way], options, photos[way]) for way in random.sample([*photos], len(photos))}


def run(name: str, prefix: list[str], options: argparse.Namespace, photos: Path | None = None) -> dict[str, Any]:
    """Runs a script; returns its output, with ``process``: the seconds of the whole process; ``error`` if it failed."""
    command = [sys.executable, *prefix, str(SCRIPTS / f"{name}.py"), str(photos or options.photos.resolve())]
    threads = str(options.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "UNTOUCHED_FIRST": options.first or ""}
    begun = time.perf_counter()
    done = subprocess.run(
        [*command, "--workers", str(options.workers)], env=environment, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - begun
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]}
    found: dict[str, Any] = json.loads(lines[-1])
    return {**found, "process": seconds}


if __name__ == "__main__":
    main()
