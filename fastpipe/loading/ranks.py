"""The ranks of ``torch.distributed``."""

from __future__ import annotations

import torch.distributed as dist

from fastpipe.arguments import whole_number
from fastpipe.errors import DatasetError

MOST_RANKS = 1 << 31
"""The most ranks of a sampler: places in its order fit 64 bits."""


def rank_and_count() -> tuple[int, int]:
    """This process's rank and the number of ranks; (0, 1) if ``torch.distributed`` isn't initialised."""
    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def checked_ranks(num_replicas: int, rank: int) -> tuple[int, int]:
    """Checks a number of ranks and a rank that were given to a sampler.

    Raises:
        DatasetError: one is no whole number, there are no ranks, or the rank isn't one of them.
    """
    takes = "how many ranks there are"
    num_replicas = whole_number("num_replicas", num_replicas, takes, least=1, most=MOST_RANKS, error=DatasetError)
    takes = "this process's rank, below num_replicas"
    return num_replicas, whole_number("rank", rank, takes, most=num_replicas - 1, error=DatasetError)
