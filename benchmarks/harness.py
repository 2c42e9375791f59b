"""What the benchmarks have in common: the command line, photos, contenders that take turns, one table, one JSON form.

A benchmark names its rows, and for each the contenders, of which the first is the one that others are held against:

    bench = Benchmark(command_line(__doc__).parse_args())
    paths = photos(bench.options.photos, 100)
    bench.row("training", {"torchvision": samples(theirs, 100), "fastpipe": samples(ours, 100)}, count=100)
    bench.finish()

A contender is a function that makes a pass: an iterable of what it makes, such as a loader. Before a row is timed, its
contenders make a pass from the same seeds, whose values and generators' end states have to be equal. Then they take
turns, one pass each a round. Figures are microseconds of processor time of one image (of all threads): a median over
the rounds, a ratio the median of the rounds' ratios, above 1 where the contender is faster than the first one.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import cv2
import torch
from PIL import Image
from recipe_conformance import flat, seed_all, states
from rich.console import Console
from torchvision_here import module as module
from torchvision_here import torchvision as torchvision

from fastpipe.progress_bar import SlowBar
from fastpipe.reporting.tables import ReportTable
from fastpipe.tools.timing import Timing, take_turns

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PACKAGES = ("torch-fastpipe", "torch", "torchvision", "pillow", "opencv-python-headless", "albumentations", "timm")

WIDTH = 160  # characters of a table, at most

Pass = Callable[[], Iterable[Any]]


def command_line(doc: str | None, *, rounds: int = 5, photos: str = "photos") -> argparse.ArgumentParser:
    """A parser for what all benchmarks are told.

    Args:
        doc: the script's docstring, for ``--help``.
        rounds: by default.
        photos: how the folder of photos is named; ``"--photos"`` where it may be left out, "" for none.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if photos:
        parser.add_argument(photos, type=Path, help="a folder of photos: root/class/….jpg")
    parser.add_argument("--rounds", type=int, default=rounds, help="timed ones (%(default)s)")
    parser.add_argument("--only", default="", metavar="WORD", help="rows whose name has this word")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    return parser


