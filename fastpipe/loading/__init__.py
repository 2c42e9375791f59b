"""From datasets to batches: the loader, and samplers that hold no list of indices."""

from fastpipe.loading import samplers
from fastpipe.loading.loader import DataLoader

__all__ = ["DataLoader", "samplers"]
