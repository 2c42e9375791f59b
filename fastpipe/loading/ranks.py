"""The ranks of ``torch.distributed``."""

from __future__ import annotations

import torch.distributed as dist


def rank_and_count() -> tuple[int, int]:
    """This process's rank and the number of ranks; (0, 1) if ``torch.distributed`` isn't initialised."""
    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(), dist.get_world_size()
