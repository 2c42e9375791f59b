"""Exports a loader's statistics to Prometheus, which scrapes them."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator
from typing import Any

from fastpipe.errors import ConfigError
from fastpipe.loading.loader import DataLoader

_UNITS = {"_per_s": "_per_second", "_s": "_seconds", "_us": "_microseconds"}


def export_to_prometheus(loader: DataLoader, registry: Any = None, name: str = "fastpipe_loader") -> Any:
    """Exports `DataLoader.stats` to Prometheus, as gauges such as ``fastpipe_loader_this_epoch_wait_share``.

    Needs ``prometheus-client`` (``pip install prometheus-client``). Serve it with
    ``prometheus_client.start_http_server(9000)``, or print ``prometheus_client.generate_latest()``.

    Args:
        loader: a `fastpipe.DataLoader`; the exporter doesn't keep it alive.
        registry: the registry to register in; None for ``prometheus_client.REGISTRY``.
        name: the gauges' prefix; it must differ between the loaders of a registry.

    Returns:
        The collector, for ``registry.unregister``.

    Raises:
        ConfigError: ``prometheus-client`` isn't installed.
    """
    try:
        from prometheus_client import REGISTRY
        from prometheus_client.core import GaugeMetricFamily
    except ImportError as error:
        raise ConfigError(
            f"export_to_prometheus needs prometheus-client ({error}): pip install prometheus-client"
        ) from error
    weak_loader = weakref.ref(loader)

    class Collector:
        def collect(self) -> Iterator[object]:
            alive = weak_loader()
            if alive is None:
                return
            statistics = alive.stats()
            labels = {"rank": str(statistics["rank"]), "host": statistics["host"]}
            for key, value in statistics.flat().items():
                family = GaugeMetricFamily(f"{name}_{_metric(key)}", f"DataLoader.stats(): {key}", labels=[*labels])
                family.add_metric([*labels.values()], value)
                yield family

    collector = Collector()
    (REGISTRY if registry is None else registry).register(collector)
    return collector


def _metric(key: str) -> str:
    """Converts a key to a Prometheus name: units as words; letters, digits and underscores only."""
    for short, long in _UNITS.items():
        key = re.sub(rf"{short}\b", long, key)
    return re.sub(r"\W", "_", key)
