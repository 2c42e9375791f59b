"""Decodes and augments images for PyTorch training, with torchvision's API, pixels and random numbers."""
