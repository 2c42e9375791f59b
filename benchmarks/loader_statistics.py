"""The cost of `DataLoader.stats`: epochs that are measured beside epochs that aren't, in turns.

    python benchmarks/loader_statistics.py PHOTOS [--rounds 15] [--batch-size 64]

PHOTOS is a folder as ImageFolder takes it (root/class/….jpg). One thread makes the batches of a small crop, so that
there is much around each image and little in it. The figure is the median of the rounds' ratios of processor time. It
has to be below 1%.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import fastpipe
from fastpipe import transforms as T
from fastpipe.loading.statistics import LoaderMeter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()
    transform = T.Compose([T.RandomResizedCrop(64), T.ToTensor()])
    dataset = fastpipe.ImageFolder(options.photos, transform)
    loader = fastpipe.DataLoader(dataset, options.batch_size)
    known = LoaderMeter.note, LoaderMeter.listen

    def seconds(measured: bool) -> float:
        LoaderMeter.note, LoaderMeter.listen = known if measured else (_nothing, _nothing)
        dataset._fastpipe.measure(None)
        began = time.process_time()
        for _ in loader:
            pass
        return time.process_time() - began

    seconds(True)
    ratios = []
    for turn in range(options.rounds):
        order = (True, False) if turn % 2 else (False, True)
        taken = {measured: seconds(measured) for measured in order}
        ratios.append(taken[True] / taken[False] - 1)
    LoaderMeter.note, LoaderMeter.listen = known
    quartiles = ", ".join(f"{one:+.2%}" for one in statistics.quantiles(ratios))
    print(f"{statistics.median(ratios):+.2%} (quartiles {quartiles})")


def _nothing(*arguments: Any) -> None:
    pass


if __name__ == "__main__":
    main()
