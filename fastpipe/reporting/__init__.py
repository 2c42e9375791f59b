"""Output of all tools: tables and text (`tables`), pictures (`pictures`), files (`output`)."""

from fastpipe.progress_bar import load_rich

load_rich()  # must run before a module here imports rich
