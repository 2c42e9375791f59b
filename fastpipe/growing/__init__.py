"""Data sets that are trained on while they are still being fetched: which files an epoch has, and who fetches them."""

from fastpipe.growing.dataset import GrowingDataset, GrowingStatistics

__all__ = ["GrowingDataset", "GrowingStatistics"]


def __dir__() -> list[str]:
    return sorted(__all__)
