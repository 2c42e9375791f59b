"""Pillow images without pixels: files that are opened, what is recorded on them, and their pixels by the core."""
