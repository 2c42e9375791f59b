"""Pipelines on loaded images, called as users call them: fastpipe's and torchvision's Compose, v1's and v2's.

    python benchmarks/compose.py PHOTOS [--rounds 15] [--only TEXT] [--json FILE]

PHOTOS is a folder of photos; those of the large pipelines are as they are in there, those of CIFAR's 32×32, those of
MNIST's 28×28 in gray. Each pipeline gets loaded PIL images and, fastpipe's, the arrays of the same pixels, too. One
thread; the figure is the median of rounds in which all take turns, a ratio the median of each round's. Before it is
timed, each pipeline has to give torchvision's tensor and leave torch's generator where torchvision leaves it.

Marks: 4.5 times torchvision for crop, flip and normalisation, 7 with ColorJitter, 5 with RandAugment, 5 for evaluation,
4 for CIFAR's, 2.5 for MNIST's.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table
from torchvision_here import module

from fastpipe import transforms as ours_v1

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PHOTOS = 8
ROUND_SECONDS = 0.03
FLOAT = torch.float32


def crop(library: Any) -> list[Any]:
    return [library.RandomResizedCrop(224), library.RandomHorizontalFlip()]


# Transforms in front of the conversion, their mark, the images' (height, width), and whether they are gray.
PIPELINES: dict[str, tuple[Callable[[Any], list[Any]], float, tuple[int, int] | None, bool]] = {
    "crop, flip": (crop, 4.5, None, False),
    "with ColorJitter": (lambda library: [*crop(library), library.ColorJitter(0.4, 0.4, 0.4, 0.1)], 7.0, None, False),
    "with RandAugment": (lambda library: [*crop(library), library.RandAugment()], 5.0, None, False),
    "evaluation": (lambda library: [library.Resize(256), library.CenterCrop(224)], 5.0, None, False),
    "CIFAR": (
        lambda library: [library.RandomCrop(32, padding=4), library.RandomHorizontalFlip()],
        4.0,
        (32, 32),
        False,
    ),
    "MNIST": (lambda library: [], 2.5, (28, 28), True),
}


def compose(library: Any, name: str, v2: bool) -> Any:
    """A pipeline of a library's, up to the normalised tensor."""
    build, _, _, gray = PIPELINES[name]
    tail = [library.ToImage(), library.ToDtype(FLOAT, scale=True)] if v2 else [library.ToTensor()]
    normalize = library.Normalize((0.1307,), (0.3081,)) if gray else library.Normalize(MEAN, STD)
    return library.Compose([*build(library), *tail, normalize])


def photos(folder: Path, size: tuple[int, int] | None, gray: bool) -> list[Image.Image]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    if not paths:
        raise SystemExit(f"no .jpg, .jpeg or .png file below {folder}")
    found = []
    for path in random.Random(0).sample(paths, min(PHOTOS, len(paths))):
        with Image.open(path) as file:
            image = file.convert("L" if gray else "RGB")
            found.append(image if size is None else image.resize(size[::-1]))
    return found


def check(ours: Any, theirs: Any, image: Image.Image) -> None:
    """Raises SystemExit unless both give the same."""
    outcomes = []
    for transform in (ours, theirs):
        torch.manual_seed(3)
        outcomes.append((transform(image).as_subclass(torch.Tensor), torch.get_rng_state()))
    if not all(map(torch.equal, *outcomes)):
        raise SystemExit(f"{ours} gives something else than torchvision's")


def measure(ours: Any, theirs: Any, images: list[Image.Image], rounds: int) -> dict[str, float]:
    """Microseconds an image, and how many times as fast fastpipe is."""
    contenders: dict[str, tuple[Any, list[Any]]] = {
        "torchvision": (theirs, images),
        "PIL image": (ours, images),
        "array": (ours, [np.asarray(image) for image in images]),
    }
    repeats, times = {}, {name: list[float]() for name in contenders}
    for name, contender in contenders.items():
        _once(*contender, 2)
        repeats[name] = max(1, round(ROUND_SECONDS / (_once(*contender, 2) * len(images))))
    for turn in range(rounds):
        names = list(contenders)
        for name in names[turn % 3 :] + names[: turn % 3]:
            torch.manual_seed(turn)
            times[name].append(_once(*contenders[name], repeats[name]))
    result = {f"{name} µs": statistics.median(spent) * 1e6 for name, spent in times.items()}
    for name in ("PIL image", "array"):
        pairs = zip(times["torchvision"], times[name], strict=True)
        result[f"× {name}"] = statistics.median(other / own for other, own in pairs)
    return result


def _once(transform: Any, images: list[Any], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        for image in images:
            transform(image)
    return (time.perf_counter() - start) / repeats / len(images)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="only pipelines whose name contains this")
    parser.add_argument("--json", type=Path, help="also write everything there")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    theirs = {"v1": module("torchvision.transforms"), "v2": module("torchvision.transforms.v2")}
    ours = {"v1": ours_v1, "v2": module("fastpipe.transforms.v2")}
    table = Table(title="One loaded image, one thread, microseconds (in brackets: times torchvision)")
    for heading in ("pipeline", "torchvision", "PIL image", "array", "mark"):
        table.add_column(heading, justify="left" if heading == "pipeline" else "right")
    results: dict[str, dict[str, float]] = {}
    for name, (_, mark, size, gray) in PIPELINES.items():
        if arguments.only.lower() not in name.lower():
            continue
        images = photos(arguments.photos, size, gray)
        for version in ("v1", "v2"):
            one, other = (compose(side[version], name, version == "v2") for side in (ours, theirs))
            check(one, other, images[0])
            found = results[f"{name}, {version}"] = measure(one, other, images, arguments.rounds)
            cells = [f"{found[f'{kind} µs']:.0f} ({found[f'× {kind}']:.2f})" for kind in ("PIL image", "array")]
            table.add_row(f"{name}, {version}", f"{found['torchvision µs']:.0f}", *cells, f"{mark:g}")
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
