"""Trains an epoch by each trainer that is installed, plainly and by `fastpipe run`, and compares all that can be seen.

    python benchmarks/trainers.py [--photos PHOTOS] [--timm CHECKOUT] [--vision CHECKOUT] [--only WORD]… [--json FILE]

The scripts are in benchmarks/trainers/. Each runs in a process of its own, from the same seeds. Every batch that the
model sees, each loss and the last weights are compared; so is the state of the process, behind the second step and at
exit: generators, signal handlers, hooks, warnings' filters, loggers, the start method, `sys.flags`, threads, the order
of the functions that run at exit, and more (tests/process_manners.py). The ratio is of processor time from the first
batch on, workers included; model and trainer are in it, so it is no measure of loading.

timm's and torchvision's own `train.py` come from a CHECKOUT of theirs (the folder with train.py, and the one with
references/). Without --photos, photos are made. Where torchvision needs a module to be imported first, as beside
another build of torch, TORCHVISION_FIRST is its name. The exit status is 1 if a script differs or fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "benchmarks" / "trainers"
CLASSES, TRAIN, TEST = 6, 16, 6  # classes, and each one's photos
PLAIN, HOOKED = [], ["-m", "fastpipe", "run", "--quiet"]
SLURM = {
    "SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0", "SLURM_NNODES": "1", "SLURM_NODELIST": "localhost", "SLURM_NTASKS_PER_NODE": "1",
}  # fmt: skip
TIMM = "--model resnet10t --img-size 176 --epochs 1 -b 16 --num-classes 6 --lr 0.01 --workers 2 --device cpu --seed 1"
VISION = "--device cpu --model mobilenet_v3_small -b 16 -j 2 --epochs 1 --lr 0.01 --auto-augment ta_wide"


@dataclass(frozen=True)
class Run:
    """A script of a trainer's.

    Attributes:
        name: the row's name.
        package: the package that is needed, with the version that is shown.
        words: the script and its arguments; DATA and OUT stand for the folders of the photos and of results.
        environment: more variables.
        why_not: why it can't run, although the package is there.
    """

    name: str
    package: str
    words: str
    environment: Mapping[str, str] = field(default_factory=dict)
    why_not: str = ""


def runs(options: argparse.Namespace) -> Iterator[Run]:
    """All scripts, whether they can run here or not."""
    for workers in (0, 2):
        yield Run(f"Lightning, {workers} workers", "lightning", f"with_lightning.py DATA OUT {workers}")
    for signal in ("SIGUSR1", "SIGUSR2"):
        yield Run(f"Lightning on SLURM, {signal}", "lightning", f"with_lightning.py DATA OUT 2 {signal}", SLURM)
    for workers in (0, 2):
        yield Run(f"Accelerate, {workers} workers", "accelerate", f"with_accelerate.py DATA {workers}")
    for workers in (0, 2):
        yield Run(f"Trainer, {workers} workers", "transformers", f"with_transformers.py DATA OUT {workers}")
    why_not = "" if options.timm else "needs --timm CHECKOUT"
    ways = {
        "": "--no-prefetcher",
        ", prefetcher": "--aa rand-m9-mstd0.5-inc1 --reprob 0.25 --remode pixel",
        ", mixup": "--no-prefetcher --mixup 0.2 --cutmix 0.5 --aa augmix-m5-w4-d2 --vflip 0.2",
    }
    for name, more in ways.items():
        words = (
            f"{options.timm}/train.py --data-dir DATA --train-split train --val-split val --output OUT {TIMM} {more}"
        )
        yield Run(f"timm's train.py{name}", "timm", words, why_not=why_not)
    why_not = "" if options.vision else "needs --vision CHECKOUT"
    ways = {
        "": "--random-erase 0.2 --mixup-alpha 0.2 --cutmix-alpha 1.0",
        ", v2": "--use-v2 --random-erase 0.2 --cutmix-alpha 1.0",
        ", tensors": "--backend tensor",
        ", v2 on tensors": "--use-v2 --backend tensor --model-ema",
    }
    for name, more in ways.items():
        words = f"{options.vision}/references/classification/train.py --data-path DATA --output-dir OUT {VISION} {more}"
        yield Run(f"torchvision's train.py{name}", "torchvision", words, why_not=why_not)
    for task in ("classify", "detect"):
        yield Run(f"Ultralytics, {task}", "ultralytics", f"with_ultralytics.py DATA OUT 2 {task}")
    for workers in (0, 2):
        yield Run(f"MMEngine, {workers} workers", "mmengine", f"with_mmengine.py DATA OUT {workers}")


def missing(run: Run) -> str:
    """Why a script can't run here, or ""."""
    needed = [run.package] if run.package in ("torchvision", "accelerate") else [run.package, "torchvision"]
    if run.package == "transformers":
        needed.append("accelerate")
    absent = [package for package in needed if importlib.util.find_spec(package) is None]
    return f"{' and '.join(absent)} isn't installed" if absent else run.why_not


