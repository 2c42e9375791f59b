"""How all tools tell what they found: text and tables (`tables`), pictures (`plots`, `pictures`), files (`output`)."""

from fastpipe._rich import load_rich

load_rich()  # before any module here imports rich
