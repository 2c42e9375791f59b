"""Runs scripts modelled on public repositories, without fastpipe and by ``python -m fastpipe run``.

    python benchmarks/untouched.py PHOTOS
    python benchmarks/untouched.py PHOTOS --only own_train --rounds 9 --workers 2

PHOTOS is a folder with one folder for each class. The scripts are in benchmarks/untouched/; each runs a seeded epoch,
whose batches and final states of generators have to be equal both ways, and a second, timed epoch. Ratios are medians
of paired rounds: of the timed epoch, and of the whole process. If the installed torchvision doesn't fit the installed
torch, ``--first torchvision_here`` (with tests/ in PYTHONPATH) makes it importable.
The exit status is 1 if an epoch differs, or if a script fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fastpipe.reporting.tables import ReportTable

SCRIPTS = Path(__file__).parent / "untouched"
WAYS: dict[str, list[str]] = {"plain": [], "fastpipe run": ["-m", "fastpipe", "run", "--quiet"]}
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, help="a folder with one folder for each class")
    parser.add_argument("--only", action="append", help="the name of a script; may be given several times")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0, help="workers of torch's own loader")
    parser.add_argument("--threads", type=int, default=1, help="torch.set_num_threads() of the script")
    parser.add_argument("--first", help="a module that each script imports first")
    parser.add_argument("--cpu", action="store_true", help="measure process time instead of wall time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    options = parser.parse_args()
    names = sorted(path.stem for path in SCRIPTS.glob("*.py") if not path.stem.startswith("_"))
    unknown = set(options.only or ()) - set(names)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    columns = ["images", "plain", "ours", "times", "mark", "process", "same"]
    table = ReportTable(["script", *columns], columns)
    differ, figures = [], {}
    for name in options.only or names:
        rounds = [one_round(name, options) for _ in range(options.rounds)]
        failed = [found["error"] for both in rounds for found in both.values() if "error" in found]
        if failed:
            differ.append(name)
            print(f"{name} failed: {failed[0]}", file=sys.stderr)
            continue
        same = len({(found["digest"], found["states"]) for both in rounds for found in both.values()}) == 1
        if not same:
            differ.append(name)
        clock = "cpu" if options.cpu else "seconds"
        plain, ours = WAYS
        taken = {way: [both[way][clock] / both[way]["images"] * 1e6 for both in rounds] for way in WAYS}
        figures[name] = {"rounds_us": {plain: taken[plain], "fastpipe": taken[ours]}}
        now = [statistics.median(taken[way]) / 1e3 for way in WAYS]
        times, process = (
            statistics.median(both[plain][key] / both[ours][key] for both in rounds) for key in (clock, "process")
        )
        mark = MARKS.get(name, 0) * (0.9 if options.workers else 1)
        images = rounds[0][plain]["images"]
        shown = [f"{now[0]:.2f} ms", f"{now[1]:.2f} ms", f"{times:.2f}", f"{mark:.1f}" if mark else ""]
        table.add_row(name, images, *shown, f"{process:.2f}", "yes" if same else "NO")
    print(table)
    if options.json:
        about = {"workers": options.workers, "threads": options.threads}
        options.json.write_text(json.dumps({**about, "rows": figures}, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if differ else 0)


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
