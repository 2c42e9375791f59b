"""The shuffled sampler against torch's RandomSampler: time to the first index, time an index, memory.

    python benchmarks/sampler.py [--length 100000000] [--torch-length 10000000] [--json FILE]

Each contender runs in a process of its own. Memory is the growth of that process's peak resident memory from before
the sampler is made until the last counted index. torch's sampler lists every index, so it is measured at a smaller
length by default.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

_COUNTED = 1_000_000


def measure(kind: str, length: int) -> dict[str, Any]:
    """Runs in a fresh process."""
    from torch.utils.data import RandomSampler

    from fastpipe.loading.samplers import ShuffledSampler

    process = psutil.Process()
    next(iter(ShuffledSampler(1_000)))  # imports and numpy's first use are not the sampler's
    next(iter(RandomSampler(range(1_000))))
    before = process.memory_info().rss
    start = time.perf_counter()
    iterator = iter(ShuffledSampler(length) if kind == "fastpipe" else RandomSampler(range(length)))
    next(iterator)
    first = time.perf_counter() - start
    at_first = process.memory_info().rss - before
    start = time.perf_counter()
    for _ in range(min(_COUNTED, length - 1)):
        next(iterator)
    each = (time.perf_counter() - start) / min(_COUNTED, length - 1)
    growth = max(at_first, process.memory_info().rss - before)
    return {
        "sampler": kind,
        "length": length,
        "first_ms": first * 1e3,
        "index_ns": each * 1e9,
        "memory_mb": growth / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=100_000_000)
    parser.add_argument("--torch-length", type=int, default=10_000_000)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    jobs = [("fastpipe", arguments.length), ("fastpipe", arguments.torch_length), ("torch", arguments.torch_length)]
    rows = []
    for job in jobs:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.append(pool.apply(measure, job))
    table = Table(title=f"shuffling samplers (ns an index: mean of the first {_COUNTED:,})")
    for column in ("sampler", "length", "first index, ms", "an index, ns", "memory, MB"):
        table.add_column(column, justify="left" if column == "sampler" else "right")
    for row in rows:
        table.add_row(
            row["sampler"],
            f"{row['length']:,}",
            f"{row['first_ms']:.2f}",
            f"{row['index_ns']:.0f}",
            f"{row['memory_mb']:.1f}",
        )
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
