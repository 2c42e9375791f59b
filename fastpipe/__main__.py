"""``python -m fastpipe``: the command line."""

from __future__ import annotations

from fastpipe.cli import main

if __name__ == "__main__":
    main()
