"""From datasets to batches: samplers that hold no list of indices."""

from fastpipe.loading import samplers

__all__ = ["samplers"]