def make_data(folder: Path, photos: Path | None) -> None:
    """Lays out train/ and val/, each with a folder for each class."""
    made = folder / "made"
    if photos is None:
        from fastpipe.tools.bench.samples import make_folder

        make_folder(
            made, CLASSES, TRAIN + TEST, kinds=("jpeg-420", "jpeg-444", "jpeg-gray", "jpeg-420", "jpeg-progressive")
        )
        photos = made
    for number, kind in enumerate(sorted(path for path in photos.iterdir() if path.is_dir())[:CLASSES]):
        files = sorted(path for path in kind.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
        for place, path in enumerate(files[: TRAIN + TEST]):
            part = folder / "photos" / ("train" if place < TRAIN else "val") / f"class{number}"
            part.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, part / f"{number}_{place:02}{path.suffix.lower()}")
    shutil.rmtree(made, ignore_errors=True)


def make_scheduler(folder: Path) -> None:
    """Makes a `scontrol` that notes how it is called."""
    folder.mkdir()
    control = folder / "scontrol"
    control.write_text('#!/bin/sh\necho "$@" >> "$SCONTROL_CALLS"\n')
    control.chmod(0o755)


def outcome(run: Run, prefix: list[str], folder: Path) -> dict[str, Any]:
    """Runs a script; returns what `_watched.py` has written, and the calls of SLURM's `scontrol`.

    Raises:
        RuntimeError: the script has failed.
    """
    out, result, calls = folder / "out", folder / "result.json", folder / "calls"
    for used in (out, folder / "data"):  # trainers also write beside the photos
        shutil.rmtree(used, ignore_errors=True)
    out.mkdir()
    shutil.copytree(folder / "photos", folder / "data")
    for path in (result, calls):
        path.unlink(missing_ok=True)
    script, *words = run.words.replace("DATA", str(folder / "data")).replace("OUT", str(out)).split()
    environment = {
        **os.environ, **run.environment, "SCONTROL_CALLS": str(calls), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
        "YOLO_OFFLINE": "true", "YOLO_CONFIG_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PATH": os.pathsep.join([str(folder / "scheduler"), os.environ.get("PATH", "")]),
    }  # fmt: skip
    command = [sys.executable, *prefix, str(SCRIPTS / "_watched.py"), str(result), str(SCRIPTS / script), *words]
    done = subprocess.run(
        command, cwd=out, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode or not result.exists():
        raise RuntimeError(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr[-1500:]}")
    text = re.sub(r"\btmp[a-z0-9_]{8}\b", "tmp", result.read_text())  # names that `tempfile` draws
    found: dict[str, Any] = json.loads(text)
    found["states"]["SLURM"] = {"calls of scontrol": calls.read_text() if calls.exists() else ""}
    return found


def differences(plain: dict[str, Any], hooked: dict[str, Any]) -> list[str]:
    """The differences between the states of two processes, in words."""
    found = []
    order = hooked["exit functions"]["order"]  # modules that only fastpipe imports may have some of their own
    order[:] = [name for name in order if name in plain["exit functions"]["order"]]
    for moment in plain | hooked:
        one, other = plain.get(moment, {}), hooked.get(moment, {})
        for part in one | other:
            before, after = one.get(part), other.get(part)
            if isinstance(before, dict) and isinstance(after, dict):
                names = [name for name in before | after if before.get(name) != after.get(name)]
                found += [f"{moment}, {part}, {name}: {before.get(name)} → {after.get(name)}" for name in names]
            elif before != after:
                found.append(f"{moment}, {part}: {before} → {after}")
    return found


def main() -> int:
    """Runs the scripts, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, help="a folder with a folder of photos for each class")
    parser.add_argument("--timm", type=Path, metavar="CHECKOUT", help="the folder with timm's train.py")
    parser.add_argument("--vision", type=Path, metavar="CHECKOUT", help="the folder with torchvision's references/")
    parser.add_argument("--only", action="append", metavar="WORD", help="rows whose name has this word, or any of them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all that was seen there")
    options = parser.parse_args()
    kept: dict[str, Any] = {}
    failed = False
    print("| trainer | version | equal | state equal | ratio |\n| --- | --- | --- | --- | ---: |", flush=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make_data(folder, options.photos)
        make_scheduler(folder / "scheduler")
        for run in runs(options):
            if not any(word.lower() in run.name.lower() for word in options.only or [""]):
                continue
            if why_not := missing(run):
                print(f"{run.name}: {why_not}", file=sys.stderr)
                continue
            version = metadata.version(run.package)
            try:
                plain, hooked = outcome(run, PLAIN, folder), outcome(run, HOOKED, folder)
            except RuntimeError as error:
                print(f"{run.name}: {error}", file=sys.stderr)
                print(f"| {run.name} | {version} | failed | | |", flush=True)
                failed = True
                continue
            equal = plain["equal"] == hooked["equal"] and min(plain["equal"][3:]) > 0
            found = differences(plain["states"], hooked["states"])
            for line in found:
                print(f"{run.name}: {line}", file=sys.stderr)
            ratio = plain["seconds"] / hooked["seconds"]
            marks = ["yes" if one else "no" for one in (equal, not found)]
            print(f"| {run.name} | {version} | {' | '.join(marks)} | {ratio:.2f} |", flush=True)
            kept[run.name] = {"version": version, "plain": plain, "fastpipe": hooked}
            failed = failed or not equal or bool(found)
    if options.json:
        options.json.write_text(json.dumps(kept, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
