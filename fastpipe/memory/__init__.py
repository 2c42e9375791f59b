"""The memory of batches: used again, and shared by a loader's workers and the main process."""
