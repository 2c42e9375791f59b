"""Hooks of torch: its loader, the memory of batches, and functions that don't heed a tensor's class."""
