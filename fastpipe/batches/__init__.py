"""Batches of images that come from anywhere, without a data set."""
