"""Datasets to train on while they are still being fetched: the files of each epoch, and the process that fetches."""

from fastpipe.growing.dataset import GrowingDataset, GrowingStatistics

__all__ = ["GrowingDataset", "GrowingStatistics"]


def __dir__() -> list[str]:
    return sorted(__all__)