class Benchmark:
    """The rows of a table, measured one after the other.

    Args:
        options: of `command_line`.
        title: of the table.
        unit: what a figure is of.
    """

    def __init__(self, options: argparse.Namespace, title: str = "", unit: str = "image") -> None:
        torch.set_num_threads(1)
        cv2.setNumThreads(1)
        self.options, self.title, self.unit = options, title, unit
        self.timings: dict[str, dict[str, Timing]] = {}
        self._about: dict[str, dict[str, Any]] = {}

    def wants(self, name: str) -> bool:
        """Whether a row was asked for."""
        return self.options.only.lower() in name.lower()

    def row(
        self,
        name: str,
        contenders: Mapping[str, Pass],
        count: int,
        *,
        equal: Collection[str] | None = None,
        reference: Pass | None = None,
        mark: float | None = None,
        clock: Callable[[], float] = time.process_time,
        least_s: float = 0.0,
    ) -> None:
        """Compares the contenders of a row, then times them; does nothing where the row isn't wanted.

        Args:
            name: what they do.
            contenders: those who do it, by name; others are held against the first.
            count: images of a pass.
            equal: contenders that must make what the reference makes; all by default.
            reference: makes what is expected; the first contender by default.
            mark: times as fast as the first contender that the last one is to be.
            clock: seconds.
            least_s: a pass that takes less is repeated until it lasts so long: short calls need it.
        """
        if not self.wants(name):
            return
        first = next(iter(contenders))
        compared = [one for one in contenders if equal is None or one in equal]
        same = None
        if compared:
            expected = outcome(reference or contenders[first])
            same = all(outcome(contenders[one]) == expected for one in compared if reference or one != first)
        repeats = {who: _repeats(made, least_s, clock) if least_s else 1 for who, made in contenders.items()}
        passes = {who: _timed(made, count, repeats[who], clock) for who, made in contenders.items()}
        with SlowBar() as bar:
            self.add(name, take_turns(passes, self.options.rounds, bar.show), same, mark)

    def add(self, name: str, timings: Mapping[str, Timing], equal: bool | None, mark: float | None = None) -> None:
        """Adds a row that was timed elsewhere."""
        self.timings[name] = dict(timings)
        self._about[name] = {"equal": equal, "mark": mark}

    def times(self, name: str, contender: str, than: str) -> float:
        """How many times as fast a contender is as another one, in one row."""
        ours, theirs = (self.timings[name][who].rounds_us for who in (contender, than))
        return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))

    def means(self) -> dict[str, dict[str, float]]:
        """Geometric means over the rows whose names begin alike before a colon: times as fast the last contender is.

        By that beginning (``"all"`` where there is none), then by contender; for groups of several rows that end alike.
        """
        groups: dict[str, list[str]] = {}
        for name in self.timings:
            groups.setdefault(_group(name), []).append(name)
        means: dict[str, dict[str, float]] = {}
        for group, names in groups.items():
            ratios: dict[str, list[float]] = {}
            for name in names:
                *others, last = self.timings[name]
                for who in others:
                    ratios.setdefault(who, []).append(self.times(name, last, who))
            if ratios and len(names) > 1 and len({[*self.timings[name]][-1] for name in names}) == 1:
                means[group] = {who: statistics.geometric_mean(each) for who, each in ratios.items()}
        return means

    def below_mark(self) -> list[str]:
        """The rows whose last contender isn't as fast as it is to be, with how fast it is."""
        rows = []
        for name, found in self.timings.items():
            mark, (first, *_, last) = self._about[name]["mark"], (*found, *found)
            if mark and (times := self.times(name, last, first)) < mark:
                rows.append(f"{name}: {times:.2f}, mark {mark:g}")
        return rows

    def finish(self, **more: Any) -> None:
        """Prints the table, writes the JSON with `more` in it, and ends the process with 1 where a row isn't equal."""
        if not self.timings:
            raise SystemExit(f"no row has {self.options.only!r} in its name")
        print(f"{self.title + ': ' if self.title else ''}µs of one {self.unit} (times as fast as the first)")
        for table in self.tables():
            Console(width=WIDTH, highlight=False).print(table)
        for group, means in self.means().items():
            print(f"{group}: {', '.join(f'{mean:.2f} × {who}' for who, mean in means.items())} (geometric means)")
        for line in self.below_mark():
            print(f"below its mark: {line}")
        if self.options.json:
            text = json.dumps(self.report() | more, indent=1, ensure_ascii=False)
            self.options.json.write_text(text + "\n", encoding="utf-8")
        differing = [name for name, about in self._about.items() if about["equal"] is False]
        if differing:
            raise SystemExit(f"not equal: {', '.join(differing)}")

    def tables(self) -> list[ReportTable]:
        """Microseconds, and how many times as fast as the row's first contender.

        Rows whose names begin alike and whose contenders are among each other's share a table.
        """
        tables: list[tuple[str, dict[str, None], list[str]]] = []
        for row, found in self.timings.items():
            for group, names, rows in tables:
                if group == _group(row) and (found.keys() <= names.keys() or found.keys() >= names.keys()):
                    if found.keys() > names.keys():
                        names.clear()
                    names.update(dict.fromkeys(found))
                    rows.append(row)
                    break
            else:
                tables.append((_group(row), dict.fromkeys(found), [row]))
        return [self._table([*names], rows) for _, names, rows in tables]

    def _table(self, names: list[str], rows: list[str]) -> ReportTable:
        more = [what for what in ("mark", "equal") if any(self._about[row][what] is not None for row in rows)]
        table = ReportTable(["", *names, *more], [*names, *more])
        for row in rows:
            found, about = self.timings[row], self._about[row]
            first = next(iter(found))
            cells = [
                _shown(found[who].median_us) + (f" ({self.times(row, who, first):.2f})" if who != first else "")
                if who in found
                else ""
                for who in names
            ]
            words = {"mark": about["mark"] and f"{about['mark']:g}", "equal": _WORDS[about["equal"]]}
            table.add_row(row, *cells, *(words[what] for what in more))
        return table

    def report(self) -> dict[str, Any]:
        """The JSON form: for each row every round's microseconds, by contender, and whether all was equal."""
        rows = {
            name: {**self._about[name], "rounds_us": {who: one.rounds_us for who, one in found.items()}}
            for name, found in self.timings.items()
        }
        return {"title": self.title, "unit": self.unit, "versions": versions(), "rows": rows, "means": self.means()}


