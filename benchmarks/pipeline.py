"""The whole way from files to tensors, against torchvision's ImageFolder and v1 transforms, in one run.

    python benchmarks/pipeline.py PATH [--rounds 7] [--json FILE]

PATH is a folder as ImageFolder takes it (root/class/….jpg). One process, one thread, bytes read from disk. Rounds
are interleaved, so that drift of the machine hits every contender alike; a figure is the median over the rounds,
a ratio the median of each round's ratio.

The rows: training (RandomResizedCrop, flip) as uint8 and as normalised float, evaluation (Resize, CenterCrop) as
float; for the training rows also albumentations on images that cv2 decoded, as people write it.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from rich.table import Table

import fastpipe
from fastpipe import transforms as T
from fastpipe.progress_bar import SlowBar
from fastpipe.reporting.output import make_console
from fastpipe.tools.bench.pipeline import pipelines
from fastpipe.tools.timing import one_thread, seeded_pass, take_turns
from fastpipe.tools.torchvision_mirror import import_torchvision

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def albumentations_rows(paths: list[str]) -> dict[str, Callable[[int], Any]]:
    """The usual hand-written cv2 dataset; empty where albumentations isn't installed."""
    try:
        import albumentations as A
        from albumentations.pytorch import ToTensorV2
    except ImportError:
        return {}
    train = [A.RandomResizedCrop(size=(224, 224)), A.HorizontalFlip()]
    chains = {
        "train, uint8": A.Compose([*train, ToTensorV2()]),
        "train, float": A.Compose([*train, A.Normalize(MEAN, STD), ToTensorV2()]),
    }

    def reading(chain: Any) -> Callable[[int], Any]:
        def sample(index: int) -> Any:
            return chain(image=cv2.cvtColor(cv2.imread(paths[index]), cv2.COLOR_BGR2RGB))["image"]

        return sample

    return {row: reading(chain) for row, chain in chains.items()}


def measure(contenders: dict[str, Callable[[int], Any]], count: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds an image, one figure a round, for each contender."""
    passes = {name: seeded_pass(call, count) for name, call in contenders.items()}
    with SlowBar() as bar, one_thread():
        times = take_turns(passes, rounds, bar.show)
    return {name: [time / 1e3 for time in timing.rounds_us] for name, timing in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="a folder of images, one folder a class")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()

    torchvision = import_torchvision()
    ours, theirs = pipelines(T), pipelines(torchvision.transforms)
    contenders: dict[str, Callable[[int], Any]] = {}
    for row in ours:
        contenders[f"fastpipe | {row}"] = fastpipe.ImageFolder(arguments.path, ours[row]).__getitem__
        contenders[f"torchvision | {row}"] = torchvision.datasets.ImageFolder(arguments.path, theirs[row]).__getitem__
    paths = [path for path, _ in fastpipe.ImageFolder(arguments.path).samples]
    for row, sample in albumentations_rows(paths).items():
        contenders[f"albumentations | {row}"] = sample
    times = measure(contenders, len(paths), arguments.rounds)

    def median(name: str) -> float:
        return statistics.median(times[name])

    def ratio(name: str, other: str) -> float:
        return statistics.median(b / a for a, b in zip(times[name], times[other], strict=True))

    table = Table(
        title=f"{len(paths)} images, one process, one thread: ms an image (median of {arguments.rounds} rounds)"
    )
    for column in ("pipeline", "fastpipe", "torchvision", "ratio", "albumentations", "ratio"):
        table.add_column(column, justify="left" if column == "pipeline" else "right")
    rows = []
    for row in ours:
        us, tv, alb = (f"{who} | {row}" for who in ("fastpipe", "torchvision", "albumentations"))
        figures: dict[str, Any] = {"pipeline": row, "fastpipe_ms": median(us), "torchvision_ms": median(tv)}
        figures["torchvision_ratio"] = ratio(us, tv)
        if alb in times:
            figures |= {"albumentations_ms": median(alb), "albumentations_ratio": ratio(us, alb)}
        rows.append(figures)
        table.add_row(
            row,
            f"{figures['fastpipe_ms']:.3f}",
            f"{figures['torchvision_ms']:.3f}",
            f"{figures['torchvision_ratio']:.2f}×",
            f"{figures['albumentations_ms']:.3f}" if alb in times else "",
            f"{figures['albumentations_ratio']:.2f}×" if alb in times else "",
        )
    make_console().print(table)
    if arguments.json:
        versions = {m.__name__: m.__version__ for m in (fastpipe, torch, torchvision, cv2, np)}
        report = {"rows": rows, "rounds": times, "machine": platform.processor(), "versions": versions}
        arguments.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
