"""Makes batches of images from bytes and paths, without a dataset."""
