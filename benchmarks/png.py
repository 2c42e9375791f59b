"""PNGs: decoding, regions, masks and whole pipelines, against Pillow, OpenCV and torchvision in one run.

    python benchmarks/png.py PHOTOS [--count 60] [--rounds 5] [--workers 2] [--json FILE]

The files are made here, in a folder that goes away: photos from below PHOTOS whose longer side is made 500 pixels,
written by Pillow as it does without being told, and with ``optimize=True``; and masks of 20 classes with a palette, the
same photos' gray levels smoothed and cut into steps. Readers get bytes in memory and run in one thread; the pipeline
(RandomResizedCrop(224), flip, ToTensor, Normalize) goes from files to float tensors, one by one in this process, then
in batches from a DataLoader with `--workers` workers on both sides. Rounds are interleaved; a figure is the median over
rounds of the time for one image, a ratio the median of each round's ratio to fastpipe's time. Before anything is timed,
pixels are compared with Pillow's.

Held against: whole images 3 times as fast as the faster of Pillow and OpenCV, a RandomResizedCrop's region 3.5 times,
masks 3 times, the pipeline and the loader 3 times as fast as torchvision's.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import cv2
import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader as StockLoader
from torch.utils.data import RandomSampler
from torchvision_here import torchvision

import fastpipe
from fastpipe import core, readers
from fastpipe import transforms as T

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIDE, CLASSES, REPEAT = 500, 20, 3
TARGETS = {"whole": 3.0, "region": 3.5, "indices": 3.0, "pipeline": 3.0, "loader": 3.0}

Contender = Callable[[int], Any]


def make(photos: Path, count: int, folder: Path) -> None:
    """The files, below a folder for each kind, as ImageFolder takes them."""
    paths = sorted(path for path in photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    random.Random(0).shuffle(paths)
    made = 0
    for path in paths:
        if made == count:
            break
        with Image.open(path) as image:
            if image.mode != "RGB":
                continue
            share = SIDE / max(image.size)
            small = image.resize((max(1, round(image.width * share)), max(1, round(image.height * share))), 1)
        small.info.clear()
        steps = small.convert("L").resize((small.width // 16 + 1, small.height // 16 + 1), Image.Resampling.BOX)
        levels = np.asarray(steps.resize(small.size, Image.Resampling.BICUBIC)).astype(np.uint16) * CLASSES // 256
        mask = Image.frombytes("P", small.size, levels.astype(np.uint8).tobytes())
        mask.putpalette(random.Random(3).randbytes(3 * CLASSES))
        for kind, one, options in (
            ("default", small, {}),
            ("optimize", small, {"optimize": True}),
            ("masks", mask, {}),
        ):
            target = folder / kind / str(made % 2)
            target.mkdir(parents=True, exist_ok=True)
            one.save(target / f"{made:04}.png", **options)
        made += 1
    if not made:
        raise SystemExit(f"there is no RGB photo below {photos}")


def pillow(data: bytes, mode: str | None = "RGB") -> np.ndarray[Any, Any]:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image if mode is None else image.convert(mode))


def opencv(data: bytes, flag: int = cv2.IMREAD_COLOR_RGB) -> Any:
    return cv2.imdecode(np.frombuffer(data, np.uint8), flag)


def boxes(files: Sequence[bytes]) -> list[tuple[int, int, int, int]]:
    """A RandomResizedCrop's box of each, the same ones on every run."""
    torch.manual_seed(0)
    found = []
    for data in files:
        image = torch.empty(3, *readers.parse_header(data).size)
        found.append(T.RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]))
    return found


def check(files: Sequence[bytes], regions: Sequence[tuple[int, int, int, int]]) -> None:
    for data, (top, left, height, width) in zip(files, regions, strict=True):
        expected = pillow(data)
        if not np.array_equal(readers.read_image(data, reader="core"), expected):
            raise SystemExit("the core's pixels aren't Pillow's")
        part = readers.read_image(data, reader="core", region=(top, left, height, width))
        if not np.array_equal(part, expected[top : top + height, left : left + width]):
            raise SystemExit("a region's pixels aren't Pillow's")


