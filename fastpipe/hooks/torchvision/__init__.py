"""Hooks of torchvision: its transforms, its functions of images and tensors, and its decoders."""
