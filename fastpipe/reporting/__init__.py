"""Reports of all tools: tables and text (`tables`), pictures, files (`output`)."""

from fastpipe.progress_bar import load_rich

load_rich()  # before any module here imports rich
