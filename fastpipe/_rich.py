"""rich, imported without a trace: `rich.style` draws from Python's global generator while it is imported."""

from __future__ import annotations

import importlib
import random
import sys

__all__ = ["load_rich"]


def load_rich() -> None:
    """Imports what of rich moves Python's generator, and puts that back; call it before other imports of rich."""
    if "rich.style" not in sys.modules:
        state = random.getstate()
        try:
            importlib.import_module("rich.style")
        finally:
            random.setstate(state)
