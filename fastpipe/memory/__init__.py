"""Memory for batches: reused, and shared between a loader's workers and the main process."""
