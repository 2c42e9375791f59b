"""Runs scripts modelled on public repositories, without fastpipe and by ``python -m fastpipe run``.

    python benchmarks/untouched.py PHOTOS
    python benchmarks/untouched.py PHOTOS --only own_train --rounds 9 --workers 2

PHOTOS is a folder with one folder for each class. The scripts are in benchmarks/untouched/; each runs a seeded epoch,
whose batches and final states of generators have to be equal both ways, and a second, timed epoch. The rows "process"
are of the whole process, by the clock. If the installed torchvision doesn't fit the installed torch,
``--first torchvision_here`` (with tests/ in PYTHONPATH) makes it importable.

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
}
"""The expected speed-up of each script in one process; with workers of torch's own loader, 0.9 times it."""


def main() -> None:
    """Runs the scripts in turns, and prints a table."""
    parser = command_line(__doc__)
    parser.add_argument("--workers", type=int, default=0, help="workers of torch's own loader")
    parser.add_argument("--threads", type=int, default=1, help="torch.set_num_threads() of the script")
    parser.add_argument("--first", help="a module that each script imports first")
    parser.add_argument("--cpu", action="store_true", help="measure process time instead of wall time")
    parser.add_argument("--beside", type=int, metavar="LOOPS", help="compare reports alone and beside busy loops")
    options = parser.parse_args()
    if options.beside:
        sys.exit(compare_reports(options))
    bench = Benchmark(options, "scripts as they are")
    failed = []
    for name in sorted(path.stem for path in SCRIPTS.glob("[!_]*.py")):
        if not bench.wants(name):
            continue
        rounds = [one_round(name, options) for _ in range(options.rounds)]
        errors = [found["error"] for both in rounds for found in both.values() if "error" in found]
        if errors:
            failed.append(name)
            print(f"{name} failed: {errors[0]}", file=sys.stderr)
            continue
        same = len({(found["digest"], found["states"]) for both in rounds for found in both.values()}) == 1
        mark = MARKS[name] * (0.9 if options.workers else 1) if name in MARKS else None
        for row, clock in ((name, "cpu" if options.cpu else "seconds"), (f"process: {name}", "process")):
            timings = {
                way: summarize([both[way][clock] / both[way]["images"] * 1e6 for both in rounds]) for way in WAYS
            }
            bench.add(row, timings, same, mark if row == name else None)
    if bench.timings or not failed:
        bench.finish(workers=options.workers, threads=options.threads)
    sys.exit(1 if failed else 0)


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


def one_round(name: str, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Runs a script both ways in random order; returns its output, with the seconds of the whole process."""
    return {way: run(name, WAYS[way], options) for way in random.sample([*WAYS], len(WAYS))}


def run(name: str, prefix: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """Runs a script; returns its output, with ``process``: the seconds of the whole process; ``error`` if it failed."""
    command = [sys.executable, *prefix, str(SCRIPTS / f"{name}.py"), str(options.photos.resolve())]
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
