"""Hooks of Pillow: the files that it opens, and its functions and methods of images."""
