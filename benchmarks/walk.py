"""Counts the Python calls, the files, and the moves from file to file that one sample needs.

    python benchmarks/walk.py --photos PHOTOS [--list]

PHOTOS is a folder as `ImageFolder` takes it. In the calling thread of a warm dataset, it counts each call of a Python
function of the package (including properties, generators and comprehensions), the files of these functions, and the
calls of functions in another file than the caller's. Then the same for torchvision's ``Compose`` on an image that
Pillow opens under `fastpipe.install`. ``--list`` names the files, in the order of the first call.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from harness import training
from PIL import Image

import fastpipe
from fastpipe import transforms as T
from fastpipe.executor import BatchSpec
from fastpipe.reporting.tables import ReportTable

PACKAGE = str(Path(fastpipe.__file__).parent)
RECIPES = {"crop and flip": (), "with ColorJitter": (T.ColorJitter(0.4, 0.4, 0.4, 0.1),)}
BATCH = 16
WARM = 300  # enough samples for every order of ColorJitter's adjustments, with and without a flip


@dataclass
class Walk:
    """Counts of calls of the package's functions.

    Attributes:
        calls: the number of calls.
        moves: the number of calls of a function in another file than its caller.
        files: the number of calls in each file, in the order of the first call.
    """

    calls: int = 0
    moves: int = 0
    files: dict[str, int] = field(default_factory=dict)


def walk(run: Callable[[], Any]) -> Walk:
    """Counts the calls that a function makes in this thread."""
    found = Walk()
    stack: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE):
            return
        if event == "call":
            found.calls += 1
            found.files[name] = found.files.get(name, 0) + 1
            found.moves += bool(stack) and stack[-1] != name
            stack.append(name)
        elif event == "return" and stack:
            stack.pop()

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def opened_image(photos: str) -> Walk:
    """The calls of torchvision's ``Compose`` on an image that Pillow has opened and converted, the hooks installed."""
    from torchvision import transforms as theirs

    path = next(file for file in sorted(Path(photos).rglob("*")) if file.suffix.lower() in (".jpg", ".jpeg"))
    transform = training(theirs)

    with fastpipe.install(check=0):
        for _ in range(WARM):
            transform(Image.open(path).convert("RGB"))
        image = Image.open(path).convert("RGB")
        return walk(lambda: transform(image))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", required=True)
    parser.add_argument("--list", action="store_true", help="name the files")
    arguments = parser.parse_args()
    table = ReportTable(["", "calls", "files", "moves"], ["calls", "files", "moves"])
    walks: dict[str, Walk] = {}
    for name, middle in RECIPES.items():
        torch.manual_seed(0)
        data = fastpipe.ImageFolder(arguments.photos, training(T, *middle))
        runs: dict[str, Callable[[], Any]] = {
            f"dataset[i], {name}": lambda data=data: data[0],
            f"a batch of {BATCH}, {name}": lambda data=data: data.batch(range(BATCH), BatchSpec()),
        }
        for what, run in runs.items():
            for _ in range(WARM):
                run()
            walks[what] = walk(run)
    walks["Compose on an opened image"] = opened_image(arguments.photos)
    for name, one in walks.items():
        table.add_row(name, one.calls, len(one.files), one.moves)
    print(table)
    for name, one in walks.items() if arguments.list else ():
        print(f"\n{name}:", *(f"{Path(file).relative_to(PACKAGE)}: {n}" for file, n in one.files.items()), sep="\n  ")


if __name__ == "__main__":
    main()
