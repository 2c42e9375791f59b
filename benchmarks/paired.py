"""Two sides measured in turns, for the benchmarks that compare them."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence


def in_turns(
    tasks: Sequence[Callable[[int], float]], rounds: int, ratios: list[float] | None = None
) -> tuple[float, float, float]:
    """Measures each task of a round for both sides, in random order.

    Args:
        tasks: functions that take a side, 0 or 1, and give what the task cost it.
        rounds: how often all tasks are done.
        ratios: takes each round's ratio, first to second.

    Returns:
        The median cost of a round for either side, and the median of the rounds' ratios, first to second.
    """
    spent = []
    for _ in range(rounds):
        taken = [0.0, 0.0]
        for task in tasks:
            for side in random.sample((0, 1), 2):
                taken[side] += task(side)
        spent.append(taken)
    first, second = (statistics.median(taken[side] for taken in spent) for side in (0, 1))
    found = [one / other for one, other in spent]
    if ratios is not None:
        ratios += found
    return first, second, statistics.median(found)
