"""Compares fastpipe with torchvision from files to tensors; `scripts/demo` runs this.

    python benchmarks/demo.py [PATH] [--out FOLDER] [--images N] [--rounds N] [--write-config]

Without PATH it makes photo-like JPEG, PNG and WebP files at ImageNet's size; with PATH it takes a sample of your
photos, in any layout, and copies it, so that nothing is written among them. Then it

1. measures the readers on them and writes the choice to a config: one beside the photos, or with --write-config
   this machine's own;
2. compares finished samples with torchvision's, bit for bit, and the final states of the generators;
3. times both `ImageFolder`s in one process and one thread, in interleaved rounds;
4. times torch's `DataLoader` by `fastpipe run` and with swapped imports, and `fastpipe.DataLoader`, with workers.

The exit status is 1 if a sample differs from torchvision's. Without torchvision it only shows fastpipe's figures.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import rich.box
import torch
from rich.table import Table
from torch.utils.data import DataLoader, RandomSampler

import fastpipe
from fastpipe import transforms as T
from fastpipe.cli.app import app
from fastpipe.config import MachineConfig
from fastpipe.errors import DatasetError, FastpipeError
from fastpipe.reporting.output import make_console, pluralize
from fastpipe.tools.bench.measure import default_workers
from fastpipe.tools.bench.samples import MIXES, make_folder, sample_folder
from fastpipe.tools.import_torchvision import import_torchvision
from fastpipe.tools.timing import Timing, take_turns, times_as_fast

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
REPEATED = 8  # times that a worker's epoch reads the photos, as the start would dominate a shorter epoch
SUFFIXES = {"jpeg": ".jpg", "png": ".png", "webp": ".webp", "bmp": ".bmp", "tiff": ".tiff", "ppm": ".ppm"}


@dataclass(frozen=True)
class Row:
    """One line of the final table; `good` is None if the line has no expected result."""

    what: str
    fastpipe: str = ""
    torchvision: str = ""
    result: str = ""
    good: bool | None = None


def equal_row(what: str, equal: int, count: int) -> Row:
    """The line for a comparison, in which all have to be equal."""
    good = equal == count
    return Row(what, result=f"all {count:,} equal" if good else f"{equal:,} of {count:,}: NOT EQUAL", good=good)


def say(text: str) -> None:
    """Prints a line and flushes it, for pipes."""
    print(text, flush=True)


def torchvision_or_none() -> Any:
    """Imports torchvision; None if it doesn't load, in which case only the comparison is left out."""
    try:
        return import_torchvision()
    except FastpipeError as error:
        print(f"{error}: no comparison with it.\n")
        return None


