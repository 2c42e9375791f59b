"""The loader, which makes batches of datasets; samplers that hold no list of indices; the tuning of settings.

A module is imported when one of its names is first used: batches without a loader need none of the loader's.
"""

from typing import TYPE_CHECKING

from fastpipe.lazy_names import imported_lazily

if TYPE_CHECKING:
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

_HOMES = {
    "loader": ("DataLoader",),
    "prometheus": ("export_to_prometheus",),
    "statistics": ("LoaderStatistics",),
    "tuning": ("Trial", "Tuning", "tune"),
}


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # for a type checker every public name is imported above, and any other is a mistake
    __getattr__ = imported_lazily(__name__, _HOMES, modules=("samplers",))
