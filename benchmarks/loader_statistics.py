"""The cost of `DataLoader.stats`: batches that are measured beside batches that aren't, in turns.

    python benchmarks/loader_statistics.py PHOTOS [--seconds 60] [--batch-size 64] [--instructions]

PHOTOS is a folder as ImageFolder takes it (root/class/….jpg). One thread makes the same batch again and again, of
small crops, so that there is much around each image and little in it: once through the loader's iteration, which
counts and times, with a clock in the stages, and once through the iterator behind it, without. The figure is what the
first takes beyond the second: in processor time, with the 95% interval that resampling the pairs gives (a bootstrap),
or in instructions, counted by valgrind in some minutes. It has to be below 1%.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Callable

import numpy as np
from instructions import count, mark

import fastpipe
from fastpipe import transforms as T

RESAMPLED = 2000
TURNS, IN_A_TURN = 5, 10  # under valgrind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("--seconds", type=float, default=60, help="of measuring")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--instructions", action="store_true", help="count instructions instead")
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.counted:
        make = sides(options.photos, options.batch_size)
        for _ in range(TURNS):
            for side in (0, 1):
                mark()
                for _ in range(IN_A_TURN):
                    make(side)
        mark()
        return
    if options.instructions:
        parts = count(__file__, options.photos, "--batch-size", str(options.batch_size), "--counted")
        pairs = np.array(parts[1 : 1 + 2 * TURNS]).reshape(-1, 2)[1:] / IN_A_TURN  # the first turn is warming up
        each = f"{np.median(pairs[:, 1]) / 1e6:.1f} million instructions"
        more = f"{np.median(pairs[:, 0] - pairs[:, 1]):,.0f} more"
    else:
        pairs = timed(sides(options.photos, options.batch_size), options.seconds)
        batch = float(np.median(pairs[:, 1]))
        each, more = f"{1e3 * batch:.2f} ms", f"{1e6 * beyond(pairs) * batch:.0f} µs more"
    rng = np.random.default_rng(0)
    found = [beyond(pairs[rng.integers(0, len(pairs), len(pairs))]) for _ in range(RESAMPLED)]
    low, high = np.percentile(found, (2.5, 97.5))
    print(
        f"{beyond(pairs):+.2%} (95% interval {low:+.2%} … {high:+.2%}): {len(pairs):,} pairs of batches of "
        f"{options.batch_size}, {each}, {more}"
    )


def sides(photos: str, batch_size: int) -> Callable[[int], None]:
    """A function that makes a batch: measured (0), or not (1)."""
    dataset = fastpipe.ImageFolder(photos, T.Compose([T.RandomResizedCrop(64), T.ToTensor()]), seed=0)
    indices = [number % len(dataset) for number in range(batch_size)]
    loader = fastpipe.DataLoader(dataset, batch_sampler=itertools.repeat(indices))
    measured = iter(loader)
    unmeasured = measured._batches
    row = loader._meter.times.row(0)

    def make(side: int) -> None:
        dataset._fastpipe.measure(None if side else row)
        next(unmeasured if side else measured)

    return make


def timed(make: Callable[[int], None], seconds: float) -> np.ndarray:
    """Processor time of batches, measured and not, in seconds ``(pairs, 2)``."""
    pairs = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        taken = [0.0, 0.0]
        for side in random.sample((0, 1), 2):
            began = time.process_time()
            make(side)
            taken[side] = time.process_time() - began
        pairs.append(taken)
    return np.array(pairs[1:])


def beyond(pairs: np.ndarray) -> float:
    """The median of the pairs' ratios, less 1: slow moments of the machine are in one or the other."""
    return float(np.median(pairs[:, 0] / pairs[:, 1])) - 1


if __name__ == "__main__":
    main()
