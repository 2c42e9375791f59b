"""The loader, from datasets to batches; samplers that hold no list of indices, and the choice of settings."""

from fastpipe.loading import samplers
from fastpipe.loading.byte_batches import load_batch
from fastpipe.loading.growing import GrowingDataset, GrowingStatistics
from fastpipe.loading.loader import DataLoader
from fastpipe.loading.prometheus import export_to_prometheus
from fastpipe.loading.statistics import LoaderStatistics
from fastpipe.loading.tuning import Trial, Tuning, tune

__all__ = [
    "DataLoader",
    "GrowingDataset",
    "GrowingStatistics",
    "LoaderStatistics",
    "Trial",
    "Tuning",
    "export_to_prometheus",
    "load_batch",
    "samplers",
    "tune",
]


def __dir__() -> list[str]:
    return sorted(__all__)
