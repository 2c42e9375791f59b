"""The benchmarks' common parts: the command line, photos, interleaved rounds, the table and the JSON.

A benchmark adds rows with a name and contenders, the first of which is the reference for the ratios:

    bench = Benchmark(command_line(__doc__).parse_args())
    paths = photos(bench.options.photos, 100)
    bench.row("training", {"torchvision": samples(theirs, 100), "fastpipe": samples(ours, 100)}, count=100)
    bench.finish()

A contender is a function that makes a pass: an iterable of its results, such as a loader. Before a row is timed, its
contenders make a pass from the same seeds; its values and the final states of the generators have to be equal. Then
each makes one pass in each round. Figures are microseconds of processor time for one image (of all threads), the median
over the rounds. A ratio is the median of the rounds' ratios, above 1 if the contender is faster than the first.
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
from fastpipe.tools.timing import Timing, take_turns, times_as_fast

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PACKAGES = ("torch-fastpipe", "torch", "torchvision", "pillow", "opencv-python-headless", "albumentations", "timm")

WIDTH = 160  # the most characters of a table's line

Pass = Callable[[], Iterable[Any]]


def command_line(doc: str | None, *, rounds: int = 5, photos: str = "photos") -> argparse.ArgumentParser:
    """Makes a parser with the options of all benchmarks.

    Args:
        doc: the script's docstring, for ``--help``.
        rounds: the default number of rounds.
        photos: the name of the argument for the folder of photos; ``"--photos"`` if it is optional, "" for none.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if photos:
        parser.add_argument(photos, type=Path, help="a folder of photos: root/class/….jpg")
    parser.add_argument("--rounds", type=int, default=rounds, help="timed rounds (%(default)s)")
    parser.add_argument("--only", default="", metavar="WORD", help="rows whose name has this word")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    return parser


class Benchmark:
    """The rows of a table, measured one after the other.

    Args:
        options: parsed by the parser of `command_line`.
        title: the table's title.
        unit: the unit of work that a figure is for.
    """

    def __init__(self, options: argparse.Namespace, title: str = "", unit: str = "image") -> None:
        torch.set_num_threads(1)
        cv2.setNumThreads(1)
        self.options, self.title, self.unit = options, title, unit
        self.timings: dict[str, dict[str, Timing]] = {}
        self._about: dict[str, dict[str, Any]] = {}

    def wants(self, name: str) -> bool:
        """True if a row is selected by ``--only``."""
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
        """Compares the contenders of a row, then times them; does nothing if the row isn't selected.

        Args:
            name: the row's name.
            contenders: the contenders by name; ratios are to the first.
            count: the number of images in a pass.
            equal: contenders whose values must equal the reference's; all by default.
            reference: makes the expected values; the first contender by default.
            mark: the expected speed of the last contender, as a multiple of the first one's.
            clock: the clock, in seconds.
            least_s: a shorter pass is repeated until it takes this long.
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
        """Adds a row that was timed by other code."""
        self.timings[name] = dict(timings)
        self._about[name] = {"equal": equal, "mark": mark}

    def times(self, name: str, contender: str, than: str) -> float:
        """The speed of a contender as a multiple of another one's, in one row."""
        return times_as_fast(self.timings[name][contender], self.timings[name][than])

    def means(self) -> dict[str, dict[str, float]]:
        """Geometric means of the last contender's speed-up over groups of rows with the same name before a colon.

        The result is by group (``"all"`` for names without a colon), then by contender. Only groups of several rows
        with the same last contender are included.
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
        """Describes the rows whose last contender is slower than its mark."""
        rows = []
        for name, found in self.timings.items():
            mark, (first, *_, last) = self._about[name]["mark"], (*found, *found)
            if mark and (times := self.times(name, last, first)) < mark:
                rows.append(f"{name}: {times:.2f}, mark {mark:g}")
        return rows

    def finish(self, **more: Any) -> None:
        """Prints the table, writes the JSON with `more` in it, and exits with 1 if values of a row aren't equal."""
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
        """The tables of microseconds, and of speeds as multiples of the row's first contender's.

        Rows of the same group whose contenders are a subset of another row's share a table.
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
        """The results as JSON values: by row, each round's microseconds by contender, and whether all were equal."""
        rows = {
            name: {**self._about[name], "rounds_us": {who: one.rounds_us for who, one in found.items()}}
            for name, found in self.timings.items()
        }
        return {"title": self.title, "unit": self.unit, "versions": versions(), "rows": rows, "means": self.means()}


def _group(row: str) -> str:
    return row.partition(":")[0] if ":" in row else "all"


def outcome(made: Pass) -> tuple[list[int], Any]:
    """Hashes of a pass's values from fixed seeds, and the final states of the generators."""
    seed_all(1)
    return [hash(tuple(flat(value))) for value in made()], states()


def samples(dataset: Any, indices: int | Sequence[int]) -> Pass:
    """A pass over ``dataset[i]``: the first samples, or those at some indices."""
    places = range(indices) if isinstance(indices, int) else indices

    def made() -> Iterator[Any]:
        for index in places:
            yield dataset[index]

    return made


def calls(function: Callable[[Any], Any], inputs: Sequence[Any]) -> Pass:
    """A pass of calls of a function."""
    return lambda: map(function, inputs)


def spread(length: int, count: int) -> list[int]:
    """Some indices spread evenly over a dataset of that length."""
    count = min(length, count)
    return [number * length // count for number in range(count)]


def photos(folder: Path, count: int, endings: Sequence[str] = (".jpg", ".jpeg")) -> list[Path]:
    """Random files below a folder, at any depth, the same on every run."""
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in endings)
    if not found:
        raise SystemExit(f"there is no {' or '.join(endings)} file below {folder}")
    return random.Random(0).sample(found, min(count, len(found)))


def pictures(folder: Path, count: int, size: tuple[int, int] | None = None, mode: str = "RGB") -> list[Image.Image]:
    """Loads photos below a folder; resizes them if a size ``(height, width)`` is given."""
    found = []
    for path in photos(folder, count, (".jpg", ".jpeg", ".png")):
        with Image.open(path) as file:
            image = file.convert(mode)
        found.append(image if size is None else image.resize(size[::-1]))
    return found


def training(T: Any, *middle: Any, size: int = 224) -> Any:
    """The training transform of a library's v1 transforms: crop, flip, `middle`, normalised tensor."""
    crop = [T.RandomResizedCrop(size), T.RandomHorizontalFlip()]
    return T.Compose([*crop, *middle, T.ToTensor(), T.Normalize(MEAN, STD)])


def evaluation(T: Any) -> Any:
    """The evaluation transform of a library's v1 transforms: resize, centre crop, normalised tensor."""
    return T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(), T.Normalize(MEAN, STD)])


def versions() -> dict[str, str]:
    """The versions of packages that may affect the results."""
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