def make_photos(folder: Path, images: int) -> dict[str, Path]:
    """Makes synthetic photos; returns a root for ImageFolder for each format."""
    roots = {}
    for format, kinds in MIXES.items():
        count = images if format == "jpeg" else max(1, images // 4)
        say(f"Making {count} photos as {format} ...")
        roots[format] = folder / format
        make_folder(roots[format], 2, max(1, count // 2), kinds=kinds, seed=len(roots) * 10_000)
    return roots


def copy_photos(path: Path, folder: Path, images: int) -> dict[str, Path]:
    """Copies some of the user's photos; returns a root for ImageFolder for each format."""
    roots = {}
    for number, sample in enumerate(sample_folder(path, count=images)):
        if sample.format in SUFFIXES:
            roots[sample.format] = folder / sample.format
            file = roots[sample.format] / "photos" / f"{number:04d}{SUFFIXES[sample.format]}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(sample.data)
    return roots


def recipes(module: Any) -> dict[str, Any]:
    """Three pipelines of torchvision's or fastpipe's transforms."""
    train = [module.RandomResizedCrop(224), module.RandomHorizontalFlip()]
    tensor = [module.ToTensor(), module.Normalize(MEAN, STD)]
    return {
        "training, uint8": module.Compose([*train, module.PILToTensor()]),
        "training, float": module.Compose([*train, *tensor]),
        "evaluation, float": module.Compose([module.Resize(256), module.CenterCrop(224), *tensor]),
    }


def compare_samples(roots: dict[str, Path], config: MachineConfig, torchvision: Any) -> list[Row]:
    """Compares all values of finished samples from the same seeds, and the final state of torch's generator."""
    rows = []
    theirs = recipes(torchvision.transforms)
    for name, transform in recipes(T).items():
        equal = count = 0
        for root in roots.values():
            ours = fastpipe.ImageFolder(root, transform, config=config)
            reference = torchvision.datasets.ImageFolder(root, theirs[name])
            for index in range(len(ours)):
                torch.manual_seed(index)
                mine, state = ours[index][0], torch.get_rng_state()
                torch.manual_seed(index)
                equal += torch.equal(mine, reference[index][0]) and torch.equal(state, torch.get_rng_state())
                count += 1
        rows.append(equal_row(f"samples, {name}", equal, count))
    return rows


def compare_speed(roots: dict[str, Path], config: MachineConfig, torchvision: Any, rounds: int) -> list[Row]:
    """Times milliseconds an image: the median round of each side, and the median of the rounds' ratios."""
    passes: dict[tuple[str, str, str], Callable[[int], float]] = {}
    for format, root in roots.items():
        for name, transform in recipes(T).items():
            passes[format, name, "fastpipe"] = partial(samples_us, fastpipe.ImageFolder(root, transform, config=config))
        for name, transform in recipes(torchvision.transforms).items() if torchvision else ():
            passes[format, name, "torchvision"] = partial(samples_us, torchvision.datasets.ImageFolder(root, transform))
    times = take_turns(passes, rounds, Rounds("one process").show)
    return [
        timed_row(f"{format}, {name}", ours, times.get((format, name, "torchvision")), lambda us: f"{us / 1e3:.2f} ms")
        for (format, name, who), ours in times.items()
        if who == "fastpipe"
    ]


def samples_us(dataset: Any, number: int) -> float:
    """Microseconds for a sample, over all of a dataset's samples."""
    torch.manual_seed(number)
    start = time.perf_counter()
    for index in range(len(dataset)):
        dataset[index]
    return (time.perf_counter() - start) / len(dataset) * 1e6


def compare_loaders(root: Path, config: MachineConfig, torchvision: Any, rounds: int) -> list[Row]:
    """Times images a second of loaders with workers, with the training transform to floats.

    The contenders are torchvision's `ImageFolder` in torch's loader under ``fastpipe run``, the same with swapped
    imports, and `fastpipe.DataLoader`.
    """
    workers = min(default_workers(), 4)
    name = "training, float"
    ours = fastpipe.ImageFolder(root, recipes(T)[name], config=config)

    def loader(kind: type[DataLoader[Any]], dataset: Any) -> DataLoader[Any]:
        order = RandomSampler(dataset, num_samples=REPEATED * len(dataset))
        return kind(dataset, batch_size=32, sampler=order, num_workers=workers, persistent_workers=True)

    loaders = {}
    if torchvision is not None:
        theirs = torchvision.datasets.ImageFolder(root, recipes(torchvision.transforms)[name])
        loaders = {"torchvision": loader(DataLoader, theirs), "fastpipe run": loader(DataLoader, theirs)}
    loaders["imports swapped"] = loader(DataLoader, ours)
    loaders["fastpipe.DataLoader"] = loader(fastpipe.DataLoader, ours)
    passes = {who: partial(epoch_us, batches, who == "fastpipe run") for who, batches in loaders.items()}
    times = take_turns(passes, rounds, Rounds("loaders with workers").show)  # workers start in the untimed round
    plain = times.pop("torchvision", None)
    return [
        timed_row(f"{pluralize(workers, 'worker')}, {who}", found, plain, lambda us: f"{1e6 / us:,.0f} img/s")
        for who, found in times.items()
    ]


def epoch_us(batches: DataLoader[Any], hooked: bool, _: int) -> float:
    """Microseconds for an image of an epoch, with fastpipe's hooks installed or not."""
    with fastpipe.install() if hooked else nullcontext():
        start = time.perf_counter()
        images = sum(len(batch) for batch, _ in batches)
        return (time.perf_counter() - start) / images * 1e6


def timed_row(what: str, ours: Timing, theirs: Timing | None, shown: Callable[[float], str]) -> Row:
    """The line for times, in which ``shown`` formats microseconds."""
    if theirs is None:
        return Row(what, shown(ours.median_us), "-", "-")
    return Row(what, shown(ours.median_us), shown(theirs.median_us), f"{times_as_fast(ours, theirs):.2f}x")


class Rounds:
    """Prints a line for each round of `take_turns`.

    Args:
        timed: the name of what is timed.
    """

    def __init__(self, timed: str) -> None:
        self.timed = timed
        self.last = "done"

    def show(self, done: int, total: int, text: str) -> None:
        """Takes the progress."""
        part = text.partition(":")[0]
        if part not in (self.last, "done"):
            say(f"Timing {self.timed}: {part} ...")
        self.last = part


def print_rows(rows: list[Row]) -> None:
    console = make_console()
    table = Table(
        title="fastpipe beside torchvision; ms: an image, in one process; img/s: with workers",
        title_justify="left",
        caption="imports swapped: fastpipe's ImageFolder and transforms in torch's DataLoader",
        caption_justify="left",
        box=rich.box.SIMPLE_HEAD if console.is_terminal else rich.box.ASCII,
    )
    for column in ("", "fastpipe", "torchvision", "result"):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    for row in rows:
        style = None if row.good is None else "green" if row.good else "bold red"
        table.add_row(row.what, row.fastpipe, row.torchvision, row.result, style=style)
    console.print()
    console.print(table)


def demo(arguments: argparse.Namespace, out: Path) -> bool:
    """Runs all parts; returns True if every line with an expected result is good."""
    if (out / "photos").exists():
        raise DatasetError(f"{out / 'photos'} exists already; give --out a folder without one")
    if arguments.path is None:
        roots = make_photos(out / "photos", arguments.images)
    else:
        say(f"Taking a sample of {arguments.path} ...")
        roots = copy_photos(arguments.path, out / "photos", arguments.images)
        if not roots:
            raise DatasetError(f"{arguments.path} holds no image of format {', '.join(SUFFIXES)}")
    os.environ["FASTPIPE_CACHE"] = str(out / "cache")  # don't keep the photos' indexes
    if arguments.write_config:
        file = MachineConfig.path()
    else:
        file = out / "config.toml"
        os.environ["FASTPIPE_CONFIG"] = str(file)  # for this demo, its workers included
    say("Measuring the readers, in one process and in workers: up to a minute ...\n")
    options = [f"--rounds={arguments.rounds}", f"--images={min(arguments.images, 24)}"]
    app(["configure", str(out / "photos"), *options], standalone_mode=False)
    config = MachineConfig.load(file)
    torchvision = torchvision_or_none()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    rows = []
    if torchvision is not None:
        say("\nComparing finished samples with torchvision's ...")
        rows += compare_samples(roots, config, torchvision)
    rows += compare_speed(roots, config, torchvision, arguments.rounds)
    first = next(iter(roots.values()))
    rows += compare_loaders(first, config, torchvision, arguments.rounds)
    print(f"\n{fastpipe.explain(fastpipe.ImageFolder(first, recipes(T)['training, float'], config=config))}")
    print_rows(rows)
    if not arguments.write_config:
        where = f" {arguments.path}" if arguments.path else ""
        print(f"\nThe config was for this demo only. `fastpipe configure{where}` writes this machine's own.")
    else:
        print(f"\nFrom now on fastpipe uses {file} on this machine.")
    return all(row.good is not False for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", type=Path, help="your photos: a folder, in any layout; only read")
    parser.add_argument("--out", type=Path, help="where photos and config go; without it a folder removed at the end")
    parser.add_argument("--images", type=int, default=96, help="photos of each format, at most (default: 96)")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default: 5)")
    parser.add_argument("--write-config", action="store_true", help="write this machine's config, not the demo's own")
    arguments = parser.parse_args()
    if arguments.images < 1 or arguments.rounds < 1:
        parser.error("--images and --rounds are at least 1")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # an arrow must not end the demo where a console can't show it
    out = arguments.out or Path(tempfile.mkdtemp(prefix="fastpipe-demo-"))
    try:
        out.mkdir(parents=True, exist_ok=True)
        return 0 if demo(arguments, out) else 1
    except FastpipeError as error:
        print(f"demo: error: {error}", file=sys.stderr)
        return 1
    finally:
        if arguments.out is None:
            shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
