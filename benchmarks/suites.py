"""Runs other projects' test suites without fastpipe and by ``fastpipe run``: each test must have the same outcome.

    python benchmarks/suites.py PATH/TO/Pillow/Tests -p torch
    python benchmarks/suites.py PATH/TO/vision/test/test_transforms_v2.py PATH/TO/vision/test/test_image.py
    python benchmarks/suites.py PATH/TO/datasets/tests/features/test_image.py -p torch -n 2
    python benchmarks/suites.py PATH/TO/albumentations/tests/test_*.py --cwd PATH/TO/albumentations -p torch

    python benchmarks/suites.py PATH/TO/Pillow/Tests --packed PATH/TO/Pillow -p torch

With ``--packed FOLDER``, `fastpipe run` gets a copy of the folder in which all JPEGs are packed, under their own names.

The paths are copies of the suites, of the installed versions; further arguments are pytest's. fastpipe makes images
once torch is imported: ``-p torch`` imports it for suites that don't. If the installed torchvision doesn't fit the
installed torch, ``-p torchvision_here`` (with tests/ in PYTHONPATH) makes it importable.
The exit status is 1 if an outcome differs, or if no test passed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

import fastpipe
from fastpipe.reporting.tables import ReportTable

WAYS = {"plain": [], "fastpipe run": ["-m", "fastpipe", "run", "--quiet", "--check", "2"]}


def main() -> None:
    """Runs the suite both ways, prints the numbers of outcomes, and each test with a different outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help="files or folders of a suite")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for each way")
    parser.add_argument("--cwd", type=Path, help="the folder to run pytest in; that of the first path by default")
    parser.add_argument("--packed", type=Path, help="a folder of which fastpipe run gets a packed copy")
    options, for_pytest = parser.parse_known_args()
    folder = options.cwd or options.paths[0].resolve().parent
    places = {way: ([path.resolve() for path in options.paths], folder.resolve()) for way in WAYS}
    with tempfile.TemporaryDirectory() as made:
        if options.packed:
            places["fastpipe run"] = in_packed_copy(*places["fastpipe run"], options.packed.resolve(), Path(made))
        sys.exit(compare(places, for_pytest, options.timeout))


def in_packed_copy(paths: list[Path], folder: Path, packed: Path, made: Path) -> tuple[list[Path], Path]:
    """Packs a folder; returns the paths of the suite, and the folder to run it in, with the copy in its place."""
    copy = made / packed.name
    print(fastpipe.pack(packed, copy, keep_names=True, progress=False))

    def place(path: Path) -> Path:
        return copy / path.relative_to(packed) if path.is_relative_to(packed) else path

    return [place(path) for path in paths], place(folder)


def compare(places: dict[str, tuple[list[Path], Path]], for_pytest: list[str], timeout: float) -> int:
    """Runs a suite both ways; prints how its tests end. Returns the exit status."""
    outcomes, seconds = {}, {}
    for way, prefix in WAYS.items():
        begun = time.perf_counter()
        outcomes[way] = run(*places[way], prefix, for_pytest, timeout)
        seconds[way] = time.perf_counter() - begun
    table = ReportTable(["", *WAYS], [*WAYS])
    kinds = sorted({kind for found in outcomes.values() for kind in found.values()})
    for kind in kinds:
        table.add_row(kind, *(sum(one == kind for one in found.values()) for found in outcomes.values()))
    table.add_row("seconds", *seconds.values())
    print(table)
    plain, ours = outcomes.values()
    differ = sorted(name for name in {*plain, *ours} if plain.get(name) != ours.get(name))
    for name in differ:
        print(f"{name}: {plain.get(name, 'not run')} → {ours.get(name, 'not run')}")
    print(f"{len(plain):,} tests, {len(differ):,} end otherwise")
    return 1 if differ or "passed" not in plain.values() else 0


def run(paths: list[Path], folder: Path, prefix: list[str], for_pytest: list[str], timeout: float) -> dict[str, str]:
    """Runs a suite; returns the outcome of each test by name: passed, failed, error or skipped.

    Args:
        paths: files or folders.
        folder: the folder to run in.
        prefix: the command before ``-m pytest``.
        for_pytest: further arguments for pytest.
        timeout: the timeout in seconds.
    """
    with tempfile.TemporaryDirectory() as made:
        report = Path(made) / "outcomes.xml"
        suite = [*map(str, paths)]
        cache = f"cache_dir={Path(made) / 'cache'}"
        for_all = ["-q", "-o", cache, "--continue-on-collection-errors", f"--junitxml={report}"]
        command = [sys.executable, *prefix, "-m", "pytest", *for_all]
        subprocess.run(
            [*command, *for_pytest, *suite],
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )
        if not report.exists():
            sys.exit(f"pytest made no report for {' '.join(map(str, paths))}: run it by hand to see why")
        found = {}
        for case in ElementTree.parse(report).iter("testcase"):
            ended = [part.tag for part in case if part.tag in ("failure", "error", "skipped")]
            found[f"{case.get('classname')}::{case.get('name')}"] = ended[0] if ended else "passed"
        return found


if __name__ == "__main__":
    main()
