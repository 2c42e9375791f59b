"""Pillow images without pixels: opening files, recording operations on them, and making their pixels by the core."""
