"""How far one sample walks through the code: calls of Python functions, files, and moves from file to file.

    python benchmarks/walk.py --photos PHOTOS [--list]

PHOTOS is a folder as `ImageFolder` takes it. Counted is what a warm data set does, in the calling thread: each call of
a Python function of the package (properties, generators and comprehensions too), the files that these functions stand
in, and how often a function calls one in another file. ``--list`` names the files, in the order of the first call.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import fastpipe
from fastpipe import transforms as T
from fastpipe.executor import BatchSpec

PACKAGE = str(Path(fastpipe.__file__).parent)
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CROP = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
JITTER = [*CROP[:2], T.ColorJitter(0.4, 0.4, 0.4, 0.1), *CROP[2:]]
BATCH = 16
ESCAPED = r"\[i]"  # rich reads brackets as markup
WARM = 300  # so that every order of ColorJitter's adjustments, with a flip or without, has come before


@dataclass
class Walk:
    """Calls of functions of the package.

    Attributes:
        calls: how many.
        moves: calls of a function that stands in another file than its caller.
        files: in the order in which they are first met, and the calls in each.
    """

    calls: int = 0
    moves: int = 0
    files: dict[str, int] = field(default_factory=dict)


def walk(run: Callable[[], Any]) -> Walk:
    """What a function calls in this thread."""
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


def sample(data: fastpipe.ImageFolder) -> Any:
    return data[0]


def batch(data: fastpipe.ImageFolder) -> Any:
    return data.batch(range(BATCH), BatchSpec())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", required=True)
    parser.add_argument("--list", action="store_true", help="name the files")
    arguments = parser.parse_args()
    table = Table("", "calls", "files", "moves")
    walks: dict[str, Walk] = {}
    for name, steps in (("crop and flip", CROP), ("with ColorJitter", JITTER)):
        torch.manual_seed(0)
        data = fastpipe.ImageFolder(arguments.photos, T.Compose(steps))
        for what, run in ((f"dataset{ESCAPED}, {name}", sample), (f"a batch of {BATCH}, {name}", batch)):
            for _ in range(WARM):
                run(data)
            walks[what] = walk(partial(run, data))
    for name, one in walks.items():
        table.add_row(name, f"{one.calls:,}", str(len(one.files)), f"{one.moves:,}")
    console = Console()
    console.print(table)
    if arguments.list:
        for name, one in walks.items():
            console.print(f"\n{name}:")
            for file, calls in one.files.items():
                console.print(f"  {Path(file).relative_to(PACKAGE)}: {calls}")


if __name__ == "__main__":
    main()
