"""The loader, which makes batches of datasets; samplers that hold no list of indices; the tuning of settings."""

from fastpipe.loading import samplers
from fastpipe.loading.loader import DataLoader
from fastpipe.loading.prometheus import export_to_prometheus
from fastpipe.loading.statistics import LoaderStatistics
from fastpipe.loading.tuning import Trial, Tuning, tune

__all__ = [
    "DataLoader",
    "LoaderStatistics",
    "Trial",
    "Tuning",
    "export_to_prometheus",
    "samplers",
    "tune",
]


def __dir__() -> list[str]:
    return sorted(__all__)
