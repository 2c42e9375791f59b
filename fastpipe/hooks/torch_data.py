"""torch's loader: batches of data sets that are known, and the memory of batches of any others."""

from __future__ import annotations

from types import ModuleType

from fastpipe.hooks.patches import Patches


def hook(module: ModuleType, patches: Patches) -> None:
    """Replaces the fetcher of map-style data sets."""
