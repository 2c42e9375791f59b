"""Runs pipelines modelled on public repositories, without fastpipe and by `fastpipe run`.

    python benchmarks/repositories.py PHOTOS [--files 64] [--rounds 3] [--only WORD] [--json FILE]

PHOTOS is a folder with one folder for each class. The pipelines are in benchmarks/repositories/, written after the
repositories' code. Two processes take turns with each, one of them started by `python -m fastpipe run`: first an epoch
from the same seed, whose values and final states of generators have to be equal, then the timed epochs, by process
time. At the end it prints how many pipelines gain how much. The exit status is 1 if one differs.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness import Benchmark, command_line, spread, torchvision
from recipe_conformance import flat, seed_all, states

from fastpipe.progress_bar import SlowBar
from fastpipe.tools.timing import take_turns

WAYS = {"plain": [], "fastpipe": ["-m", "fastpipe", "run", "--quiet"]}
LEAST = (3, 2, 1.5, 1)


def main() -> None:
    """Runs all pipelines, and prints a table and how many gain how much."""
    parser = command_line(__doc__, rounds=3)
    parser.add_argument("--files", type=int, default=64, help="photos in an epoch (%(default)s)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.photos, options.files)
        return
    bench = Benchmark(options, "repositories")
    served = {way: Served(way, options) for way in WAYS}
    names = served["plain"].names
    for name in filter(bench.wants, names):
        digests = [one.ask("digest", name, 0) for one in served.values()]
        failed = [digest for digest in digests if isinstance(digest, str)]
        if failed:
            print(f"{name} is left out: {failed[0]}", file=sys.stderr)
            continue
        same = digests[0] == digests[1]
        passes = {way: functools.partial(one.ask, "time", name) for way, one in served.items()}
        with SlowBar() as bar:
            bench.add(name, take_turns(passes, options.rounds, bar.show), same)
    times = [bench.times(name, "fastpipe", "plain") for name in bench.timings]
    for least in LEAST:
        print(f"{sum(one >= least for one in times)} of {len(times)} are at least {least} times as fast")
    bench.finish()


class Served:
    """A process that makes epochs with or without fastpipe.

    Attributes:
        names: the names of the pipelines.
    """

    def __init__(self, way: str, options: argparse.Namespace) -> None:
        command = [sys.executable, *WAYS[way], __file__, str(options.photos), "--files", str(options.files), "--serve"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.names: list[str] = self._answer()

    def ask(self, what: str, name: str, seed: int) -> Any:
        """Asks for an epoch's digest, or for its time in microseconds an image; returns a text if it failed."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([what, name, seed]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())


def serve(root: Path, files: int) -> None:
    """Makes the epochs requested on standard input."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("repositories", "untouched")]
    import classification  # noqa: F401
    import dense  # noqa: F401
    import generation  # noqa: F401
    import self_supervised  # noqa: F401
    import vision_language  # noqa: F401
    import words_and_faces  # noqa: F401
    from _pipelines import PIPELINES, Photos

    samples = torchvision.datasets.ImageFolder(str(root)).samples
    photos = Photos(root, [samples[place][0] for place in spread(len(samples), files)])
    print(json.dumps(list(PIPELINES)), flush=True)
    made: dict[str, Any] = {}
    for line in sys.stdin:
        what, name, seed = json.loads(line)
        try:
            if name not in made:
                made = {name: PIPELINES[name](photos)}
            seed_all(seed)
            found = digest_of(made[name]) if what == "digest" else seconds_of(made[name]) / files * 1e6
            print(json.dumps(found), flush=True)
        except Exception as error:
            print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)


def digest_of(epoch: Iterable[Any]) -> list[int]:
    """The digests of all values of an epoch, and of the generators' states after it."""
    digest = 0
    for value in epoch:
        digest = zlib.crc32(repr(flat(value)).encode(), digest)
    return [digest, zlib.crc32(repr(states()).encode())]


def seconds_of(epoch: Iterable[Any]) -> float:
    """The process time of an epoch, in seconds."""
    from _measured import look_at

    begun = time.process_time()
    for value in epoch:
        look_at(value)
    return time.process_time() - begun


if __name__ == "__main__":
    main()