def _group(row: str) -> str:
    return row.partition(":")[0] if ":" in row else "all"


def outcome(made: Pass) -> tuple[list[int], Any]:
    """Hashes of what a pass makes from seeds that are always the same, and the generators' end states."""
    seed_all(1)
    return [hash(tuple(flat(value))) for value in made()], states()


def samples(dataset: Any, indices: int | Sequence[int]) -> Pass:
    """A pass of ``dataset[i]``: the first ones, or those at some indices."""
    places = range(indices) if isinstance(indices, int) else indices

    def made() -> Iterator[Any]:
        for index in places:
            yield dataset[index]

    return made


def calls(function: Callable[[Any], Any], inputs: Sequence[Any]) -> Pass:
    """A pass of a function's calls."""
    return lambda: map(function, inputs)


def spread(length: int, count: int) -> list[int]:
    """Some indices of a data set of that length, from all of its parts."""
    count = min(length, count)
    return [number * length // count for number in range(count)]


def photos(folder: Path, count: int, endings: Sequence[str] = (".jpg", ".jpeg")) -> list[Path]:
    """Files below a folder, at any depth: the same random ones on every run."""
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in endings)
    if not found:
        raise SystemExit(f"there is no {' or '.join(endings)} file below {folder}")
    return random.Random(0).sample(found, min(count, len(found)))


def pictures(folder: Path, count: int, size: tuple[int, int] | None = None, mode: str = "RGB") -> list[Image.Image]:
    """Photos below a folder, loaded; where a size ``(height, width)`` is given, resized to it."""
    found = []
    for path in photos(folder, count, (".jpg", ".jpeg", ".png")):
        with Image.open(path) as file:
            image = file.convert(mode)
        found.append(image if size is None else image.resize(size[::-1]))
    return found


def training(T: Any, *middle: Any, size: int = 224) -> Any:
    """A crop, a flip, what is given, and the normalised tensor, by a library's v1 transforms."""
    crop = [T.RandomResizedCrop(size), T.RandomHorizontalFlip()]
    return T.Compose([*crop, *middle, T.ToTensor(), T.Normalize(MEAN, STD)])


def evaluation(T: Any) -> Any:
    """Resize, a crop of the centre, and the normalised tensor, by a library's v1 transforms."""
    return T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(), T.Normalize(MEAN, STD)])


def versions() -> dict[str, str]:
    """Of what may make a difference."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _timed(made: Pass, count: int, repeats: int, clock: Callable[[], float]) -> Callable[[int], float]:
    def one_pass(number: int) -> float:
        seed_all(number)
        start = clock()
        for _ in range(repeats):
            for _ in made():
                pass
        return (clock() - start) / repeats / count * 1e6

    return one_pass


def _repeats(made: Pass, least_s: float, clock: Callable[[], float]) -> int:
    _timed(made, 1, 1, clock)(0)
    return max(1, math.ceil(least_s / max(_timed(made, 1, 1, clock)(0) / 1e6, 1e-6)))


def _shown(microseconds: float) -> str:
    return f"{microseconds:,.0f}" if microseconds >= 100 else f"{microseconds:.1f}"


_WORDS = {None: "", True: "yes", False: "NO"}
