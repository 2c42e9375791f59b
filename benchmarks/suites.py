"""Runs other projects' test suites without fastpipe and by ``fastpipe run``: each test must have the same outcome.

    python benchmarks/suites.py PATH/TO/Pillow/Tests -p torch
    python benchmarks/suites.py PATH/TO/vision/test/test_transforms_v2.py PATH/TO/vision/test/test_image.py
    python benchmarks/suites.py PATH/TO/datasets/tests/features/test_image.py -p torch -n 2
    python benchmarks/suites.py PATH/TO/albumentations/tests/test_*.py --cwd PATH/TO/albumentations -p torch

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

from fastpipe.reporting.tables import ReportTable

WAYS = {"plain": [], "fastpipe run": ["-m", "fastpipe", "run", "--quiet", "--check", "2"]}


def main() -> None:
    """Runs the suite both ways, prints the numbers of outcomes, and each test with a different outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help="files or folders of a suite")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for each way")
    parser.add_argument("--cwd", type=Path, help="the folder to run pytest in; that of the first path by default")
    options, for_pytest = parser.parse_known_args()
    outcomes, seconds = {}, {}
    for way, prefix in WAYS.items():
        begun = time.perf_counter()
        outcomes[way] = run(options.paths, prefix, for_pytest, options.cwd, options.timeout)
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
    sys.exit(1 if differ or "passed" not in plain.values() else 0)


def run(
    paths: list[Path], prefix: list[str], for_pytest: list[str], folder: Path | None, timeout: float
) -> dict[str, str]:
    """Runs a suite; returns the outcome of each test by name: passed, failed, error or skipped.

    Args:
        paths: files or folders.
        prefix: the command before ``-m pytest``.
        for_pytest: further arguments for pytest.
        folder: the folder to run in; None for that of the first path.
        timeout: the timeout in seconds.
    """
    with tempfile.TemporaryDirectory() as made:
        report = Path(made) / "outcomes.xml"
        suite = [str(path.resolve()) for path in paths]
        cache = f"cache_dir={Path(made) / 'cache'}"
        for_all = ["-q", "-o", cache, "--continue-on-collection-errors", f"--junitxml={report}"]
        command = [sys.executable, *prefix, "-m", "pytest", *for_all]
        subprocess.run(
            [*command, *for_pytest, *suite],
            cwd=folder or paths[0].resolve().parent,
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
