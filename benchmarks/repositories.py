"""Runs pipelines modelled on public repositories, without fastpipe and by `fastpipe run`.

    python benchmarks/repositories.py PHOTOS [--files 64] [--rounds 3] [--workers 2] [--only WORD] [--json FILE]

PHOTOS is a folder with one folder for each class. The pipelines are in benchmarks/repositories/, written after the
repositories' code. Two processes take turns with each, one of them started by `python -m fastpipe run`: first an epoch
from the same seed, whose values and final states of generators have to be equal, then the timed epochs, by processor
time, that of workers included. At the end it prints how many pipelines gain how much. The exit status is 1 if one
differs.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import resource
import sys
import time
import warnings
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness import Benchmark, command_line, spread, torchvision
from recipe_conformance import flat, seed_all, states
from served import Served, serve

from fastpipe.progress_bar import SlowBar
from fastpipe.tools.timing import take_turns

WAYS = {"plain": [], "fastpipe": ["-m", "fastpipe", "run", "--quiet"]}
LEAST = (3, 2, 1.5, 1)


def main() -> None:
    """Runs all pipelines, and prints a table and how many gain how much."""
    parser = command_line(__doc__, rounds=3)
    parser.add_argument("--files", type=int, default=64, help="photos in an epoch (%(default)s)")
    parser.add_argument("--workers", type=int, default=0, help="worker processes of each loader (%(default)s)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve_epochs(options.photos, options.files, options.workers)
        return
    bench = Benchmark(options, "repositories")
    own = [__file__, str(options.photos), "--files", str(options.files), "--workers", str(options.workers), "--serve"]
    served = {way: Served([sys.executable, *prefix, *own]) for way, prefix in WAYS.items()}
    names = served["plain"].offers
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


def serve_epochs(root: Path, files: int, workers: int) -> None:
    """Makes the epochs that the benchmark asks for: their digests, or their microseconds an image.

    The answer is a text if it fails.
    """
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    own = Path(__file__).parent
    sys.path[:0] = [str(own / folder) for folder in ("repositories", "untouched")]
    import _pipelines

    _pipelines.DataLoader = functools.partial(_pipelines.DataLoader, num_workers=workers)  # type: ignore[assignment,misc]
    for path in sorted((own / "repositories").glob("[!_]*.py")):
        importlib.import_module(path.stem)
    from _pipelines import PIPELINES, Photos

    samples = torchvision.datasets.ImageFolder(str(root)).samples
    photos = Photos(root, [samples[place][0] for place in spread(len(samples), files)])
    made: dict[str, Any] = {}

    def answer(what: str, name: str, seed: int) -> Any:
        try:
            if name not in made:
                made.clear()
                made[name] = PIPELINES[name](photos)
            seed_all(seed)
            return digest_of(made[name]) if what == "digest" else seconds_of(made[name]) / files * 1e6
        except Exception as error:  # a pipeline's library may raise anything; the others go on
            return f"{type(error).__name__}: {error}"

    serve(list(PIPELINES), answer)


def digest_of(epoch: Iterable[Any]) -> list[int]:
    """The digests of all values of an epoch, and of the generators' states after it."""
    digest = 0
    for value in epoch:
        digest = zlib.crc32(repr(flat(value)).encode(), digest)
    return [digest, zlib.crc32(repr(states()).encode())]


def seconds_of(epoch: Iterable[Any]) -> float:
    """The processor time of an epoch, in seconds, with that of the workers that have ended."""
    from _measured import look_at

    begun = _processor_time()
    for value in epoch:
        look_at(value)
    return _processor_time() - begun


def _processor_time() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
