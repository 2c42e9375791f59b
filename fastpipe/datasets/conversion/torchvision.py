"""torchvision's data sets: those whose samples are files, those in memory, and both as v2 wraps them."""

from __future__ import annotations

from fastpipe.datasets.conversion import torchvision_arrays, torchvision_files

TABLE = {**torchvision_files.TABLE, **torchvision_arrays.TABLE}
"""The classes that are known, and how each is converted."""