def decoding(folder: Path) -> dict[tuple[str, str], dict[str, Contender]]:
    found: dict[tuple[str, str], dict[str, Contender]] = {}
    for kind in ("default", "optimize", "masks"):
        files = [path.read_bytes() for path in sorted((folder / kind).rglob("*.png"))]
        regions = boxes(files)
        check(files, regions)
        others: dict[str, Contender] = {
            "pillow": lambda index, files=files: pillow(files[index]),
            "opencv": lambda index, files=files: opencv(files[index]),
        }
        found[kind, "whole"] = {
            "fastpipe": lambda index, files=files: readers.read_image(files[index], reader="core"),
            **others,
        }
        found[kind, "region"] = {
            "fastpipe": lambda index, files=files, regions=regions: readers.read_image(
                files[index], reader="core", region=regions[index]
            ),
            **others,
        }
        if kind == "masks":
            found[kind, "indices"] = {
                "fastpipe": lambda index, files=files: readers.read_image(files[index], reader="core", mode="P"),
                "pillow": lambda index, files=files: pillow(files[index], None),
                "opencv": lambda index, files=files: opencv(files[index], cv2.IMREAD_UNCHANGED),
            }
    return found


def recipe(module: Any) -> Any:
    return module.Compose(
        [module.RandomResizedCrop(224), module.RandomHorizontalFlip(), module.ToTensor(), module.Normalize(MEAN, STD)]
    )


def timed(contender: Contender, count: int) -> float:
    start = time.perf_counter()
    for index in range(count):
        contender(index)
    return (time.perf_counter() - start) / count


def compare(contenders: dict[str, Callable[[], float]], rounds: int) -> dict[str, Any]:
    """Milliseconds an image, and how many times as long as fastpipe's each takes; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        order = list(contenders.items())
        for name, run in order if number % 2 else order[::-1]:
            taken = run()
            if number:
                times[name].append(taken)
    ratios = {
        name: statistics.median(a / b for a, b in zip(taken, times["fastpipe"], strict=True))
        for name, taken in times.items()
    }
    return {"ms": {name: 1000 * statistics.median(taken) for name, taken in times.items()}, "times": ratios}


def epoch(loader: Any, count: int) -> float:
    start = time.perf_counter()
    for _ in loader:
        pass
    return (time.perf_counter() - start) / count


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, help="a folder with photos below it")
    parser.add_argument("--count", type=int, default=60, help="files of each kind (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    if not core.available():
        raise SystemExit(core.why_not())
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make(given.photos, given.count, folder)
        for (kind, what), contenders in decoding(folder).items():
            count = len(list((folder / kind).rglob("*.png")))
            runs = {name: (lambda one=one, count=count: timed(one, count)) for name, one in contenders.items()}
            figures[f"{kind}, {what}"] = compare(runs, given.rounds)
        for kind in ("default", "optimize"):
            ours = fastpipe.ImageFolder(folder / kind, recipe(T))
            theirs = torchvision.datasets.ImageFolder(folder / kind, recipe(torchvision.transforms))
            count = len(ours)
            runs = {
                "fastpipe": lambda ours=ours, count=count: timed(ours.__getitem__, count),
                "torchvision": lambda theirs=theirs, count=count: timed(theirs.__getitem__, count),
            }
            figures[f"{kind}, pipeline"] = compare(runs, given.rounds)
            options: dict[str, Any] = {
                "batch_size": 32,
                "sampler": RandomSampler(range(count), num_samples=count * REPEAT),
                "num_workers": given.workers,
                "persistent_workers": True,
            }
            threaded = {**options, "num_workers": 0, "persistent_workers": False, "threads": given.workers}
            loaders = {
                "fastpipe": fastpipe.DataLoader(ours, **options),
                "torchvision": StockLoader(theirs, **options),
                "fastpipe, threads": fastpipe.DataLoader(ours, **threaded),
            }
            runs = {
                name: (lambda loader=loader, count=count: epoch(loader, count * REPEAT))
                for name, loader in loaders.items()
            }
            figures[f"{kind}, loader"] = compare(runs, given.rounds)
    table = Table(title=f"{given.count} files of each kind, ms an image, and how many times fastpipe's time")
    for head in ("what", "who", "ms", "times", "wanted"):
        table.add_column(head, justify="right" if head in ("ms", "times", "wanted") else "left")
    for what, one in figures.items():
        rivals = {name: ratio for name, ratio in one["times"].items() if not name.startswith("fastpipe")}
        fastest = min(rivals, key=lambda name: rivals[name])
        for name, milliseconds in one["ms"].items():
            wanted = f"{TARGETS[what.split(', ')[1]]:.1f}" if name == fastest else ""
            table.add_row(what, name, f"{milliseconds:.3f}", f"{one['times'][name]:.2f}", wanted)
    Console().print(table)
    if given.json:
        about = {"count": given.count, "rounds": given.rounds, "workers": given.workers}
        given.json.write_text(json.dumps({**about, "rows": figures}, indent=1))


if __name__ == "__main__":
    main()
